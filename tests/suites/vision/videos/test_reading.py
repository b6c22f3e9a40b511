"""A video is predicted on frame by frame, and one that cannot be read is named."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.detection.processor import DetectionProcessor
from suites.vision.videos.reading import frames_of


@pytest.fixture
def video(tmp_path):
    path = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for at in range(5):
        writer.write(np.full((48, 64, 3), 40 * at, np.uint8))
    writer.release()
    return path


def test_frames_come_in_order(video):
    means = [frame.mean() for frame in frames_of(video)]
    assert len(means) == 5 and means == sorted(means)


def test_a_detector_takes_the_frames_of_a_video(video):
    processor = DetectionProcessor([], ("x",), 0.5)
    found = [(name, read()) for name, read in processor.inputs(str(video))]
    assert [name[-10:] for name, _ in found] == [f"{at:06d}.jpg" for at in range(5)]
    assert found[0][1].shape == (48, 64, 3)


def test_a_video_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"no video at all")
    with pytest.raises(DataError, match=r"clip\.mp4: damaged, cut off, or no video"):
        list(frames_of(path))
    ((_, read),) = DetectionProcessor([], ("x",), 0.5).inputs(str(path))
    with pytest.raises(DataError, match=r"clip\.mp4"):
        read()
