"""Several crops of a clip, over whose probabilities a test averages: three along the long side, or ten."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.config import Part
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.pixels import pair
from suites.vision.recognition.sample import LabelledClip


class Crops(Transform):
    """Cuts several parts out of all clips of a video, which become views of it: for evaluation only.

    Args:
        size: side of the square, or [height, width], in pixels; no larger than the frames.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self._size = pair(size, type(self).__name__)

    def __call__(self, sample: LabelledClip, rng: np.random.Generator) -> LabelledClip:
        """Returns the views: those of the first part, then those of the next."""
        (height, width), (h, w) = sample.size, self._size
        if h > height or w > width:
            raise DataError(
                f"{type(self).__name__}: {sample.name} is {height}x{width} (height x width), smaller than the crop "
                f"{h}x{w}; put ResizeShort before it"
            )
        parts = [part.frames for part in self._parts(sample, height - h, width - w)]
        return replace(sample, frames=np.concatenate(parts), views=sample.views * len(parts))

    @abstractmethod
    def _parts(self, sample: LabelledClip, free_height: int, free_width: int) -> Iterator[LabelledClip]:
        """The parts; the free pixels are what the frames are larger by."""

    @classmethod
    def sizes_of(cls, part: Part) -> Iterator[tuple[str, Any]]:
        """Its size."""
        yield "size", part["size"]


@register("transform")
class ThreeCrop(Crops):
    """Cuts out three parts along the long side: its begin, middle and end (Wang et al. 2018, arXiv:1711.07971).

    Args:
        size: side of the square, or [height, width], in pixels; no larger than the frames.
    """

    def _parts(self, sample: LabelledClip, free_height: int, free_width: int) -> Iterator[LabelledClip]:
        for place in (0, 1, 2):
            top, left = (1, place) if sample.size[1] >= sample.size[0] else (place, 1)
            yield sample.cropped(self._size, free_height * top // 2, free_width * left // 2)


@register("transform")
class TenCrop(Crops):
    """Cuts out the four corners and the middle, and their mirror images (Krizhevsky et al. 2012).

    Not for classes that a mirror turns into each other, such as "points left" and "points right".

    Args:
        size: side of the square, or [height, width], in pixels; no larger than the frames.
    """

    def _parts(self, sample: LabelledClip, free_height: int, free_width: int) -> Iterator[LabelledClip]:
        for top, left in ((0, 0), (0, 2), (2, 0), (2, 2), (1, 1)):
            part = sample.cropped(self._size, free_height * top // 2, free_width * left // 2)
            yield part
            yield part.mirrored(True)
