"""Transforms of video alone: differences of frames in a row."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError, DTypeError
from suites.video.transforms import FrameDifferences
from suites.vision.recognition.sample import LabelledClip


def clip(frames):
    values = np.asarray(frames, np.float32)[:, None, None, None]
    return LabelledClip.of(values * np.ones((1, 2, 2, 3), np.float32), 1, "a")


def changed(frames, length):
    return FrameDifferences(length)(clip(frames), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("frames", "length", "wanted"),
    [([1, 3, 10, 11], 2, [2, 1]), ([1, 3, 10, 11, 7, 7], 3, [2, 7, -4, 0]), ([5, 2], 2, [-3])],
)
def test_frames_of_a_part_are_compared_and_never_those_of_two_parts(frames, length, wanted):
    found = changed(frames, length)
    np.testing.assert_array_equal(found.frames[:, 0, 1, 2], wanted)
    assert found.frames.shape == (len(wanted), 2, 2, 3) and found.frames.dtype == np.float32
    assert found.labels == [1]


def test_a_clip_of_equal_frames_has_no_motion():
    assert not changed([4, 4, 4, 4], 2).frames.any()


def test_other_lengths_than_the_segments_and_pixels_before_normalize_are_one_error():
    with pytest.raises(DataError, match=r"a has 3 frames, not a multiple of length, 2; set segments.length to 2"):
        changed([1, 2, 3], 2)
    with pytest.raises(DTypeError, match="put Normalize before it"):
        FrameDifferences()(LabelledClip.of(np.zeros((2, 4, 4, 3), np.uint8)), np.random.default_rng(0))
    with pytest.raises(AttributeValueError, match="2 frames or more"):
        FrameDifferences(1)
