"""The transforms of video classification; all frames of a clip change alike.

Those of `suites.vision.recognition.transforms`, and what needs frames in a row.
"""

from __future__ import annotations

import numpy as np

from framework.errors import AttributeValueError, DataError, DTypeError
from suites.engine.registry import register, register_role
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.recognition.sample import LabelledClip
from suites.vision.recognition.transforms import BATCH_TRANSFORMS, TRANSFORMS

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
for _transform in TRANSFORMS:
    register("transform")(_transform)
for _batch_transform in BATCH_TRANSFORMS:
    register("batch_transform")(_batch_transform)


@register("transform")
class FrameDifferences(Transform):
    """Replaces frames by how they differ from those before: motion without scene ("RGB difference", TSN, section 3.2).

    It comes after `Normalize`. Frames in a row, `length` of each part of the video, give `length - 1` differences, so
    `segments: {count: 8, length: 2}` gives clips of 8.

    Args:
        length: frames in a row, 2 or more: the `length` of `segments`.
    """

    def __init__(self, length: int = 2) -> None:
        if length < 2:
            raise AttributeValueError(f"FrameDifferences: length is {length}; a difference takes 2 frames or more")
        self._length = length

    def __call__(self, sample: LabelledClip, rng: np.random.Generator) -> LabelledClip:
        """Returns the clip of float32 differences [T / length * (length - 1), H, W, 3]."""
        frames = sample.frames
        if frames.dtype != np.float32:
            raise DTypeError(f"FrameDifferences: {sample.name} has {frames.dtype} frames; put Normalize before it")
        if len(frames) % self._length:
            raise DataError(
                f"FrameDifferences: {sample.name} has {len(frames)} frames, not a multiple of length, {self._length}; "
                f"set segments.length to {self._length}"
            )
        rows = frames.reshape(-1, self._length, *frames.shape[1:])
        return sample.recoloured((rows[:, 1:] - rows[:, :-1]).reshape(-1, *frames.shape[1:]))
