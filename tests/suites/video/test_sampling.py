"""Segments: a random frame of each part in training, the middle one in evaluation, in order, never out of range."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.video.sampling import Segments


def test_evaluation_takes_the_middle_of_each_part():
    assert Segments(3).frames(30).tolist() == [5, 15, 25]
    assert Segments(3).frames(3).tolist() == [0, 1, 2]
    assert Segments(1).frames(8).tolist() == [4]


def test_training_takes_every_frame_of_a_part_equally_often():
    rng = np.random.default_rng(0)
    drawn = np.array([Segments(3).frames(12, rng) for _ in range(4000)])
    assert ((drawn >= [0, 4, 8]) & (drawn < [4, 8, 12])).all()
    counts = np.array([np.bincount(drawn[:, i] - 4 * i, minlength=4) for i in range(3)])
    # 1,000 expected each, standard deviation 27: 150 is more than five of them.
    assert (np.abs(counts - 1000) < 150).all()


@pytest.mark.parametrize("total", [1, 2, 5, 7, 100])
@pytest.mark.parametrize(("count", "length"), [(1, 1), (3, 1), (8, 1), (4, 5)])
def test_indices_ascend_within_the_video(total, count, length):
    rng = np.random.default_rng(0)
    for chosen in [
        Segments(count, length).frames(total),
        *[Segments(count, length).frames(total, rng) for _ in range(20)],
    ]:
        assert len(chosen) == count * length and chosen.min() >= 0 and chosen.max() < total
        assert (np.diff(chosen[::length]) >= 0).all()


def test_a_part_gives_frames_in_a_row():
    assert Segments(2, 3).frames(12).tolist() == [2, 3, 4, 7, 8, 9]


def test_frames_of_a_part_lie_an_interval_apart():
    assert Segments(1, 4, 8).frames(100).tolist() == [38, 46, 54, 62]
    assert Segments(1, 4, 8).frames(10).tolist() == [0, 8, 9, 9]  # a shorter video ends with its last frame


def test_no_parts_are_refused():
    with pytest.raises(AttributeValueError, match="count is 0, length 1, interval 1, test_clips 1; all"):
        Segments(0)


def test_several_test_clips_begin_at_even_places_of_each_part():
    segments = Segments(2, 2, 1, test_clips=2)
    # 11 first frames, 5.5 for each part: a quarter and three quarters of these, then the part's begin.
    assert segments.frames(12).reshape(2, 2, 2).tolist() == [[[1, 2], [6, 7]], [[4, 5], [9, 10]]]
    assert len(segments.frames(12, np.random.default_rng(0))) == 4  # training takes one clip


def test_the_shortest_video_whose_parts_are_whole():
    assert [s.least for s in (Segments(3), Segments(1, 4, 8), Segments(2, 3))] == [3, 25, 4]
    assert Segments(1, 4, 8).frames(25).tolist() == [0, 8, 16, 24]
    assert Segments(1, 4, 8).frames(24).tolist() == [0, 8, 16, 23]
