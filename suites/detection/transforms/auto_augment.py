"""AutoAugment for detection: five learned pairs of changes (Zoph et al. 2019, arXiv:1906.11172).

Magnitudes are of 10, as in the paper: shifts of 250 pixels, of 120 inside of boxes, shears of 0.3, turns of 30 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from framework.errors import DTypeError
from suites.detection.sample import Sample
from suites.engine.registry import register
from suites.vision.augmentation.colour import equalized, with_colour, with_sharpness
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import check_prob

_GREY = (128 / 255,) * 3
_ONLY_BOXES = 1 / 3  # changes inside of boxes are made with a third of their probability for each box
Change = Callable[[Sample, float, np.random.Generator], Sample]


@register("transform")
class AutoAugment(Transform):
    """One of five learned pairs of changes, each change with its own probability; boxes, masks and landmarks follow.

    The pairs ("policy v0"): shift in x, equalise; shift of what is in boxes, cover a square; sharpen, shear in x;
    shear in y, shift of what is in boxes; turn, colour.

    Args:
        prob: How often a pair is drawn at all.
    """

    def __init__(self, prob: float = 1.0) -> None:
        self._prob = check_prob("AutoAugment", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the changed sample; its image must be uint8."""
        if sample.image.dtype != np.uint8:
            raise DTypeError(f"AutoAugment: the image is {sample.image.dtype}; put AutoAugment before Normalize")
        if rng.random() >= self._prob:
            return sample
        for change, prob, level in POLICY[int(rng.integers(len(POLICY)))]:
            if rng.random() < prob:
                sample = change(sample, level / 10, rng)
        return sample


def _sign(rng: np.random.Generator) -> float:
    return 1.0 if rng.random() < 0.5 else -1.0


def _about_middle(sample: Sample, linear: Sequence[Sequence[float]]) -> Sample:
    """The sample after a linear map [2, 2] about its middle."""
    middle = (np.array(sample.size[::-1]) - 1) / 2
    matrix = np.array(linear, np.float64)
    return sample.warped(np.column_stack([matrix, middle - matrix @ middle]), _GREY)


def _shift_x(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return sample.warped(np.array([[1, 0, 250 * strength * _sign(rng)], [0, 1, 0]]), _GREY)


def _shear_x(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return _about_middle(sample, [[1, 0.3 * strength * _sign(rng)], [0, 1]])


def _shear_y(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return _about_middle(sample, [[1, 0], [0.3 * strength * _sign(rng), 1]])


def _turn(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    angle = math.radians(30 * strength * _sign(rng))
    cos, sin = math.cos(angle), math.sin(angle)
    return _about_middle(sample, [[cos, -sin], [sin, cos]])


def _equalize(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return sample.recoloured(equalized(sample.image))


def _colour(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return sample.recoloured(with_colour(sample.image, 1.8 * strength + 0.1))


def _sharpen(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    return sample.recoloured(with_sharpness(sample.image, 1.8 * strength + 0.1))


def _cover(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    """A grey square around a random point."""
    half = int(100 * strength)
    y, x = (int(rng.integers(side)) for side in sample.size)
    image = sample.image.copy()
    image[max(0, y - half) : y + half, max(0, x - half) : x + half] = 128
    return sample.recoloured(image)


def _shift_y_in_boxes(sample: Sample, strength: float, rng: np.random.Generator) -> Sample:
    """What is in some boxes moves up or down in them; boxes stay, and so do masks."""
    image = sample.image.copy()
    for box in sample.instances.clipped(sample.size).boxes.array:
        if rng.random() >= _ONLY_BOXES:
            continue
        left, top, right, bottom = np.rint(box).astype(int).tolist()
        by = round(120 * strength * _sign(rng))
        inside = image[top:bottom, left:right]
        moved = np.full_like(inside, 128)
        height = max(0, len(inside) - abs(by))
        moved[max(by, 0) : max(by, 0) + height] = inside[max(-by, 0) : max(-by, 0) + height]
        image[top:bottom, left:right] = moved
    return sample.recoloured(image)


# Changes with their probability and magnitude.
POLICY: tuple[tuple[tuple[Change, float, float], ...], ...] = (
    ((_shift_x, 0.6, 4), (_equalize, 0.8, 10)),
    ((_shift_y_in_boxes, 0.2, 2), (_cover, 0.8, 8)),
    ((_sharpen, 0.0, 8), (_shear_x, 0.4, 0)),
    ((_shear_y, 1.0, 2), (_shift_y_in_boxes, 0.6, 6)),
    ((_turn, 0.6, 10), (_colour, 1.0, 6)),
)
