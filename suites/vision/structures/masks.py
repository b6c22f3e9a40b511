"""Masks: the shapes of objects, as polygons or as run-length codes (https://cocodataset.org/#format-data)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
from pycocotools import mask as coco

from framework import limits
from framework.errors import DataError, ShapeError
from suites.vision.geometry import Move
from suites.vision.structures.boxes import Boxes

Polygons: TypeAlias = tuple[np.ndarray, ...]  # parts of one object, each float64 [P, 2], (x, y)


@dataclass(frozen=True)
class Patch:
    """A shape as annotation tools paint it: a bitmap that lies somewhere in its picture.

    Attributes:
        bitmap: bool [h, w].
        left, top: pixels of the picture at its first column and row; it may reach out of the picture.
    """

    bitmap: np.ndarray
    left: int
    top: int

    @classmethod
    def of_rows(cls, runs: Sequence[int], left: int, top: int, width: int, height: int) -> Patch:
        """From run lengths row by row, of pixels outside, inside, outside ...; DataError where they do not fill it."""
        counts = np.asarray(runs, np.int64)
        if width < 1 or height < 1 or width * height > limits.current().pixels:
            raise DataError(f"a mask of {width}x{height} pixels")
        if counts.ndim != 1 or (counts < 0).any() or counts.sum() != width * height:
            raise DataError(f"the runs of a mask cover {counts.sum()} pixels; it is {width}x{height}")
        inside = np.arange(len(counts)) % 2 == 1
        return cls(np.repeat(inside, counts).reshape(height, width), left, top)

    @property
    def corners(self) -> np.ndarray:
        """The first and last corner of what is inside, float64 [2, 2], (x, y); DataError where nothing is."""
        rows, columns = (np.flatnonzero(self.bitmap.any(axis=axis)) for axis in (1, 0))
        if not len(rows):
            raise DataError("a mask is empty")
        ends = [[columns[0], rows[0]], [columns[-1] + 1, rows[-1] + 1]]
        return np.array(ends, np.float64) + np.array([self.left, self.top])

    def whole(self, size: tuple[int, int]) -> np.ndarray:
        """bool [H, W] of a picture of this size."""
        found = np.zeros(size, bool)
        (height, width), (x, y) = self.bitmap.shape, (max(self.left, 0), max(self.top, 0))
        part = self.bitmap[y - self.top : max(size[0] - self.top, 0), x - self.left : max(size[1] - self.left, 0)]
        found[y : max(self.top + height, 0), x : max(self.left + width, 0)] = part
        return found


@dataclass(frozen=True)
class Masks:
    """Shapes of M objects of one picture; never changed in place.

    Attributes:
        shapes: of each object its polygons, or its bitmap as pycocotools' run-length code: a dict with "size" and
            "counts" (bytes).
        size: (H, W) of the picture.
    """

    shapes: tuple[Polygons | dict[str, Any], ...]
    size: tuple[int, int]

    @classmethod
    def of_polygons(cls, objects: Sequence[Sequence[Sequence[float]]], size: tuple[int, int]) -> Masks:
        """From COCO's lists [x1, y1, x2, y2, ...], one or more for each object.

        Raises:
            DataError: a polygon has fewer than three points, or an odd number of coordinates.
        """
        return cls(tuple(tuple(_polygon(part) for part in parts) for parts in objects), size)

    @classmethod
    def of_bitmaps(cls, bitmaps: np.ndarray) -> Masks:
        """From bool [M, H, W]."""
        if bitmaps.ndim != 3:
            raise ShapeError(f"Masks: bitmaps are {list(bitmaps.shape)}; they must be [M, H, W]")
        return cls(tuple(encode(bitmap) for bitmap in bitmaps), (bitmaps.shape[1], bitmaps.shape[2]))

    @classmethod
    def joined(cls, parts: Sequence[Masks]) -> Masks:
        """All shapes of `parts`, which are of pictures of one size."""
        sizes = {part.size for part in parts}
        if len(sizes) != 1:
            raise ShapeError(f"Masks: of pictures of {len(sizes)} sizes; masks of one picture can be joined")
        return cls(tuple(shape for part in parts for shape in part.shapes), sizes.pop())

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, keep: np.ndarray) -> Masks:
        """The shapes that `keep` (bool or indices) selects."""
        return Masks(tuple(self.shapes[i] for i in np.arange(len(self))[keep]), self.size)

    def moved(self, by: Move) -> Masks:
        """The shapes after a step of geometry. Polygons may reach out of the picture; bitmaps are cut to it."""
        return Masks(tuple(_moved(shape, by) for shape in self.shapes), by.after)

    def warped(self, matrix: np.ndarray, size: tuple[int, int]) -> Masks:
        """The shapes after an affine map [2, 3] of pixel centres, in a picture of the same `size` (H, W)."""
        shapes = [
            cv2.warpAffine(bitmap.astype(np.uint8), matrix, size[::-1], flags=cv2.INTER_NEAREST)
            for bitmap in self.bitmaps()
        ]
        return Masks.of_bitmaps(np.stack(shapes).astype(bool))

    def codes(self) -> list[dict[str, Any]]:
        """A run-length code of each shape, cut to the picture."""
        return [shape if isinstance(shape, dict) else _rasterised(shape, self.size) for shape in self.shapes]

    def bitmaps(self) -> np.ndarray:
        """bool [M, H, W]."""
        if not self.shapes:
            return np.zeros((0, *self.size), bool)
        return np.moveaxis(coco.decode(self.codes()), 2, 0).astype(bool)

    def areas(self) -> np.ndarray:
        """float64 [M], square pixels."""
        return coco.area(self.codes()).astype(np.float64) if self.shapes else np.zeros(0)

    def boxes(self) -> Boxes:
        """The smallest box around each shape; without area where nothing of it is in the picture."""
        if not self.shapes:
            return Boxes.none()
        sides = coco.toBbox(self.codes())
        return Boxes(np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:]], axis=1))


def corners_of(part: np.ndarray | Patch) -> tuple[float, float, float, float]:
    """x1, y1, x2, y2 around an outline [P, 2] or a bitmap; DataError for an empty one."""
    points = part.corners if isinstance(part, Patch) else part
    (x1, y1), (x2, y2) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return x1, y1, x2, y2


def merged(parts: Sequence[np.ndarray | Patch], size: tuple[int, int]) -> Polygons | dict[str, Any]:
    """The shape of an object of several outlines [P, 2] and bitmaps, of a picture of `size` (H, W).

    It is one of polygons where there are no bitmaps; `size` is not looked at then.
    """
    outlines = tuple(part for part in parts if not isinstance(part, Patch))
    if len(outlines) == len(parts):
        return outlines
    found = np.logical_or.reduce([part.whole(size) for part in parts if isinstance(part, Patch)])
    return encode(found | Masks((outlines,), size).bitmaps()[0] if outlines else found)


def encode(bitmap: np.ndarray) -> dict[str, Any]:
    """The run-length code of a bitmap [H, W]."""
    return coco.encode(np.asfortranarray(bitmap.astype(np.uint8)))


def runs_of(code: Mapping[str, Any]) -> np.ndarray:
    """The run lengths, int32 [R], of a shape: pixels outside, inside, outside ..., column by column.

    Args:
        code: pycocotools' run-length code, with "size" (H, W) and "counts": numbers of 5 bits a byte, the lowest first,
            from the fourth on as differences to the run before last; or already a list of run lengths.

    Raises:
        DataError: the runs are not as long as the picture has pixels.
    """
    height, width = code["size"]
    counts = code["counts"]
    runs = np.asarray(counts, np.int64) if isinstance(counts, list) else _uncompressed(counts)
    if runs.ndim != 1 or (runs < 0).any() or runs.sum() != height * width:
        raise DataError(
            f"a run-length code covers {int(runs.sum())} pixels; its picture of {width}x{height} has {height * width}"
        )
    return runs.astype(np.int32)


def _uncompressed(text: bytes | str) -> np.ndarray:
    """int64 run lengths of pycocotools' compressed text."""
    codes = np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8).astype(np.int64) - 48
    if not len(codes):
        return np.zeros(0, np.int64)
    if codes.min() < 0 or codes.max() > 63 or codes[-1] & 32:
        raise DataError("a run-length code is damaged: it is no text of pycocotools, or cut off")
    last = codes & 32 == 0  # the last byte of its number
    number = np.cumsum(last) - last
    starts = np.flatnonzero(np.concatenate([[True], last[:-1]]))
    place = 5 * (np.arange(len(codes)) - starts[number])
    if place.max() > 55:
        raise DataError("a run-length code is damaged: a number in it has more than 60 bits")
    runs = np.zeros(number[-1] + 1, np.int64)
    np.add.at(runs, number, (codes & 31) << place)
    negative = codes[last] & 16 != 0
    runs -= np.where(negative, np.int64(1) << (place[last] + 5), 0)
    for start in (1, 2):  # number i > 2 is a difference to number i - 2
        runs[start::2] = np.cumsum(runs[start::2])
    return runs


def _polygon(numbers: Sequence[float]) -> np.ndarray:
    array = np.asarray(numbers, np.float64)
    if array.ndim != 1 or len(array) < 6 or len(array) % 2:
        raise DataError(f"a polygon has {array.size} coordinates; it needs three points or more, x and y of each")
    return array.reshape(-1, 2)


def _moved(shape: Polygons | dict[str, Any], by: Move) -> Polygons | dict[str, Any]:
    if isinstance(shape, dict):
        return encode(by.labels(coco.decode(shape), 0))
    return tuple(by.step.points(part) for part in shape)


def _rasterised(parts: Polygons, size: tuple[int, int]) -> dict[str, Any]:
    codes = coco.frPyObjects([part.reshape(-1).tolist() for part in parts], *size)
    return coco.merge(codes)
