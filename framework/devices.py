"""Which device Programs run on: `framework.set_device`, `framework.device`.

Operators that are called eagerly run on the CPU, wherever Programs run. A Program takes what it reads to its device and
leaves its results and the states that it updates there; reading one brings it to the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.context import context
from framework.errors import AttributeValueError

if TYPE_CHECKING:
    from framework.graph.executor import Executor

NAMES = ("cpu", "gpu", "tpu", "xla-cpu")

_executors: dict[tuple[str, int], Executor] = {}  # one a device, so that what was traced for it is found again


def set_device(name: str, devices: int = 1) -> None:
    """Programs that this thread calls from here on run on this device.

    Args:
        name: `cpu`, the core's own kernels; `gpu` or `tpu`, the first one there is, through XLA; `xla-cpu`, XLA on the
            CPU, to try on a laptop what runs on a GPU.
        devices: how many of them share each batch: arguments whose first extent they divide are split along it. The
            results are those of one device, batch norm over the whole batch included.

    Raises:
        AttributeValueError: there is no such device.
        NotSupportedError: JAX is missing or finds fewer devices; the message has the command that installs it.
    """
    context.executor = executor_of(name, devices)


@contextlib.contextmanager
def device(name: str, devices: int = 1) -> Iterator[None]:
    """Inside, Programs that this thread calls run on this device; see `set_device`."""
    before = context.executor
    context.executor = executor_of(name, devices)
    try:
        yield
    finally:
        context.executor = before


def current_device() -> str:
    """The name of the device that Programs of this thread run on."""
    return "cpu" if context.executor is None else str(context.executor.device)


def placement() -> tuple[str, int]:
    """Where Programs of this thread run, as `device` takes it: for code that is called in other threads later."""
    return current_device(), 1 if context.executor is None else int(context.executor.devices)


def executor_of(name: str, devices: int = 1) -> Executor | None:
    """What makes Programs ready for a device; None for the CPU's own. Raises as `set_device` does."""
    if name not in NAMES:
        raise AttributeValueError(f"device: there is no '{name}'; there are {', '.join(NAMES)}")
    if devices < 1 or (name == "cpu" and devices > 1):
        raise AttributeValueError(
            f"device: {devices} of {name}; it must be 1 or more, and 1 for cpu, which has threads"
        )
    if name == "cpu":
        return None
    if (name, devices) not in _executors:
        from framework.xla.runtime import find_devices  # JAX is an extra that a run on the CPU never imports

        found = find_devices(name, devices)
        from framework.xla.executor import XlaExecutor

        _executors[name, devices] = XlaExecutor(name, found)
    return _executors[name, devices]
