"""Batches of few shapes, for devices that compile a Program anew for each: rows are filled up, and results cut back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

import framework

if TYPE_CHECKING:
    from suites.engine.contract.processor import Processor
    from suites.engine.contract.task import Task

Arrays = Mapping[str, np.ndarray]


class Fitting(Protocol):
    """Brings the arrays of a batch to one of few shapes without changing what its own rows give."""

    def fill(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """The arrays with rows behind their own that count for nothing."""

    def cut(self, outputs: Arrays, arrays: Arrays) -> dict[str, np.ndarray]:
        """The rows of `outputs` that belong to `arrays`, as these were before `fill`."""


@runtime_checkable
class FitsShapes(Protocol):
    """Offered by tasks and processors that bring batches to few shapes in their own way."""

    def fitting(self) -> Fitting | None:
        """Return what does it; None where any shape will do."""


@runtime_checkable
class StepsOnHost(Protocol):
    """Offered by tasks and processors some of whose batches come in ever new shapes, which no device compiles in time.

    Of a processor whose model is exported: its Program is such a one.
    """

    def on_host(self, arrays: Arrays) -> bool:
        """Whether the Program runs on the CPU for these arrays."""


class RowBuckets:
    """For arrays of one row a sample: the number of rows becomes a power of two, by copies of the last.

    Arrays that have not the same number of rows stay as they are.
    """

    def fill(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """See `Fitting.fill`."""
        rows = _rows(arrays)
        missing = size_above(rows, steps=1) - rows if rows else 0
        return {name: np.concatenate([a, np.repeat(a[-1:], missing, axis=0)]) for name, a in arrays.items()}

    def cut(self, outputs: Arrays, arrays: Arrays) -> dict[str, np.ndarray]:
        """See `Fitting.cut`."""
        rows = _rows(arrays)
        filled = size_above(rows, steps=1) if rows else 0
        return {name: a[:rows] if a.ndim and len(a) == filled else a for name, a in outputs.items()}


def size_above(size: int, *, steps: int) -> int:
    """The least allowed size of at least `size` (1 or more): between two powers of two there are `steps` of them."""
    power = 1 << max((size - 1).bit_length() - 1, 0)
    step = max(power // steps, 1)
    return -(-size // step) * step


def fitting_here(task: Task) -> Fitting | None:
    """What fits a task's batches to the device of this thread; None where any shape will do."""
    return task.fitting() if framework.current_device() != "cpu" and isinstance(task, FitsShapes) else None


def fitting_of(processor: Processor) -> Fitting | None:
    """What brings a processor's batches to few shapes: its own, or `RowBuckets`."""
    return processor.fitting() if isinstance(processor, FitsShapes) else RowBuckets()


def _rows(arrays: Arrays) -> int:
    """The number of rows that all arrays have; 0 where they differ."""
    found = {np.shape(array)[:1] for array in arrays.values()}
    return int(found.pop()[0]) if len(found) == 1 and () not in found else 0
