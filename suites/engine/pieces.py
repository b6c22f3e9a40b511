"""Whether networks that look at some rows at a time, such as heads of detectors, look at all of them in one go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_WHOLE: ContextVar[bool] = ContextVar("whole", default=False)


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Inside, a network is traced without the control flow that leaves rows out: its layers can all be followed.

    It computes the same of the rows that are there, in the time of all.
    """
    before = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(before)


def are_whole() -> bool:
    """Whether this is inside of `whole`."""
    return _WHOLE.get()
