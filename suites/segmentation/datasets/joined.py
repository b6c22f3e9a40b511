"""Joined: several segmentation data sets as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from suites.engine.registry import register
from suites.segmentation.datasets.base import SegmentationDataset
from suites.segmentation.sample import Sample
from suites.vision.joining import Joining


@register("dataset")
class Joined(Joining[SegmentationDataset], SegmentationDataset):
    """Data sets one behind the other; `order: {type: Shares}` says how often each is drawn from.

    Colours of classes are those of the first part.

    Args:
        parts: data sets with the same classes in the same order.
    """

    def __init__(self, parts: Sequence[SegmentationDataset]) -> None:
        super().__init__(parts)
        self.palette = parts[0].palette

    def __getitem__(self, index: int) -> Sample:
        part, place = self.place_of(index)
        return replace(part[place], image_id=index % len(self))

    def sizes(self) -> np.ndarray:
        """See `SegmentationDataset`."""
        return np.concatenate([part.sizes() for part in self.parts])

    def image(self, index: int) -> np.ndarray:
        """Image `index` alone, uint8 RGB [H, W, 3]."""
        part, place = self.place_of(index)
        return part.image(place)
