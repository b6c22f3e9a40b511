"""Hosts through `jax.distributed`: how processes meet, and how a few bytes go from each to all."""

from __future__ import annotations

import socket
import time
from functools import cache
from typing import Any

import numpy as np

from framework.data.world import World
from framework.errors import AttributeValueError, HostError
from framework.xla.runtime import as_ours, jax

_LAST_WORDS = 1800  # seconds that hosts wait at the end for host 0, which writes the run's last files
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def join(place: World | None, coordinator: str | None, *, devices: int, wait: int, heartbeat: int) -> World:
    """See `framework.hosts.join`."""
    module = jax()
    end = time.monotonic() + wait
    given: dict[str, Any] = {}
    if place is not None and coordinator is not None:
        given = {"coordinator_address": coordinator, "num_processes": place.size, "process_id": place.rank}
        given["cluster_detection_method"] = "deactivate"
        if coordinator.rpartition(":")[0] in _LOOPBACK:  # else it listens on all interfaces
            given["coordinator_bind_address"] = coordinator
        if not place.first:
            _expect_somebody(coordinator, end)
    try:
        module.distributed.initialize(
            **given,
            local_device_ids=list(range(devices)),  # a process of Slurm or Open MPI would take one of its GPUs
            initialization_timeout=max(int(end - time.monotonic()), 1),
            heartbeat_timeout_seconds=heartbeat,
            shutdown_timeout_seconds=_LAST_WORDS,
        )
    except (RuntimeError, ValueError) as e:
        first_line = str(e).splitlines()[0] if str(e) else type(e).__name__
        if coordinator is None:
            raise HostError(
                f"hosts: JAX finds no Slurm, Open MPI, Kubernetes or TPU pod here that it could ask ({first_line}); "
                "say which host this is, with --hosts N --host I --coordinator ADDRESS:PORT"
            ) from None
        raise HostError(
            f"hosts: the hosts did not meet at {coordinator} within {wait} s ({first_line}); start all of them, with "
            "the same number of hosts, and look whether they reach the coordinator's port"
        ) from None
    return World(module.process_index(), module.process_count())


def _expect_somebody(coordinator: str, end: float) -> None:
    """Waits until somebody listens there. JAX would end the process, without an error that Python sees."""
    host, _, port = coordinator.rpartition(":")
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            return
        except ValueError:
            raise AttributeValueError(f"hosts: coordinator is {coordinator!r}; needed is ADDRESS:PORT") from None
        except OSError as e:
            if time.monotonic() > end:
                raise HostError(
                    f"hosts: nobody answers at {coordinator} ({e}); start host 0, and look whether its address and "
                    "port can be reached from here"
                ) from None
        time.sleep(0.2)


def gather(data: bytes, world: World) -> list[bytes]:
    """What each host gave, on each of them."""
    lengths = _gather_rows(np.array([len(data)], np.int64), world)[:, 0]
    padded = np.zeros(_room(int(lengths.max())), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = _gather_rows(padded, world)
    return [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]


def _room(length: int) -> int:
    """Few sizes, so that few functions are compiled."""
    return 1 << max(length - 1, 255).bit_length()


def _gather_rows(row: np.ndarray, world: World) -> np.ndarray:
    """[size] of each host as [hosts, size]."""
    module, (device, split, spread) = jax(), _exchange(world)
    mine = module.device_put(row[None], device)
    rows = module.make_array_from_single_device_arrays((world.size, row.size), split, [mine])
    try:
        return np.asarray(spread(rows))
    except (module.errors.JaxRuntimeError, ValueError) as e:
        raise as_ours(e) from None


@cache
def _exchange(world: World) -> tuple[Any, Any, Any]:
    """This host's first device, how a row of each host lies on the first ones, and what makes all rows known to all."""
    module = jax()
    first: dict[int, Any] = {}
    for each in module.devices():
        first.setdefault(each.process_index, each)
    axis = (module.sharding.AxisType.Auto,)
    mesh = module.sharding.Mesh(np.array([first[rank] for rank in range(world.size)]), ("host",), axis_types=axis)
    split, whole = (
        module.sharding.NamedSharding(mesh, module.sharding.PartitionSpec(*axes)) for axes in (["host"], [])
    )
    return first[world.rank], split, module.jit(lambda rows: rows, out_shardings=whole)
