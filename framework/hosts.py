"""Several hosts that run the same Programs on all their devices: `framework.hosts`.

Each host is a process that runs the same code on the same data. Their devices are one set: a batch is split over all of
them, and each host gets the results whole. What the hosts have to agree on beside, they tell each other here; every
function is called by all hosts, in the same order.

    framework.hosts.join(World(rank=0, size=2), "10.0.0.1:9876")
    framework.set_device("gpu", 8)      # 8 of each host
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, HostError, PaddockError

if TYPE_CHECKING:
    from types import ModuleType

HEARTBEAT = 15  # seconds of silence after which a host counts as lost and the processes of all others end

_world = ALONE
Made = TypeVar("Made")


def join(place: World | None, coordinator: str | None = None, *, devices: int = 1, wait: int = 300) -> World:
    """Meet the other hosts; to be called once, before anything runs on a device.

    A host that is lost later ends the processes of all others within `HEARTBEAT` seconds and a few more: from outside
    of Python, so that a parent process has to say it.

    Args:
        place: which of how many hosts this is; None finds it out on a cluster that JAX knows (Slurm, Open MPI,
            Kubernetes, TPU pods).
        coordinator: `ADDRESS:PORT` on host 0, on which all meet; None as above.
        devices: of this host that take part.
        wait: seconds for all hosts to come.

    Raises:
        NotSupportedError: JAX is missing.
        HostError: the others did not come, or the cluster was not found.
        AttributeValueError: a process can join once; a place needs a coordinator.
    """
    global _world
    if _world is not ALONE:
        raise AttributeValueError(f"hosts: this process is host {_world.rank} of {_world.size} already")
    if (place is None) != (coordinator is None):
        raise AttributeValueError("hosts: a place and a coordinator's ADDRESS:PORT are given together, or neither")
    _world = _channel().join(place, coordinator, devices=devices, wait=wait, heartbeat=HEARTBEAT)
    return _world


def world() -> World:
    """Which of how many hosts this process is: host 0 of 1 where it joined none."""
    return _world


def gather(data: bytes) -> list[bytes]:
    """What each host gave, in the hosts' order, on each of them."""
    return [data] if _world.size == 1 else _channel().gather(data, _world)


def send(value: Any) -> Any:
    """What host 0 gave, plain data as JSON has it, on each host."""
    return json.loads(gather(json.dumps(value if _world.first else None).encode())[0])


def expect_same(facts: Mapping[str, str]) -> None:
    """Raise HostError on every host where facts differ; names the first fact that does and the first such host."""
    if _world.size == 1:
        return
    all_facts = [json.loads(data) for data in gather(json.dumps(dict(facts)).encode())]
    for name in all_facts[0]:
        others = [rank for rank, found in enumerate(all_facts) if found.get(name) != all_facts[0][name]]
        if others:
            rank = others[0]
            raise HostError(
                f"hosts: {name} of host {rank} differs from that of host 0 ({all_facts[rank].get(name)} against "
                f"{all_facts[0][name]}); all hosts run the same {name}"
            )


def first_alone(make: Callable[[], Made]) -> Made | None:
    """Run `make` on host 0 while the others wait; None there. An error of it is raised on all hosts."""
    made: Made | None = None
    error: PaddockError | None = None
    if _world.first:
        try:
            made = make()
        except PaddockError as e:
            error = e
    told = send("" if error is None else str(error))
    if error is not None:
        raise error
    if told:
        raise HostError(f"hosts: host 0 cannot begin: {told}")
    return made


def digest(*parts: bytes | str) -> str:
    """A short digest of some parts, for `expect_same`."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()[:16]


def _channel() -> ModuleType:
    from framework.xla import hosts  # JAX is an extra that a run on one CPU never imports

    return hosts
