"""JAX as it is used here: found and set up once, when a device is first asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from framework.errors import DeviceMemoryError, HostError, NotSupportedError, PaddockError, StateError
from framework.extras import install_command

PLATFORMS = {"xla-cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
_EXTRAS = {"xla-cpu": "xla", "gpu": "cuda", "tpu": "xla"}
_OLDEST = (0, 10, 1)
_OF_CONNECTIONS = ("Gloo", "NCCL", "onnection", "oordination")  # in errors of what hosts tell each other
_BROKEN_ON_GPUS = ("0.10.2", "0.11.0")  # float32 scatter-add in a loop of compare and swap: jax-ml/jax#38806


@cache
def jax() -> Any:
    """The module, with 64-bit types on.

    Raises:
        NotSupportedError: it is not installed, or too old; the message has the command.
    """
    try:
        import jax as module
    except ImportError as e:
        raise NotSupportedError(f"device: JAX is not installed ({e}); run: {install_command('xla')}") from None
    except RuntimeError as e:  # its wheels ask for AVX
        raise NotSupportedError(f"device: JAX does not run on this machine ({e}); take the device cpu") from None
    version = tuple(int(part) for part in module.__version__.split(".")[:3] if part.isdigit())
    if version < _OLDEST:
        raise NotSupportedError(
            f"device: JAX {module.__version__} is too old, {'.'.join(map(str, _OLDEST))} is needed; run: "
            f"{install_command('xla')} --upgrade"
        )
    module.config.update("jax_enable_x64", True)  # int64 and float64 are types of the core
    return module


def find_devices(name: str, count: int) -> list[Any]:
    """The first devices of a kind: `xla-cpu`, `gpu` or `tpu`; so many of each host where several run together.

    Raises:
        NotSupportedError: this machine, or another host, has fewer, or JAX cannot reach them; the message says what to
            do.
    """
    module = jax()
    try:
        found = module.local_devices(backend=PLATFORMS[name])
    except RuntimeError as e:
        first_line = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise NotSupportedError(
            f"device: there is no {name} that JAX {module.__version__} can use ({first_line}); look whether the driver "
            f"lists it, and run: {install_command(_EXTRAS[name])}"
        ) from None
    if name == "gpu" and module.__version__ in _BROKEN_ON_GPUS:
        raise NotSupportedError(
            f"device: JAX {module.__version__} adds gradients of embeddings hundreds of times too slowly on GPUs; "
            f"run: {install_command('cuda')}"
        )
    if len(found) < count:
        more = " (JAX_NUM_CPU_DEVICES makes more of a CPU)" if name == "xla-cpu" else ""
        raise NotSupportedError(f"device: {count} of {name} are asked for, but there are {len(found)}{more}")
    return _of_each_host(module, name, count) if module.process_count(PLATFORMS[name]) > 1 else list(found[:count])


def _of_each_host(module: Any, name: str, count: int) -> list[Any]:
    by_host: dict[int, list[Any]] = {}
    for each in module.devices(PLATFORMS[name]):
        by_host.setdefault(each.process_index, []).append(each)
    for rank, found in by_host.items():
        if len(found) < count:
            raise NotSupportedError(f"device: {count} of {name} are asked for, but host {rank} has {len(found)}")
    return [each for _, found in sorted(by_host.items()) for each in found[:count]]


def read(buffer: Any) -> np.ndarray:
    """A copy of a device's array, which is waited for.

    Raises StateError or DeviceMemoryError where the run that makes it failed.
    """
    try:
        if buffer.is_fully_addressable or buffer.is_fully_replicated:
            return np.array(buffer)
        found = np.empty(buffer.shape, buffer.dtype)  # of a state in parts, of which each host has all
        for shard in buffer.addressable_shards:
            found[shard.index] = shard.data
        return found
    except (jax().errors.JaxRuntimeError, ValueError) as e:  # a lost connection is one or the other
        raise as_ours(e) from None


def as_ours(e: BaseException, memory: str = "") -> BaseException:
    """An error of XLA as one of the core's, where the core has one for it; `memory` says what takes the most of it."""
    if isinstance(e, PaddockError):
        return e
    text = str(e).splitlines()[0] if str(e) else type(e).__name__
    if "RESOURCE_EXHAUSTED" in text:
        return DeviceMemoryError(
            f"device: out of memory ({text}){memory and '; ' + memory}; make the batch or the images smaller "
            "(runtime.accumulate gathers the gradients of several), or take runtime.precision=bfloat16"
        )
    if jax().process_count() > 1 and any(word in text for word in _OF_CONNECTIONS):
        return HostError(f"hosts: another host is lost ({text}); its own output says more; {HostError.GO_ON}")
    return StateError(f"device: a run failed ({text})")
