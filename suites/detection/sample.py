"""The nouns of the detection suite: a Sample is one image with its objects, a GroundTruth all objects of a set.

Letters: H W image size, I images, T objects of all images, K classes.
Boxes are `[x1, y1, x2, y2]` in pixels; classes count from 0 to K - 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from suites.vision.augmentation.pixels import fill_colour
from suites.vision.geometry import Move
from suites.vision.sample import ImageSample, reclassed
from suites.vision.structures import Instances, Masks


@dataclass(frozen=True, kw_only=True)
class Sample(ImageSample):
    """One image and its objects, as datasets give it and transforms change it.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a dataset, float32 after `Normalize`.
        instances: its objects, in pixels of `image`.
        image_id: The image's number in its dataset's ground truth.
        original_size: (H, W) of the image in the file.
        placement: Where the original image lies in `image`.
    """

    instances: Instances = field(default_factory=Instances.none)
    image_id: int = 0
    original_size: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if self.original_size == (0, 0):
            object.__setattr__(self, "original_size", self.size)

    def belongings(self, by: Move) -> dict[str, Any]:
        """The objects, moved."""
        return {"instances": self.instances.moved(by)}

    def reclassed(self, classes: Mapping[int, int]) -> Sample:
        """The sample with other classes in place of some."""
        return replace(self, instances=replace(self.instances, classes=reclassed(self.instances.classes, classes)))

    def warped(self, matrix: np.ndarray, fill: Sequence[float]) -> Sample:
        """The sample moved by an affine map [2, 3] of (x, y, 1), at the same size; pixel (0, 0) has its centre there.

        What comes from outside has the colour `fill` (RGB in [0, 1]). Objects whose centre leaves the image go.
        `placement` cannot say where the image lies then, so this is for training only.
        """
        colour = fill_colour(fill, self.image)
        image = cv2.warpAffine(self.image, matrix, self.size[::-1], flags=cv2.INTER_LINEAR, borderValue=colour)
        instances = self.instances.warped(matrix, self.size)
        x, y = instances.boxes.centres.T
        inside = (x > 0) & (x < self.size[1]) & (y > 0) & (y < self.size[0])
        if instances.masks is not None:
            inside &= instances.masks.areas() > 0
        return replace(self, image=image, instances=instances[inside].clipped(self.size))

    def pick(self, keep: np.ndarray) -> Sample:
        """The same image with the objects that `keep` (bool or indices) selects."""
        return replace(self, instances=self.instances[keep])


@dataclass(frozen=True)
class GroundTruth:
    """What an evaluator compares predictions with: every object of a dataset, in pixels of the original images.

    Attributes:
        class_names: K names; a class is an index into it.
        image_ids: int64 [I].
        sizes: int32 [I, 2], (H, W).
        offsets: int64 [I + 1]; the objects of image i are rows offsets[i] to offsets[i + 1].
        boxes: float64 [T, 4]; float32 would move IoUs that lie just at a threshold.
        classes: int64 [T].
        areas: float64 [T], square pixels; COCO's is the area of the mask, not of the box.
        difficult, crowd: bool [T].
        category_ids: int64 [K], each class's id in the annotation file (for submissions).
        masks: of each image, the shapes of its objects, where the data set has them.
        points: float32 [T, L, 3], (x, y, visible) of each object's points, where the data set has them.
        subsets: by name, the objects that count in a figure of that name: bool [T].
    """

    class_names: tuple[str, ...]
    image_ids: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray
    areas: np.ndarray
    difficult: np.ndarray
    crowd: np.ndarray
    category_ids: np.ndarray
    masks: Sequence[Masks] | None = None
    points: np.ndarray | None = None
    subsets: Mapping[str, np.ndarray] = field(default_factory=dict)

    def owners(self) -> np.ndarray:
        """int64 [T]: for each object, the index of its image."""
        return np.repeat(np.arange(len(self.image_ids)), np.diff(self.offsets))
