"""The nouns of the detection suite: a Sample is one image with its boxes, a GroundTruth all boxes of a set.

Letters: H W image size, M boxes of one image, I images, T boxes of all images, K classes.
Boxes are `[x1, y1, x2, y2]` in pixels, float32; labels count from 0 to K - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from suites.vision.pixels import fill_colour, mirror, on_canvas, stretch
from suites.vision.sample import IDENTITY, ImageSample, then


@dataclass
class Sample(ImageSample):
    """One image and its boxes, as datasets give it and transforms change it.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a dataset, float32 after `Normalize`.
        boxes: float32 [M, 4], in pixels of `image`.
        labels: int64 [M].
        image_id: The image's number in its dataset's ground truth.
        original_size: (H, W) of the image in the file.
        scores: float32 [M], the weight of each box: 1, less after `Mixup`.
        difficult: bool [M], VOC's flag; such a box is learnt, but neither asked for nor punished in VOC mAP.
        crowd: bool [M], COCO's `iscrowd`; such a box is never a training target.
        placement: (ax, ay, bx, by): a point (x, y) of the original image lies at (ax*x + bx, ay*y + by) here.
    """

    image: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    image_id: int = 0
    original_size: tuple[int, int] = (0, 0)
    scores: np.ndarray = field(default=None)  # type: ignore[arg-type]
    difficult: np.ndarray = field(default=None)  # type: ignore[arg-type]
    crowd: np.ndarray = field(default=None)  # type: ignore[arg-type]
    placement: tuple[float, float, float, float] = IDENTITY

    def __post_init__(self) -> None:
        count = len(self.boxes)
        if self.original_size == (0, 0):
            self.original_size = (self.image.shape[0], self.image.shape[1])
        if self.scores is None:
            self.scores = np.ones(count, np.float32)
        if self.difficult is None:
            self.difficult = np.zeros(count, bool)
        if self.crowd is None:
            self.crowd = np.zeros(count, bool)

    def pick(self, keep: np.ndarray) -> Sample:
        """The same image with the boxes that `keep` (bool or indices [M]) selects."""
        return replace(
            self,
            boxes=self.boxes[keep],
            labels=self.labels[keep],
            scores=self.scores[keep],
            difficult=self.difficult[keep],
            crowd=self.crowd[keep],
        )

    def moved(self, image: np.ndarray, ax: float, ay: float, bx: float, by: float) -> Sample:
        """The sample with a new `image`, in which a point (x, y) of the old one lies at (ax*x+bx, ay*y+by)."""
        step = (ax, ay, bx, by)
        return replace(self, image=image, boxes=place_boxes(self.boxes, step), placement=then(self.placement, step))

    def recoloured(self, image: np.ndarray) -> Sample:
        """The sample with other pixels at the same places."""
        return replace(self, image=image)

    def resized(self, size: tuple[int, int], method: int) -> Sample:
        """The sample stretched to `size` (H, W)."""
        if size == self.size:
            return self
        (height, width), (new_height, new_width) = self.size, size
        return self.moved(stretch(self.image, size, method), new_width / width, new_height / height, 0, 0)

    def padded(self, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Sample:
        """The sample on a canvas of `size` (H, W), its corner at (left, top)."""
        if size == self.size:
            return self
        return self.moved(on_canvas(self.image, size, top, left, fill_colour(fill, self.image)), 1, 1, left, top)

    def mirrored(self, horizontal: bool) -> Sample:
        """The sample with left and right swapped, else top and bottom."""
        height, width = self.size
        return self.moved(mirror(self.image, horizontal), *((-1, 1, width, 0) if horizontal else (1, -1, 0, height)))


def place_boxes(boxes: np.ndarray, placement: tuple[float, float, float, float] | np.ndarray) -> np.ndarray:
    """Boxes [M, 4] of an original image where `placement` (see `Sample`) puts them; x1 <= x2 even if mirrored."""
    ax, ay, bx, by = placement
    x = boxes[:, 0::2] * ax + bx
    y = boxes[:, 1::2] * ay + by
    columns = (x.min(1), y.min(1), x.max(1), y.max(1))
    return np.stack(columns, axis=1).astype(np.float32)


def boxes_to_original(
    boxes: np.ndarray,
    placement: tuple[float, float, float, float] | np.ndarray,
    original_size: tuple[int, int],
) -> np.ndarray:
    """Predicted boxes [M, 4] of a network's input, in pixels of the original (H, W) and clipped to it."""
    ax, ay, bx, by = placement
    return clip_boxes(place_boxes(boxes, (1 / ax, 1 / ay, -bx / ax, -by / ay)), original_size)


def clip_boxes(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes [M, 4] cut to an image of `size` (H, W)."""
    height, width = size
    return np.clip(boxes, 0, np.asarray([width, height, width, height], np.float32)).astype(np.float32)


def box_areas(boxes: np.ndarray) -> np.ndarray:
    """Areas [M] in square pixels of boxes [M, 4]."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


@dataclass(frozen=True)
class GroundTruth:
    """What an evaluator compares predictions with: every box of a dataset, in pixels of the original images.

    Attributes:
        class_names: K names; a label is an index into it.
        image_ids: int64 [I].
        sizes: int32 [I, 2], (H, W).
        offsets: int64 [I + 1]; the boxes of image i are rows offsets[i] to offsets[i + 1].
        boxes: float64 [T, 4]; float32 would move IoUs that lie just at a threshold.
        labels: int64 [T].
        areas: float64 [T], square pixels; COCO's is the area of the mask, not of the box.
        difficult, crowd: bool [T].
        category_ids: int64 [K], each class's id in the annotation file (for submissions).
    """

    class_names: tuple[str, ...]
    image_ids: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    areas: np.ndarray
    difficult: np.ndarray
    crowd: np.ndarray
    category_ids: np.ndarray

    def owners(self) -> np.ndarray:
        """int64 [T]: for each box, the index of its image."""
        return np.repeat(np.arange(len(self.image_ids)), np.diff(self.offsets))
