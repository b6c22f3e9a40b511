"""What every video dataset offers: clips of a few frames, chosen from each video by segments."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from suites.engine.registry import register_role
from suites.video.reading import Choice
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
        """The clip of video `index`; frames are drawn from `rng` in training, else it may be several."""
        frames = self.frames(index, lambda total: self.segments.frames(total, rng))
        sample = LabelledClip.of(frames, int(self.labels[index]), self.name_of(index))
        return replace(sample, views=self.segments.test_clips if rng is None else 1)

    @abstractmethod
    def frames(self, index: int, choose: Choice) -> np.ndarray:
        """Frames of video `index`, uint8 [T, H, W, 3]; a DataError names what cannot be read.

        `choose` takes the number of frames of the video and returns the indices of those wanted.
        """

    def holes(self, index: int) -> int:
        """Frames of video `index` that seem to be missing; 0 where nothing tells."""
        return 0


register_role("dataset", RecognitionDataset, doc="videos, or their features, with labels, by index")
