"""Annotations of a whole data set: rows as a reader collects them, then cleaned and in flat arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.shapes import ImageMasks, Shape, ShapeTable
from suites.detection.sample import GroundTruth
from suites.vision.pose import Pose, outside

_ROUNDING = 0.5  # pixels outside an image that count as rounding, not as a wrong box
_MOST_SIDE = 2**31  # pixels of an image's side below which sizes are kept


@dataclass
class RawAnnotations:
    """What a reader of a format collects before cleaning: one entry an image, one row a box.

    `boxes` rows are x1, y1, x2, y2 as the file has them; `owners` gives each row's image; `areas` is NaN
    where the file gives none; a size of (0, 0) means the file does not tell it; `shapes` has one entry a box where
    masks are read, and is None otherwise; `points`, (x, y, visible) of each point of each box, likewise;
    `pose` says what these points are.
    """

    image_ids: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    areas: list[float] = field(default_factory=list)
    difficult: list[bool] = field(default_factory=list)
    crowd: list[bool] = field(default_factory=list)
    shapes: list[Shape] | None = None
    points: list[list[tuple[float, float, float]]] | None = None
    pose: Pose | None = None
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)  # annotation and first index of each file

    def add_image(self, file: str, size: tuple[int, int], of: str, image_id: int | None = None) -> int:
        """Adds an image of `size` (H, W); returns its index, which is also its id unless one is given.

        `of` names its annotation. A list may name an image several times; that is the same annotation.

        Raises:
            DataError: the size is that of no image, or another annotation has led to this file.
        """
        if not all(0 <= side < _MOST_SIDE for side in size):
            raise DataError(f"{file}: its annotation says {size[1]}x{size[0]} (width x height), the size of no image")
        index = len(self.files)
        first = self._known.setdefault(file, (of, index))[0]
        if first != of:
            both = f"{first} and {of}"
            raise DataError(f"{file}: two annotations lead to this picture, {both}; leave one out or join them")
        self.files.append(file)
        self.sizes.append(size)
        self.image_ids.append(index if image_id is None else image_id)
        return index

    def add_box(
        self,
        image: int,
        box: tuple[float, float, float, float],
        label: int,
        area: float = float("nan"),
        difficult: bool = False,
        crowd: bool = False,
        shape: Shape | None = None,
        points: list[tuple[float, float, float]] | None = None,
    ) -> None:
        """Adds a box to image index `image`, with its shape and points where they are read; DataError if not finite."""
        if not all(map(math.isfinite, box)):
            raise DataError(f"{self.files[image]}: box {list(box)} is not finite")
        self.owners.append(image)
        self.boxes.append(box)
        self.classes.append(label)
        self.areas.append(area)
        self.difficult.append(difficult)
        self.crowd.append(crowd)
        if self.shapes is not None and shape is not None:
            self.shapes.append(shape)
        if self.points is not None and points is not None:
            self.points.append(points)

    def cut(self, images: int, boxes: int) -> None:
        """Keeps the first `images` images and `boxes` boxes."""
        for file in self.files[images:]:
            if self._known[file][1] >= images:
                del self._known[file]
        del self.image_ids[images:], self.files[images:], self.sizes[images:]
        del self.owners[boxes:], self.boxes[boxes:], self.classes[boxes:], self.areas[boxes:]
        del self.difficult[boxes:], self.crowd[boxes:]
        if self.shapes is not None:
            del self.shapes[boxes:]
        if self.points is not None:
            del self.points[boxes:]


@dataclass(frozen=True)
class BoxTable:
    """Cleaned boxes of I images: those of image i are rows offsets[i] to offsets[i + 1] of every column.

    Attributes:
        offsets: int64 [I + 1].
        boxes: float64 [T, 4], inside their images and with an area.
        classes: int64 [T].
        areas: float64 [T], the file's where it gives some above 0, else those of the boxes.
        difficult, crowd: bool [T].
        clipped, dropped: int64 [I], how many boxes of each image were cut at its border or had no area.
        shapes: of each box, where masks were read.
        points: float32 [T, L, 3], (x, y, visible), where keypoints were read; those outside of their image are 0.
        strays: int64 [I], how many points of each image lay outside of it.
    """

    offsets: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray
    areas: np.ndarray
    difficult: np.ndarray
    crowd: np.ndarray
    clipped: np.ndarray
    dropped: np.ndarray
    strays: np.ndarray
    shapes: ShapeTable | None = None
    points: np.ndarray | None = None

    def ground_truth(
        self,
        chosen: np.ndarray,
        class_names: Sequence[str],
        image_ids: np.ndarray,
        sizes: np.ndarray,
        category_ids: np.ndarray,
    ) -> GroundTruth:
        """The boxes of the `chosen` images (indices); the other columns are of all I images or K classes."""
        counts = np.diff(self.offsets)
        wanted = np.zeros(len(counts), bool)
        wanted[chosen] = True
        rows = np.repeat(wanted, counts)
        return GroundTruth(
            class_names=tuple(class_names),
            image_ids=image_ids[wanted],
            sizes=sizes[wanted],
            offsets=np.cumsum([0, *counts[wanted]]),
            boxes=self.boxes[rows],
            classes=self.classes[rows],
            areas=self.areas[rows],
            difficult=self.difficult[rows],
            crowd=self.crowd[rows],
            category_ids=category_ids,
            masks=None if self.shapes is None else ImageMasks(self.shapes, self.offsets, np.flatnonzero(wanted), sizes),
            points=None if self.points is None else self.points[rows],
        )


def clean_boxes(raw: RawAnnotations, sizes: np.ndarray) -> BoxTable:
    """Cuts boxes at their image's border, drops those without area, sorts by image; `sizes` are (H, W).

    Labelled points outside of their image are unlabelled then, and counted.
    """
    owners = np.asarray(raw.owners, np.int64)
    found = np.asarray(raw.boxes, np.float64).reshape(-1, 4)
    height, width = sizes[owners].astype(np.float64).T
    boxes = np.clip(found, 0, np.stack([width, height, width, height], axis=1))
    cut = np.abs(boxes - found).max(axis=1, initial=0) > _ROUNDING
    keep = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    areas = np.asarray(raw.areas, np.float64)
    areas = np.where(areas > 0, areas, (boxes[:, 2:] - boxes[:, :2]).prod(axis=1))
    order = np.flatnonzero(keep)[np.argsort(owners[keep], kind="stable")]

    points = None if not raw.points else np.asarray(raw.points, np.float32)[order]
    strays = np.zeros(len(sizes), np.int64)
    if points is not None:
        stray = outside(points, sizes[owners[order]])
        points[stray] = 0
        np.add.at(strays, owners[order], stray.sum(axis=1))

    def per_image(rows: np.ndarray) -> np.ndarray:
        return np.bincount(owners[rows], minlength=len(sizes))

    return BoxTable(
        offsets=np.cumsum([0, *per_image(keep)]),
        boxes=boxes[order],
        classes=np.asarray(raw.classes, np.int64)[order],
        areas=areas[order],
        difficult=np.asarray(raw.difficult, bool)[order],
        crowd=np.asarray(raw.crowd, bool)[order],
        clipped=per_image(keep & cut),
        dropped=per_image(~keep),
        shapes=None if raw.shapes is None else ShapeTable([raw.shapes[at] for at in order]),
        points=points,
        strays=strays,
    )
