"""Shapes of all objects of a data set in flat arrays, which worker processes share and nothing copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any, overload

import cv2
import numpy as np
from pycocotools import mask as coco

from framework.errors import DataError
from suites.vision.structures import Masks, runs_of
from suites.vision.structures.masks import Polygons

Shape = Polygons | dict[str, Any]  # polygons, or a run-length code of pycocotools with "size" and "counts" (bytes)


class ShapeTable:
    """Shapes of T objects, polygons and run-length codes mixed.

    Args:
        shapes: of each object, see `Masks`.
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        points: list[np.ndarray] = []
        corners, parts, codes = [0], [0], [0]  # ends of each polygon, of each object's polygons, of each object's code
        texts = bytearray()
        for shape in shapes:
            if isinstance(shape, dict):
                texts += shape["counts"]
            else:
                points += shape
                corners += [len(part) for part in shape]
            parts.append(0 if isinstance(shape, dict) else len(shape))
            codes.append(len(texts))
        self._points = np.concatenate([np.zeros((0, 2)), *points])
        self._corners, self._parts = np.cumsum(corners), np.cumsum(parts)
        self._codes, self._texts = np.array(codes, np.int64), np.frombuffer(bytes(texts), np.uint8)

    def __len__(self) -> int:
        return len(self._parts) - 1

    def masks(self, rows: np.ndarray, size: tuple[int, int]) -> Masks:
        """The shapes of the objects `rows` (indices), of a picture of `size` (H, W)."""
        return Masks(tuple(self._shape(int(row), size) for row in rows), size)

    def _shape(self, row: int, size: tuple[int, int]) -> Shape:
        first, last = self._parts[row], self._parts[row + 1]
        if first == last:
            code = self._texts[self._codes[row] : self._codes[row + 1]]
            return {"size": list(size), "counts": code.tobytes()}
        ends = self._corners[first : last + 1]
        return tuple(self._points[a:b] for a, b in pairwise(ends))


class ImageMasks(Sequence[Masks]):
    """The shapes of chosen images, made when they are asked for.

    Args:
        shapes: of all objects.
        offsets: int64 [I + 1]; the objects of image i are offsets[i] to offsets[i + 1].
        chosen: indices of the images wanted.
        sizes: int [I, 2], (H, W) of each image.
    """

    def __init__(self, shapes: ShapeTable, offsets: np.ndarray, chosen: np.ndarray, sizes: np.ndarray) -> None:
        self._shapes, self._offsets, self._chosen, self._sizes = shapes, offsets, chosen, sizes

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Masks: ...

    @overload
    def __getitem__(self, index: slice) -> list[Masks]: ...

    def __getitem__(self, index: int | slice) -> Masks | list[Masks]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = self._chosen[index]
        height, width = self._sizes[at].tolist()
        return self._shapes.masks(np.arange(self._offsets[at], self._offsets[at + 1]), (height, width))


def read_shape(value: Any, who: str) -> Shape:
    """A shape from COCO's `segmentation`: lists of x, y, ... of one polygon or more, or a run-length code.

    Polygons of fewer than three points are left out.

    Args:
        value: what the file says.
        who: the annotation, for messages.

    Raises:
        DataError: it is neither, no polygon has three points, or the code does not fit its size.
    """
    if isinstance(value, Mapping):
        return _read_code(value, who)
    try:
        parts = [np.asarray(part, np.float64) for part in value]
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{who}: its segmentation is neither a list of polygons nor a run-length code") from None
    if any(part.ndim != 1 or len(part) % 2 or not np.isfinite(part).all() for part in parts):
        raise DataError(f"{who}: a polygon of its segmentation is no list x, y, x, y ... of finite numbers")
    kept = tuple(part.reshape(-1, 2) for part in parts if len(part) >= 6)
    if not kept:
        raise DataError(f"{who}: its segmentation has no polygon of three points or more")
    return kept


def lies_inside(parts: Polygons) -> bool:
    """Whether a polygon of a shape lies in another one, as people draw holes, which COCO's polygons cannot say."""
    boxes = [(part.min(axis=0), part.max(axis=0)) for part in parts]
    for (inner, (low, high)), (outer, (first, last)) in permutations(zip(parts, boxes, strict=True), 2):
        if (low > first).all() and (high < last).all():
            area = outer.astype(np.float32)
            if all(cv2.pointPolygonTest(area, (x, y), False) > 0 for x, y in inner.tolist()):
                return True
    return False


def _read_code(value: Mapping[str, Any], who: str) -> Shape:
    size, counts = value.get("size"), value.get("counts")
    if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)):
        raise DataError(f"{who}: the size of its run-length code is {size!r}; it must be [height, width]")
    if not isinstance(counts, (list, str, bytes)):
        raise DataError(f"{who}: its run-length code has no counts")
    try:
        runs = runs_of({"size": size, "counts": counts})
    except (DataError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{who}: its segmentation is no run-length code: {error}") from None
    code: dict[str, Any] = coco.frPyObjects({"size": size, "counts": runs.tolist()}, *size)
    return code
