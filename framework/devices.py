"""Which device Programs run on: `framework.set_device`, `framework.device`.

Operators that are called eagerly run on the CPU, wherever Programs run. A Program takes what it reads to its device and
leaves its results and the states that it updates there; reading one brings it to the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from framework.context import context
from framework.errors import AttributeValueError

if TYPE_CHECKING:
    from framework.graph.executor import Executor
    from framework.tensors import Tensor

NAMES = ("cpu", "gpu", "tpu", "xla-cpu")
PRODUCTS = ("float32", "tf32", "bfloat16")

_executors: dict[tuple[str, int, str], Executor] = {}  # one a device, so that what was traced for it is found again


def set_device(name: str, devices: int = 1, products: str = "float32") -> None:
    """Programs that this thread calls from here on run on this device.

    Args:
        name: `cpu`, the core's own kernels; `gpu` or `tpu`, the first one there is, through XLA; `xla-cpu`, XLA on the
            CPU, to try on a laptop what runs on a GPU.
        devices: how many of them share each batch: arguments whose first extent they divide are split along it. The
            results are those of one device, batch norm over the whole batch included.
        products: how an accelerator takes the float32 factors of matrix products, convolutions and attention:
            `float32` as they are; `tf32` with 10 bits of mantissa where the device can; `bfloat16` with 7. Sums are
            float32 in all of them, and so is what lies between operators; a convolution of `bfloat16` rounds its
            result once more.

    Raises:
        AttributeValueError: there is no such device, or the CPU's own kernels are to round factors.
        NotSupportedError: JAX is missing or finds fewer devices; the message has the command that installs it.
    """
    context.executor = executor_of(name, devices, products)


@contextlib.contextmanager
def device(name: str, devices: int = 1, products: str = "float32") -> Iterator[None]:
    """Inside, Programs that this thread calls run on this device; see `set_device`."""
    before = context.executor
    context.executor = executor_of(name, devices, products)
    try:
        yield
    finally:
        context.executor = before


def spread(states: Iterable[Tensor]) -> None:
    """Keep states in parts on the devices that share each batch, instead of whole on each of them.

    It is for the slots of an optimizer: N devices of a host hold an N-th of them each, and compute that part of the
    update (ZeRO stage 1, Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1). A state without an axis that divides
    by N stays whole. The numbers stay the same. On one device, and on the CPU, nothing changes.

    Args:
        states: tensors that Programs of this thread's device update.
    """
    if context.executor is not None:
        context.executor.spread(states)


def current_device() -> str:
    """The name of the device that Programs of this thread run on."""
    return "cpu" if context.executor is None else str(context.executor.device)


def placement() -> tuple[str, int, str]:
    """Where Programs of this thread run, as `device` takes it: for code that is called in other threads later."""
    own = context.executor
    return ("cpu", 1, "float32") if own is None else (str(own.device), int(own.devices), str(own.products))


def executor_of(name: str, devices: int = 1, products: str = "float32") -> Executor | None:
    """What makes Programs ready for a device; None for the CPU's own. Raises as `set_device` does."""
    if name not in NAMES:
        raise AttributeValueError(f"device: there is no '{name}'; there are {', '.join(NAMES)}")
    if devices < 1 or (name == "cpu" and devices > 1):
        raise AttributeValueError(
            f"device: {devices} of {name}; it must be 1 or more, and 1 for cpu, which has threads"
        )
    if products not in PRODUCTS or (name == "cpu" and products != "float32"):
        raise AttributeValueError(
            f"device: products is '{products}' with {name}; there are {', '.join(PRODUCTS)}, and float32 alone for cpu"
        )
    if name == "cpu":
        return None
    if (name, devices, products) not in _executors:
        from framework.xla.runtime import find_devices  # JAX is an extra that a run on the CPU never imports

        found = find_devices(name, devices)
        from framework.xla.executor import XlaExecutor

        _executors[name, devices, products] = XlaExecutor(name, found, products)
    return _executors[name, devices, products]
