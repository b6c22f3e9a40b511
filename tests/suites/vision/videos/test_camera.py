"""A camera is a video that ends when it is told to; FFmpeg's test picture stands for one."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from framework import limits
from framework.errors import ConfigError, DataError, NotSupportedError
from suites.detection.processor import DetectionProcessor
from suites.engine.contract.capabilities import OverTime
from suites.video.processor import VideoProcessor
from suites.vision.videos import camera
from suites.vision.videos.camera import camera_number, opened_camera
from suites.vision.videos.reading import frames_of, has_pyav, pyav

pytestmark = pytest.mark.skipif(
    not has_pyav() or "lavfi" not in pyav().formats_available, reason="PyAV has no lavfi, which makes the test picture"
)


@pytest.fixture
def picture(monkeypatch):
    """Camera N shows FFmpeg's test picture, 20 frames a second, without an end."""
    monkeypatch.setattr(camera, "_SYSTEMS", {sys.platform: ("lavfi", "testsrc=size=64x48:rate=20")})


def test_digits_are_a_camera_where_no_file_has_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert camera_number("0") == 0 and camera_number(Path("12")) == 12
    assert camera_number("a.mp4") is None and camera_number("²") is None and camera_number("-1") is None
    (tmp_path / "0").mkdir()
    assert camera_number("0") is None


def test_a_camera_ends_after_its_seconds_or_where_limits_say(picture):
    with opened_camera(0, seconds=0.5) as source:
        frames = list(source.frames())
    np.testing.assert_allclose([frame.seconds for frame in frames], np.arange(11) / 20, atol=1e-3)
    assert frames[0].pixels.shape == (48, 64, 3)
    with limits.allow(video_seconds=1), opened_camera(0) as source:
        assert len(list(source.frames())) == 21


def test_the_first_interrupt_ends_a_camera_and_the_second_is_python_s_own(picture):
    count = 0
    before = signal.getsignal(signal.SIGINT)
    with opened_camera(0) as source:
        for _ in source.frames():
            count += 1
            if count == 3:
                os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([], 1)  # the handler runs here at the latest
    assert count == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_a_camera_that_is_not_there_is_one_error(monkeypatch):
    monkeypatch.setattr(camera, "_SYSTEMS", {sys.platform: ("lavfi", "nosuchsource=size={}")})
    with pytest.raises(DataError, match=r"camera 7: cannot be opened .*is it connected"), opened_camera(7):
        pass
    monkeypatch.setattr(camera, "_SYSTEMS", {sys.platform: ("nosuchformat", "{}")})
    with pytest.raises(NotSupportedError, match="no nosuchformat; record a video"), opened_camera(0):
        pass
    monkeypatch.setattr(camera, "_SYSTEMS", {})
    with pytest.raises(NotSupportedError, match="Linux and macOS"), opened_camera(0):
        pass


def test_what_a_detector_finds_in_a_camera_is_drawn_on_a_video(picture, tmp_path):
    processor = DetectionProcessor([], ("cat",), 0.5)
    one = [{"class": "cat", "score": 0.9, "box": [5.0, 5.0, 40.0, 40.0]}]
    assert processor.is_live("0") and not processor.is_live("photo.jpg")
    found = processor.film(
        Path("0"), lambda items: [one for _ in items], OverTime(video=tmp_path / "out.mp4", seconds=0.2)
    )
    assert [entry["seconds"] for entry in found] == [0.0, 0.05, 0.1, 0.15, 0.2]
    assert len(list(frames_of(tmp_path / "out.mp4"))) == 5


def test_windows_of_a_camera_are_labelled_but_not_filmed(picture, tmp_path):
    processor = VideoProcessor([], ("a", "b"), (2, 1, 1, 1))
    said = [{"class": "a", "score": 0.9}]
    found = processor.film(Path("0"), lambda items: [said for _ in items], OverTime(0.25, seconds=0.9))
    assert [window["start"] for window in found["windows"]] == [0, 0.25, 0.5, 0.75]
    with pytest.raises(ConfigError, match="reads its source twice"):
        processor.film(Path("0"), lambda items: [said for _ in items], OverTime(0.25, tmp_path / "out.mp4"))
