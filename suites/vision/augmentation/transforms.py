"""Transforms of every sample with an image: sizes, mirroring, colours, normalisation.

A suite registers those it offers as its own; boxes or label maps move along, as the suite's sample says.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from framework.errors import AttributeValueError, ConfigError
from suites.engine.config import Part
from suites.engine.names import did_you_mean, listing
from suites.vision.augmentation.colour import ColourMaps, recolour
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, IMAGENET_STD, Normalizer, check_prob, interpolation, pair
from suites.vision.sample import VisualSample, scaled_size

Interp = Literal["nearest", "linear", "cubic", "area", "lanczos", "random"]
Sample = TypeVar("Sample", bound=VisualSample)


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
        return sample.resized(self._size, interpolation(self._interp, rng))

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """Its size."""
        yield "size", part["size"]


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
        return sample.resized(scaled_size(sample.size, scale), interpolation(self._interp, rng))


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
        sample = sample.resized(inner, interpolation(self._interp, rng))
        free = fit_height - inner[0], fit_width - inner[1]
        top, left = (free[0] // 2, free[1] // 2) if self._centred else (0, 0)
        return sample.padded(self._size, top, left, self._fill)

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """Its size."""
        yield "size", part["size"]


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
        return sample.padded((height, width), 0, 0, self._fill)


class RandomFlip(Transform):
    """Mirrors images and clips; points of left and right change places, as their data set's pose says.

    Args:
        prob: How often.
        direction: "horizontal" swaps left and right, "vertical" top and bottom.
        swap: Pairs of names of classes that a mirror turns into each other, such as [left, right].
    """

    def __init__(
        self,
        prob: float = 0.5,
        direction: Literal["horizontal", "vertical"] = "horizontal",
        swap: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._prob = check_prob("RandomFlip", prob)
        self._horizontal = direction == "horizontal"
        self._pairs = tuple(swap)
        self._swap: dict[int, int] | None = None if swap else {}

    def for_classes(self, names: Sequence[str]) -> RandomFlip:
        """The transform with the numbers of the classes that it swaps; ConfigError for a name that is none of them."""
        if not self._pairs:
            return self
        numbers = {name: number for number, name in enumerate(names)}
        for name in (name for pair_ in self._pairs for name in pair_):
            if name not in numbers:
                raise ConfigError(
                    f"RandomFlip: swap names the class {name!r}, which the set does not have"
                    f"{did_you_mean(name, numbers) or f'; it has {listing(numbers)}'}"
                )
        bound = copy.copy(self)
        bound._swap = {numbers[a]: numbers[b] for pair_ in self._pairs for a, b in (pair_, pair_[::-1])}
        return bound

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample, mirrored or not."""
        if rng.random() >= self._prob:
            return sample
        if self._swap is None:
            raise ConfigError("RandomFlip: swap names classes, so it needs a set: `for_classes` gives it their numbers")
        mirrored = sample.mirrored(self._horizontal)
        return mirrored.reclassed(self._swap) if self._swap else mirrored


class ColorDistort(Transform):
    """Changes brightness, contrast, saturation and hue, each with probability `prob`, in random order.

    Every one is a linear map of RGB, so they are multiplied into one matrix and the image is passed over once.
    Values are cut to 0..255 at the end only.

    Args:
        brightness: Range of the factor on all values.
        contrast: Range of the factor on the distance from the image's mean grey.
        saturation: Range of the factor on the distance from each pixel's grey.
        hue: Range of the turn of the hue, in degrees.
        prob: How often each of the four is applied.
    """

    def __init__(
        self,
        brightness: Sequence[float] = (0.5, 1.5),
        contrast: Sequence[float] = (0.5, 1.5),
        saturation: Sequence[float] = (0.5, 1.5),
        hue: Sequence[float] = (-18.0, 18.0),
        prob: float = 0.5,
    ) -> None:
        self._maps = ColourMaps(brightness, contrast, saturation, hue, prob, "ColorDistort")

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with other colours; its image must be uint8."""
        pixels = recolour(sample.pixels, self._maps.draw(sample.pixels, rng))
        return sample if pixels is sample.pixels else sample.recoloured(pixels)


class Normalize(Transform):
    """Makes the image float32: (value / 255 - mean) / std, a channel at a time.

    Args:
        mean, std: Of red, green, blue, for values in [0, 1]; ImageNet's by default.
        bgr: Gives the network blue, green, red, as most of Detectron2's weights expect.
    """

    def __init__(
        self, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD, bgr: bool = False
    ) -> None:
        self._normal = Normalizer(mean, std)
        self._bgr = bgr

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Returns the sample with a float32 image; the given image must be uint8."""
        normal = self._normal(sample.pixels)
        return sample.recoloured(np.ascontiguousarray(normal[..., ::-1]) if self._bgr else normal)
