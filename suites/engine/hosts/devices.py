"""Which device a command runs on: the one that was asked for, else the run's own where this machine has it."""

from __future__ import annotations

import argparse
import contextlib
import logging
from typing import TYPE_CHECKING

import framework
from framework.devices import NAMES, PRODUCTS
from framework.errors import NotSupportedError

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime

_log = logging.getLogger(__name__)


def add_device_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--device``; `default` says in words what is taken without it."""
    parser.add_argument(
        "--device",
        choices=NAMES,
        help=f"what computes: the CPU with our kernels, or an accelerator through XLA; xla-cpu tries that on the CPU "
        f"(default: {default})",
    )


def add_products_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--products``."""
    parser.add_argument(
        "--products",
        choices=PRODUCTS,
        help="how an accelerator takes the factors of matrix products and convolutions (default: a run's own, float32 "
        "for an export); tf32 and bfloat16 keep 10 and 7 bits of mantissa, for speed",
    )


def training_device(runtime: Runtime) -> contextlib.AbstractContextManager[None]:
    """The devices that a run is trained on; raises as `framework.set_device` does."""
    return framework.device(runtime.device, runtime.devices, _products(runtime, runtime.device))


def placed(asked: str | None, runtime: Runtime, products: str | None = None) -> contextlib.AbstractContextManager[None]:
    """The device of a run's model, as `usable` finds it, and how it takes factors: as asked, else as the run's own.

    Raises NotSupportedError where the device that was asked for is not there, AttributeValueError where the CPU is to
    round factors.
    """
    name = usable(asked, runtime.device)
    return framework.device(name, products=products or _products(runtime, name))


def _products(runtime: Runtime, device: str) -> str:
    """Those of the run, but on the CPU, whose own kernels never round."""
    return runtime.products if device != "cpu" else "float32"


def usable(asked: str | None, own: str) -> str:
    """The device that was asked for; without one the run's own, or the CPU where this machine lacks that.

    Raises NotSupportedError where the device that was asked for is not there.
    """
    name = asked or own
    try:
        with framework.device(name):
            return name
    except NotSupportedError as error:
        if asked is not None:
            raise
        _log.warning("the run's device is %s, which is not usable here; taking the cpu (%s)", own, error)
        return "cpu"
