"""The noun of the suite: a PoseSample is a picture with one object's box and points.

Letters: H W image size, L points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import cv2
import numpy as np

from framework.pictures import warp_affine
from suites.vision.geometry import Move
from suites.vision.sample import ImageSample
from suites.vision.structures import Instances


@dataclass(frozen=True, kw_only=True)
class PoseSample(ImageSample):
    """One object of a picture.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a data set, float32 after `Normalize`.
        instances: the object with its box and points, in pixels of `image`.
        matrix: float64 [2, 3], what led from the pixels of the file to those of `image`.
        number: of the object in its set.
        image_id: of its picture.
        truth: float32 [L, 3], its points in pixels of the file; None where they are not known.
        area: square pixels of the file.
        sides: (width, height) of its box in the file.
    """

    instances: Instances
    matrix: np.ndarray = field(default_factory=lambda: np.eye(2, 3))
    number: int = 0
    image_id: int = 0
    truth: np.ndarray | None = None
    area: float = 0.0
    sides: tuple[float, float] = (0.0, 0.0)

    def belongings(self, by: Move) -> dict[str, Any]:
        """The object, moved, and the way there."""
        ax, ay, bx, by_ = by.step
        step = np.array([[ax, 0, bx], [0, ay, by_]])
        return {"instances": self.instances.moved(by), "matrix": after(step, self.matrix)}

    def reclassed(self, classes: Mapping[int, int]) -> Self:
        """The sample as it is: its object is of one class."""
        return self

    def cut(self, step: np.ndarray, size: tuple[int, int]) -> PoseSample:
        """The sample through an affine map [2, 3] of points into a picture of `size` (H, W); black lies outside."""
        centres = step.copy()  # OpenCV's pixels have their centres at whole numbers
        centres[:, 2] += step[:, :2] @ [0.5, 0.5] - 0.5
        if self.image.dtype == np.uint8:
            image = warp_affine(self.image, step, size)
        else:
            image = cv2.warpAffine(self.image, centres, size[::-1], flags=cv2.INTER_LINEAR)
        instances = self.instances.warped(centres, size)
        return replace(self, image=image, instances=instances, matrix=after(step, self.matrix))


def after(second: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The affine map [2, 3] that maps by `first` and the result by `second`."""
    return np.column_stack([second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]])


def back(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points [L, 2] before the affine map `matrix`."""
    (a, b, c), (d, e, f) = matrix
    x, y, det = points[:, 0] - c, points[:, 1] - f, a * e - b * d
    return np.stack([(e * x - b * y) / det, (a * y - d * x) / det], axis=1)  # in this order in libpaddock too
