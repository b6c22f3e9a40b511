"""Transforms that move pixels and boxes together: resize, letterbox, flip, expand, IoU-constrained crop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample, box_areas, clip_boxes
from suites.detection.transforms.base import BatchTransform, Transform
from suites.engine.registry import register
from suites.vision.pixels import IMAGENET_MEAN, check_prob, check_range, fill_colour, interpolation, pair

Interp = Literal["nearest", "linear", "cubic", "area", "lanczos", "random"]


@register("transform")
class Resize(Transform):
    """Stretches the image to a fixed size; the aspect ratio may change.

    Args:
        size: Side of the square, or [height, width], in pixels.
        interp: How pixels are interpolated; "random" draws a method each time, which makes a detector less
            sensitive to how images were scaled.
    """

    def __init__(self, size: int | Sequence[int], interp: Interp = "linear") -> None:
        self._size = pair(size, "Resize")
        self._interp = interp

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample at the size."""
        return resized(sample, self._size, interpolation(self._interp, rng))


@register("transform")
class ResizeKeepRatio(Transform):
    """Scales so that the short side has `short` pixels, or less where the long side would exceed `max_long`.

    Args:
        short: Wanted short side in pixels.
        max_long: Largest long side in pixels.
        interp: As in `Resize`.
    """

    def __init__(self, short: int, max_long: int, interp: Interp = "linear") -> None:
        if not 1 <= short <= max_long:
            raise AttributeValueError(
                f"ResizeKeepRatio: short is {short} and max_long {max_long}; needed is 1 <= short <= max_long"
            )
        self._short, self._max_long, self._interp = short, max_long, interp

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the scaled sample."""
        scale = min(self._short / min(sample.size), self._max_long / max(sample.size))
        return resized(sample, scaled_size(sample.size, scale), interpolation(self._interp, rng))


@register("transform")
class Letterbox(Transform):
    """Scales the image to fit into a fixed size without changing its aspect ratio, and fills the rest.

    Args:
        size: Side of the square, or [height, width], in pixels.
        fill: RGB of the border, in [0, 1].
        centred: Whether the image is put in the middle, else at the top left.
        interp: As in `Resize`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        fill: Sequence[float] = (0.5, 0.5, 0.5),
        centred: bool = True,
        interp: Interp = "linear",
    ) -> None:
        self._size = pair(size, "Letterbox")
        self._fill, self._centred, self._interp = tuple(fill), centred, interp

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the framed sample."""
        (height, width), (fit_height, fit_width) = sample.size, self._size
        inner = scaled_size(sample.size, min(fit_height / height, fit_width / width))
        sample = resized(sample, inner, interpolation(self._interp, rng))
        free = fit_height - inner[0], fit_width - inner[1]
        top, left = (free[0] // 2, free[1] // 2) if self._centred else (0, 0)
        return padded(sample, self._size, top, left, self._fill)


@register("transform")
class PadToMultiple(Transform):
    """Fills below and to the right until both sides are multiples of a number, e.g. of the largest stride.

    Args:
        multiple: In pixels.
        fill: RGB of the border, in [0, 1].
    """

    def __init__(self, multiple: int = 32, fill: Sequence[float] = (0.5, 0.5, 0.5)) -> None:
        if multiple < 1:
            raise AttributeValueError(f"PadToMultiple: multiple is {multiple}; it must be at least 1")
        self._multiple, self._fill = multiple, tuple(fill)

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the padded sample."""
        height, width = (-(-side // self._multiple) * self._multiple for side in sample.size)
        return padded(sample, (height, width), 0, 0, self._fill)


@register("transform")
class RandomFlip(Transform):
    """Mirrors the image.

    Args:
        prob: How often.
        direction: "horizontal" swaps left and right, "vertical" top and bottom.
    """

    def __init__(self, prob: float = 0.5, direction: Literal["horizontal", "vertical"] = "horizontal") -> None:
        self._prob = check_prob("RandomFlip", prob)
        self._horizontal = direction == "horizontal"

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, mirrored or not."""
        if rng.random() >= self._prob:
            return sample
        height, width = sample.size
        if self._horizontal:
            return sample.moved(cv2.flip(sample.image, 1), -1, 1, width, 0)
        return sample.moved(cv2.flip(sample.image, 0), 1, -1, 0, height)


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
        return padded(sample, (height, width), top, left, self._fill)


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
        if not len(sample.boxes):
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
        fits = (ious(crops, sample.boxes).max(axis=1) >= threshold) & centres_inside(crops, sample.boxes).any(axis=1)
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
        return [resized(sample, size, method) for sample in samples]


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
        return sample.pick((sample.boxes[:, 2:] - sample.boxes[:, :2]).min(axis=1, initial=np.inf) >= self._min_side)


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(H, W) times `scale`, rounded, at least 1."""
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def resized(sample: Sample, size: tuple[int, int], method: int) -> Sample:
    """The sample stretched to `size` (H, W); `method` is OpenCV's number of the interpolation."""
    if size == sample.size:
        return sample
    (height, width), (new_height, new_width) = sample.size, size
    image = cv2.resize(sample.image, (new_width, new_height), interpolation=method)
    return sample.moved(image, new_width / width, new_height / height, 0, 0)


def padded(sample: Sample, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Sample:
    """The sample on a canvas of `size` (H, W), its corner at (left, top)."""
    bottom, right = size[0] - sample.size[0] - top, size[1] - sample.size[1] - left
    if not (top or left or bottom or right):
        return sample
    colour = fill_colour(fill, sample.image)
    image = cv2.copyMakeBorder(sample.image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=colour)
    return sample.moved(image, 1, 1, left, top)


def cropped(sample: Sample, crop: np.ndarray) -> Sample:
    """The part of the sample inside `crop` (int [4]), with the boxes whose centre is inside, cut at its border."""
    left, top, right, bottom = crop.tolist()
    keep = centres_inside(crop[None], sample.boxes)[0]
    image = np.ascontiguousarray(sample.image[top:bottom, left:right])
    part = sample.pick(keep).moved(image, 1, 1, -left, -top)
    part.boxes = clip_boxes(part.boxes, part.size)
    return part


def centres_inside(crops: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """bool [R, M]: whether the centre of box m [M, 4] lies inside crop r [R, 4]."""
    centres = (boxes[None, :, :2] + boxes[None, :, 2:]) / 2
    return ((centres > crops[:, None, :2]) & (centres < crops[:, None, 2:])).all(axis=2)


def ious(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IoU of every box of `a` [R, 4] with every box of `b` [M, 4]: [R, M]."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inner = sides.clip(0).prod(axis=2)
    return inner / np.maximum(box_areas(a)[:, None] + box_areas(b)[None, :] - inner, 1e-9)
