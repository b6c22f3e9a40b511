"""Which frames of a video are looked at: TSN's segments (Wang et al. 2016, arXiv:1608.00859)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class Segments:
    """A video is cut into equal parts and each gives a few frames in a row.

    The first of them lies at a random place of the part in training, in its middle in evaluation. A video with fewer
    frames than parts gives frames more than once, in order.

    Args:
        count: parts of a video.
        length: frames of each part.
        interval: from one of these to the next; one part of many frames some way apart is the dense sampling of I3D.
        test_clips: clips that evaluation takes of a video, whose probabilities are averaged: the frames of clip v of V
            begin at (v + 1/2) / V of each part.
    """

    count: int = 3
    length: int = 1
    interval: int = 1
    test_clips: int = 1

    def __post_init__(self) -> None:
        if min(self.count, self.length, self.interval, self.test_clips) < 1:
            raise AttributeValueError(
                f"Segments: count is {self.count}, length {self.length}, interval {self.interval}, test_clips "
                f"{self.test_clips}; all must be 1 or more"
            )

    @property
    def least(self) -> int:
        """Frames of the shortest video of which the parts begin at different frames and have their whole length."""
        return self.count + (self.length - 1) * self.interval

    def frames(self, total: int, rng: np.random.Generator | None = None) -> np.ndarray:
        """Indices into a video of `total` frames, int64, ascending within a clip; `rng` is None in evaluation.

        [count * length] of one clip in training, [test_clips * count * length] in evaluation, clip after clip.
        """
        reach = (self.length - 1) * self.interval + 1
        share = max(total - reach + 1, 1) / self.count  # first frames that each part can choose from
        if rng is None:
            place = np.repeat((np.arange(self.test_clips) + 0.5) / self.test_clips, self.count).reshape(-1, self.count)
        else:
            place = rng.random((1, self.count))
        first = np.floor((np.arange(self.count) + place) * share).astype(np.int64)
        return np.minimum(first[..., None] + np.arange(self.length) * self.interval, total - 1).reshape(-1)
