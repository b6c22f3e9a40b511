"""Which operator made the first NaN: a search that is switched on for a block of code."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from framework import _core


@contextlib.contextmanager
def detect_anomaly(*, infinite: bool = False) -> Iterator[None]:
    """Inside, the first operator of this thread whose result holds a NaN is an error that names it.

    Threads that Paddock starts inside for Hogwild training search too; threads of your own enter the block themselves.

    It works eagerly, in gradients and in Programs, in the order in which operators run; the message has the operator,
    how many numbers are NaN or infinite, whether its inputs were that already, and for a Program the line that was
    traced. A NaN that a later `where` takes out again is found too. Every result is read once more, so memory-bound
    steps take up to twice as long. A Program that fails leaves states that it had begun to write torn, as in any
    failed run: continue from a checkpoint.

    Args:
        infinite: search infinities too. Masks and logarithms of zero make them on purpose, so this is off.

    Raises:
        NumericsError: inside, where the first such number is made.

    >>> with framework.detect_anomaly():
    ...     loss = step(batch)
    """
    before = _core.set_number_check(2 if infinite else 1)
    try:
        yield
    finally:
        _core.set_number_check(before)


def search_here() -> int:
    """Return how this thread searches; `search_like` switches another thread to it."""
    level = _core.set_number_check(0)
    _core.set_number_check(level)
    return level


def search_like(level: int) -> None:
    """Search in this thread from now on as another one does, by its `search_here`."""
    _core.set_number_check(level)
