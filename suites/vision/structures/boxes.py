"""Boxes: axis-aligned rectangles of one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import ShapeError
from suites.vision.geometry import Placement


@dataclass(frozen=True)
class Boxes:
    """Boxes [x1, y1, x2, y2] in pixels of a picture; never changed in place.

    Attributes:
        array: float32 [M, 4]; float64 where more digits count, as for figures of a benchmark.

    Raises:
        ShapeError: the array is not [M, 4].
    """

    array: np.ndarray

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32)
        if array.size == 0:
            array = array.reshape(0, 4)
        if array.ndim != 2 or array.shape[1] != 4:
            raise ShapeError(f"Boxes: the array is {list(array.shape)}; boxes are [M, 4]")
        object.__setattr__(self, "array", array)

    @classmethod
    def none(cls) -> Boxes:
        """No boxes."""
        return cls(np.zeros((0, 4), np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Boxes]) -> Boxes:
        """All boxes of `parts`, in order."""
        return cls(np.concatenate([part.array for part in parts])) if parts else cls.none()

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, keep: np.ndarray | slice) -> Boxes:
        """The boxes that `keep` (bool or indices) selects."""
        return Boxes(self.array[keep])

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.array)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype=dtype) if copy or dtype is not None else self.array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Boxes) and np.array_equal(self.array, other.array)

    __hash__ = None  # type: ignore[assignment]

    @property
    def sides(self) -> np.ndarray:
        """Widths and heights, float32 [M, 2]."""
        return self.array[:, 2:] - self.array[:, :2]

    @property
    def areas(self) -> np.ndarray:
        """float32 [M], square pixels."""
        return self.sides.prod(axis=1)

    @property
    def centres(self) -> np.ndarray:
        """float32 [M, 2], (x, y)."""
        return (self.array[:, :2] + self.array[:, 2:]) / 2

    def placed(self, placement: Placement) -> Boxes:
        """The boxes where `placement` puts them."""
        return Boxes(placement.boxes(self.array))

    def clipped(self, size: tuple[int, int]) -> Boxes:
        """The boxes cut to a picture of `size` (H, W)."""
        height, width = size
        return Boxes(np.clip(self.array, 0, np.asarray([width, height, width, height], np.float32)))

    def iou(self, others: Boxes | np.ndarray) -> np.ndarray:
        """Intersection over union with each of `others`, [M, N]; 0 where both are empty."""
        return pairwise_iou(self.array, np.asarray(others))


def pairwise_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IoU [R, M] of every box of `a` [R, 4] with every box of `b` [M, 4]."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inner = sides.clip(0).prod(axis=2)
    areas = ((x[:, 2:] - x[:, :2]).prod(axis=1) for x in (a, b))
    return inner / np.maximum(next(areas)[:, None] + next(areas)[None, :] - inner, 1e-9)
