"""Which device a command runs on: the one that was asked for, else the run's own where this machine has it."""

from __future__ import annotations

import argparse
import logging

import framework
from framework.devices import NAMES
from framework.errors import NotSupportedError

_log = logging.getLogger(__name__)


def add_device_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--device``; `default` says in words what is taken without it."""
    parser.add_argument(
        "--device",
        choices=NAMES,
        help=f"what computes: the CPU with our kernels, or an accelerator through XLA; xla-cpu tries that on the CPU "
        f"(default: {default})",
    )


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
