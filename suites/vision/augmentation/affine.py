"""RandomAffine: turns, shears, shifts and scales of images with what belongs to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from framework.errors import AttributeValueError
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range


class Warped(Protocol):
    """A sample that an affine map can move."""

    @property
    def size(self) -> tuple[int, int]:
        """(H, W)."""
        ...

    def warped(self: WarpedType, matrix: np.ndarray, fill: Sequence[float]) -> WarpedType:
        """The sample moved by an affine map [2, 3] of (x, y, 1), at the same size; `fill` is the border's RGB."""
        ...


WarpedType = TypeVar("WarpedType", bound=Warped)


class RandomAffine(Transform):
    """Turns, shears, shifts and scales about the image's middle. For training only.

    Args:
        prob: How often.
        degrees: Largest turn, to either side.
        shear: Largest shear, as a share: 0.1 moves a row by a tenth of its distance from the middle.
        shift: Largest shift, as a share of the side.
        scale: Range of the factor.
        fill: RGB of the border, in [0, 1].
    """

    def __init__(
        self,
        prob: float = 0.5,
        degrees: float = 10.0,
        shear: float = 0.0,
        shift: float = 0.0,
        scale: Sequence[float] = (1.0, 1.0),
        fill: Sequence[float] = IMAGENET_MEAN,
    ) -> None:
        self._prob = check_prob("RandomAffine", prob)
        if min(degrees, shear, shift) < 0 or degrees > 180 or shift > 1 or shear >= 1:
            raise AttributeValueError(
                f"RandomAffine: degrees is {degrees}, shear {shear}, shift {shift}; degrees are 0 to 180, the others "
                "0 to 1, shear less"
            )
        self._degrees, self._shear, self._shift, self._fill = degrees, shear, shift, tuple(fill)
        self._scale = check_range("RandomAffine", "scale", scale, 1e-2)

    def __call__(self, sample: WarpedType, rng: np.random.Generator) -> WarpedType:
        """Returns the sample, moved or not."""
        if rng.random() >= self._prob:
            return sample
        turn = math.radians(rng.uniform(-self._degrees, self._degrees))
        shear_x, shear_y = rng.uniform(-self._shear, self._shear, 2)
        cos, sin = math.cos(turn), math.sin(turn)
        linear = rng.uniform(*self._scale) * np.array([[cos, -sin], [sin, cos]]) @ [[1, shear_x], [shear_y, 1]]
        height, width = sample.size
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        shift = rng.uniform(-self._shift, self._shift, 2) * (width, height)
        return sample.warped(np.column_stack([linear, middle + shift - linear @ middle]), self._fill)
