"""What every video dataset offers: clips of a few frames, chosen from each video by segments."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from suites.engine.registry import register_role
from suites.video.sampling import Segments
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.sample import LabelledClip


class VideoDataset(RecognitionDataset):
    """Videos with one label each.

    Attributes:
        segments: which frames of a video make its clip.
    """

    segments: Segments

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledClip:
        """The clip of video `index`; frames are drawn from `rng` in training."""
        frames = self.read(index, rng)
        return LabelledClip.of(frames, int(self.labels[index]), self.name_of(index))

    @abstractmethod
    def read(self, index: int, rng: np.random.Generator | None) -> np.ndarray:
        """The chosen frames of video `index`, uint8 [T, H, W, 3]; a DataError names what cannot be read."""


register_role("dataset", RecognitionDataset, doc="videos, or their features, with labels, by index")
