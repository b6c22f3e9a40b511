"""Batch: what a loader gives and a step takes; and data sets that may not be open yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from framework.errors import DataError
from suites.engine.config import Factory

T = TypeVar("T")

Batch = Mapping[str, Any]  # arrays [N, ...] by name, and lists of N with what is no array
Found = tuple[Mapping[str, np.ndarray], Batch]  # outputs, and the batch that they are of
POSITIONS = "positions"  # of a batch that holds some of the items: list of N, where each stands among them


def in_place(found: Iterable[tuple[Iterable[T], Batch]]) -> list[T]:
    """Return what was found of each item in the items' order, out of several batches with `POSITIONS`."""
    placed = [pair for results, batch in found for pair in zip(batch[POSITIONS], results, strict=True)]
    return [result for _, result in sorted(placed, key=lambda pair: pair[0])]


def readable(
    indices: Iterable[int], read: Callable[[int], tuple[str, Any]], count: int | None = None
) -> list[tuple[str, Any]]:
    """Return (name, item) pairs of samples, without those that cannot be read; `count` at most."""
    found: list[tuple[str, Any]] = []
    for index in indices:
        if len(found) == count:
            break
        with contextlib.suppress(DataError, OSError):
            found.append(read(index))
    return found


def opened(dataset: Any) -> Any:
    """Return the data set, made now if it is a `Factory`."""
    return dataset() if isinstance(dataset, Factory) else dataset
