"""Transforms that move pixels and boxes together: expand, IoU-constrained crop, a random size for a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.engine.config import Part
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range, interpolation, pair
from suites.vision.augmentation.transforms import Interp
from suites.vision.structures import Boxes, pairwise_iou


@register("transform")
class RandomExpand(Transform):
    """Puts the image at a random place on a larger canvas, so that its objects become small (SSD, Liu et al. 2016).

    Args:
        max_ratio: Largest ratio of canvas side to image side.
        prob: How often.
        fill: RGB of the canvas, in [0, 1]; the mean colour, which normalises to 0.
    """

    def __init__(self, max_ratio: float = 4.0, prob: float = 0.5, fill: Sequence[float] = IMAGENET_MEAN) -> None:
        if max_ratio < 1:
            raise AttributeValueError(f"RandomExpand: max_ratio is {max_ratio}; it must be at least 1")
        self._max_ratio, self._fill = max_ratio, tuple(fill)
        self._prob = check_prob("RandomExpand", prob)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, on a canvas or as it was."""
        if rng.random() >= self._prob:
            return sample
        ratio = rng.uniform(1, self._max_ratio)
        height, width = (int(side * ratio) for side in sample.size)
        top = int(rng.integers(height - sample.size[0] + 1))
        left = int(rng.integers(width - sample.size[1] + 1))
        return sample.padded((height, width), top, left, self._fill)


@register("transform")
class RandomIoUCrop(Transform):
    """Cuts out a random part that holds enough of at least one box (the sampling of SSD, Liu et al. 2016).

    A threshold is drawn; then up to `tries` crops, until one overlaps some box with at least that IoU and holds
    the centre of some box. Boxes whose centre lies inside are kept and cut at its border.

    Args:
        thresholds: IoUs to draw from.
        allow_no_crop: Whether "leave it as it is" is one more choice.
        scaling: Smallest and largest crop side, as a share of the image's.
        aspect: Smallest and largest factor on the image's aspect ratio.
        tries: Crops tried for a threshold before another is drawn.
    """

    def __init__(
        self,
        thresholds: Sequence[float] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
        allow_no_crop: bool = True,
        scaling: Sequence[float] = (0.3, 1.0),
        aspect: Sequence[float] = (0.5, 2.0),
        tries: int = 50,
    ) -> None:
        self._choices: list[float | None] = [*thresholds, *([None] if allow_no_crop else [])]
        self._scaling = check_range("RandomIoUCrop", "scaling", scaling, 0.01)
        self._aspect = check_range("RandomIoUCrop", "aspect", aspect, 0.01)
        self._tries = tries
        if self._scaling[1] > 1:
            raise AttributeValueError(f"RandomIoUCrop: scaling is {list(scaling)}; a crop is at most the image, 1")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the crop, or the sample as it was where no crop would do."""
        if not len(sample.instances):
            return sample
        for choice in rng.permutation(len(self._choices)):
            threshold = self._choices[choice]
            if threshold is None:
                return sample
            crop = self._find(sample, threshold, rng)
            if crop is not None:
                return cropped(sample, crop)
        return sample

    def _find(self, sample: Sample, threshold: float, rng: np.random.Generator) -> np.ndarray | None:
        """The first of `tries` random crops that will do: int64 [4]; None if none does."""
        crops = self._draw(sample.size, rng)
        boxes = sample.instances.boxes
        overlaps = pairwise_iou(crops, boxes.array).max(axis=1) >= threshold
        fits = overlaps & centres_inside(crops, boxes).any(axis=1)
        return crops[int(np.argmax(fits))] if fits.any() else None

    def _draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Random crops [tries, 4]. The aspect factor is kept within what lets the crop fit at its scale."""
        height, width = size
        scale = rng.uniform(*self._scaling, self._tries)
        low, high = np.maximum(self._aspect[0], scale**2), np.minimum(self._aspect[1], scale**-2)
        aspect = np.sqrt(low + (high - low) * rng.random(self._tries))
        crop_height = np.clip(np.rint(height * scale / aspect), 1, height).astype(np.int64)
        crop_width = np.clip(np.rint(width * scale * aspect), 1, width).astype(np.int64)
        top = (rng.random(self._tries) * (height - crop_height + 1)).astype(np.int64)
        left = (rng.random(self._tries) * (width - crop_width + 1)).astype(np.int64)
        return np.stack([left, top, left + crop_width, top + crop_height], axis=1)


@register("transform")
class RandomCrop(Transform):
    """Cuts out a part of a fixed size, with an object's centre in it where there are objects.

    Objects whose centre lies inside are kept and cut at its border. A side that is shorter than wanted stays as it is.

    Args:
        size: Side of the square, or [height, width], in pixels of the image as it is at this point.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self._size = pair(size, "RandomCrop")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the part."""
        height, width = (min(wanted, side) for wanted, side in zip(self._size, sample.size, strict=True))
        if (height, width) == sample.size:
            return sample
        least, most = np.zeros(2), np.array([sample.size[0] - height, sample.size[1] - width])
        if len(sample.instances):
            x, y = sample.instances.boxes.centres[rng.integers(len(sample.instances))]
            least = np.clip(np.ceil([y - height, x - width]) + 1, 0, most)
            most = np.clip(np.floor([y, x]), least, most)
        top, left = (int(rng.integers(int(a), int(b) + 1)) for a, b in zip(least, most, strict=True))
        return cropped(sample, np.array([left, top, left + width, top + height]))


@register("batch_transform")
class RandomShape(BatchTransform):
    """Stretches all images of a batch to one random square size: multi-scale training (Redmon & Farhadi 2018).

    Args:
        sizes: Sides to draw from, in pixels; multiples of the network's largest stride.
        interp: As in `Resize`; "random" draws one for the batch.
    """

    def __init__(self, sizes: Sequence[int] = tuple(range(320, 609, 32)), interp: Interp = "random") -> None:
        self._sizes = [pair(size, "RandomShape") for size in sizes]
        if not self._sizes:
            raise AttributeValueError("RandomShape: sizes is empty; give at least one")
        self._interp = interp

    def __call__(self, samples: list[Sample], rng: np.random.Generator) -> list[Sample]:
        """Returns the samples, all of one size."""
        size = self._sizes[int(rng.integers(len(self._sizes)))]
        method = interpolation(self._interp, rng)
        return [sample.resized(size, method) for sample in samples]

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """All that it draws from."""
        yield from (("sizes", size) for size in part["sizes"])


@register("transform")
class DropTinyBoxes(Transform):
    """Leaves out boxes with a side below a limit, such as slivers left at the border of a crop.

    Args:
        min_side: In pixels of the image as it is at this point.
    """

    def __init__(self, min_side: float = 1.0) -> None:
        self._min_side = min_side

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample without these boxes."""
        return sample.pick(sample.instances.boxes.sides.min(axis=1, initial=np.inf) >= self._min_side)


def cropped(sample: Sample, crop: np.ndarray) -> Sample:
    """The part of the sample inside `crop` (int [4]), with the boxes whose centre is inside, cut at its border."""
    left, top, right, bottom = crop.tolist()
    keep = centres_inside(crop[None], sample.instances.boxes)[0]
    part = sample.pick(keep).cropped((bottom - top, right - left), top, left)
    return replace(part, instances=part.instances.clipped(part.size))


def centres_inside(crops: np.ndarray, boxes: Boxes) -> np.ndarray:
    """bool [R, M]: whether the centre of box m lies inside crop r [R, 4]."""
    centres = boxes.centres[None]
    after, before = centres > crops[:, None, :2], centres < crops[:, None, 2:]
    return np.all(after & before, axis=2)
