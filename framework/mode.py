"""Who looked at a layer's train/eval mode while a Program was traced.

A Program is right only for the modes it was traced with. `Layer.training` calls `note`, the tracer collects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from framework.context import context


class HasMode(Protocol):
    """What `note` takes: something that trains or evaluates, and can say which without being noted."""

    def mode_now(self) -> bool:
        """True while training."""


def note(layer: HasMode) -> bool:
    """The layer's mode (True: training); remembered when a trace watches."""
    training = layer.mode_now()
    if context.modes is not None:
        context.modes[layer] = training
    return training


@contextlib.contextmanager
def watch(modes: dict[HasMode, bool]) -> Iterator[None]:
    """Inside, every mode that is read is put into `modes`."""
    context.modes = modes
    try:
        yield
    finally:
        context.modes = None
