"""Augmentation for recognition, besides the transforms of any image; all frames of a clip are changed alike.

Randomness comes only from the generator a transform is given, so that a sample depends on (seed, epoch, index) alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.vision.augmentation import transforms
from suites.vision.augmentation.covering import GridMask, RandomErasing
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.augmentation.pixels import check_prob, check_range, pair
from suites.vision.pictures.images import decode_image, encode_image
from suites.vision.recognition.augment import CutMix, RandAugment, both
from suites.vision.recognition.sample import Labelled


class ResizeShort(Transform):
    """Scales frames so that the short side has `size` pixels; the aspect ratio stays.

    Args:
        size: wanted short side in pixels.
    """

    def __init__(self, size: int) -> None:
        self._size = pair(size, "ResizeShort")[0]

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the scaled sample."""
        scale = self._size / min(sample.size)
        height, width = (max(self._size, round(side * scale)) for side in sample.size)
        return sample.scaled((height, width))


class CenterCrop(Transform):
    """Cuts out the middle.

    Args:
        size: side of the square, or [height, width], in pixels; no larger than the frames.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self._size = pair(size, "CenterCrop")

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the middle of the sample."""
        (height, width), (h, w) = sample.size, self._size
        if h > height or w > width:
            raise DataError(
                f"CenterCrop: {sample.name} is {height}x{width} (height x width), smaller than the crop {h}x{w}; "
                "put ResizeShort before it"
            )
        return sample.cropped((h, w), (height - h) // 2, (width - w) // 2)


class RandomResizedCrop(Transform):
    """Cuts out a random part of random area and shape and scales it to one size (Szegedy et al. 2015).

    Args:
        size: side of the square, or [height, width], in pixels.
        scale: range of the part's area, as a share of the frame's.
        ratio: range of the part's width over its height.
        tries: parts drawn before the middle is taken.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        tries: int = 10,
    ) -> None:
        self._size = pair(size, "RandomResizedCrop")
        self._scale = check_range("RandomResizedCrop", "scale", scale, 1e-4)
        self._ratio = check_range("RandomResizedCrop", "ratio", ratio, 1e-2)
        self._tries = tries
        if self._scale[1] > 1:
            raise AttributeValueError(f"RandomResizedCrop: scale is {list(scale)}; a part is at most the frame, 1")

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the part, scaled."""
        top, left, height, width = self._draw(*sample.size, rng)
        return sample.cropped((height, width), top, left).scaled(self._size)

    def _draw(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        for _ in range(self._tries):
            area = height * width * rng.uniform(*self._scale)
            ratio = math.exp(rng.uniform(*np.log(self._ratio)))
            h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < h <= height and 0 < w <= width:
                return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
        low, high = self._ratio
        h, w = min(height, round(width / low)), min(width, round(height * high))
        return (height - h) // 2, (width - w) // 2, h, w


class JpegCompression(Transform):
    """Writes each frame as a JPEG and reads it again, before `Normalize`: some networks were only shown such pictures.

    Args:
        quality: of the JPEG, from 1 to 100.
    """

    def __init__(self, quality: int = 75) -> None:
        if not 1 <= quality <= 100:
            raise AttributeValueError(f"JpegCompression: quality is {quality}; it must be 1 to 100")
        self._quality = quality

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the sample with what is left of it."""
        pixels = sample.pixels
        if pixels.dtype != np.uint8:
            raise DataError(f"JpegCompression: {sample.name} has {pixels.dtype} pixels; put it before Normalize")
        frames = [self._again(frame, sample.name) for frame in pixels.reshape(-1, *pixels.shape[-3:])]
        return sample.recoloured(np.stack(frames).reshape(pixels.shape))

    def _again(self, frame: np.ndarray, name: str) -> np.ndarray:
        return decode_image(encode_image(frame, ".jpg", self._quality), name)


# Where TSN puts its crops: quarters of the free height and width, at corners, edges, centre and between.
_QUARTERS = ((0, 0), (0, 4), (4, 0), (4, 4), (2, 2), (0, 2), (4, 2), (2, 0), (2, 4), (1, 1), (1, 3), (3, 1), (3, 3))


class MultiScaleCrop(Transform):
    """Cuts out one of a few sizes at one of 13 places and scales it to one size (TSN, Wang et al. 2016).

    Args:
        size: side of the square, or [height, width], in pixels.
        scales: sides of the part, as shares of the frame's short side.
        max_distort: how far apart in `scales` the part's height and width may be.
    """

    def __init__(
        self, size: int | Sequence[int], scales: Sequence[float] = (1.0, 0.875, 0.75, 0.66), max_distort: int = 1
    ) -> None:
        self._size = pair(size, "MultiScaleCrop")
        if not scales or min(scales) <= 0 or max(scales) > 1 or max_distort < 0:
            raise AttributeValueError(
                f"MultiScaleCrop: scales is {list(scales)} and max_distort {max_distort}; scales lie in (0, 1], "
                "max_distort is 0 or more"
            )
        places = range(len(scales))
        self._shapes = [(scales[i], scales[j]) for i in places for j in places if abs(i - j) <= max_distort]

    def __call__(self, sample: Labelled, rng: np.random.Generator) -> Labelled:
        """Returns the part, scaled."""
        height, width = sample.size
        h, w = (max(1, int(min(height, width) * share)) for share in self._shapes[int(rng.integers(len(self._shapes)))])
        row, column = _QUARTERS[int(rng.integers(len(_QUARTERS)))]
        return sample.cropped((h, w), (height - h) * row // 4, (width - w) * column // 4).scaled(self._size)


class Mixup(BatchTransform):
    """Adds to each sample another of the batch, with weights; both labels count by them (Zhang et al. 2018).

    Args:
        alpha: the weight comes from Beta(alpha, alpha), one for a batch.
        prob: how often batches are mixed at all.
    """

    def __init__(self, alpha: float = 0.2, prob: float = 1.0) -> None:
        if alpha <= 0:
            raise AttributeValueError(f"Mixup: alpha is {alpha}; it must be above 0")
        self._alpha = alpha
        self._prob = check_prob("Mixup", prob)

    def __call__(self, samples: list[Labelled], rng: np.random.Generator) -> list[Labelled]:
        """Returns the mixtures; pixels must be float32, so `Normalize` comes before."""
        if rng.random() >= self._prob:
            return samples
        weight = np.float32(rng.beta(self._alpha, self._alpha))
        others = [samples[i] for i in rng.permutation(len(samples))]
        return [_mixed(a, b, weight) for a, b in zip(samples, others, strict=True)]


TRANSFORMS = (
    *(transforms.Resize, transforms.ResizeKeepRatio, transforms.Letterbox, transforms.PadToMultiple),
    *(transforms.ColorDistort, transforms.Normalize, transforms.RandomFlip),
    *(ResizeShort, CenterCrop, RandomResizedCrop, MultiScaleCrop, RandAugment, RandomErasing, GridMask),
    JpegCompression,
)
BATCH_TRANSFORMS = (Mixup, CutMix)


def _mixed(a: Labelled, b: Labelled, weight: np.float32) -> Labelled:
    if a.pixels.dtype != np.float32:
        raise DataError(f"Mixup: {a.name} has {a.pixels.dtype} pixels; it takes float32, put Normalize in transforms")
    if a.pixels.shape != b.pixels.shape:
        raise DataError(
            f"Mixup: {a.name} is {list(a.pixels.shape)} and {b.name} {list(b.pixels.shape)}; "
            "end the transforms with a crop or Resize"
        )
    return both(a.recoloured(weight * a.pixels + (1 - weight) * b.pixels), b, weight)
