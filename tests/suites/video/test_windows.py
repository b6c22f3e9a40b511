"""A long video is labelled over time: windows by time, spans of equal labels, JSON and an annotated video."""

import json

import av
import numpy as np
import pytest

from framework.errors import ConfigError, DataError
from suites.detection.processor import DetectionProcessor
from suites.engine.cli.infer import main
from suites.engine.contract.capabilities import OverTime
from suites.engine.train.training import train
from suites.video.drawing import labels_over_time
from suites.video.sampling import Segments
from suites.video.windows import labelled, spans, windows
from suites.vision.pictures.images import read_image
from suites.vision.videos.reading import frames_of, opened_video
from suites.vision.videos.writing import check_film_name, written_film
from tests.suites.video.helpers import grey, levels_of, video, write_frame_folders, write_video
from tests.suites.video.test_task import CONFIG

LEVELS = np.arange(20, 20 + 8 * 25, 8)  # 25 frames at 10 a second


def parts(path, seconds, segments):
    with opened_video(path) as source:
        return list(windows(source, seconds, segments))


def test_windows_of_equal_time_and_a_shorter_last_one(tmp_path):
    path = write_video(tmp_path / "a.mp4", grey(LEVELS))
    found = parts(path, 1.0, Segments(2))
    assert [(w.start, pytest.approx(w.end)) for w in found] == [(0, 1), (1, 2), (2, 2.5)]
    # 10 frames a window, of which `Segments(2)` takes 2 and 7; the last window has 5, then stands still.
    expected = LEVELS[[2, 7, 12, 17, 22, 24]]
    np.testing.assert_allclose(levels_of(np.concatenate([w.frames for w in found])), expected, atol=3.9)


def test_windows_of_a_varying_rate_follow_the_time(tmp_path):
    path = write_video(tmp_path / "a.mp4", grey(LEVELS[:6]), stamps=[0, 10, 20, 100, 200, 210])
    found = parts(path, 1.0, Segments(1))  # frames at the middle of each second
    assert [round(w.start) for w in found] == [0, 1, 2]
    np.testing.assert_allclose(levels_of(np.concatenate([w.frames for w in found])), LEVELS[[2, 3, 5]], atol=3.9)


def test_several_clips_of_a_window_come_in_their_order(tmp_path):
    path = write_video(tmp_path / "a.mp4", grey(LEVELS[:10]))
    segments = Segments(2, test_clips=2)
    (window,) = parts(path, 1.0, segments)
    np.testing.assert_allclose(levels_of(window.frames), LEVELS[segments.frames(10)], atol=3.9)


def test_a_window_shorter_than_a_frame_is_refused(tmp_path):
    path = write_video(tmp_path / "a.mp4", grey(LEVELS[:4]))
    with pytest.raises(ConfigError, match=r"a window of 0\.01 s is shorter than a frame"):
        parts(path, 0.01, Segments(1))


def said(label, start, score=0.5):
    return {"start": start, "end": start + 1, "classes": [{"class": label, "score": score}]}


def test_spans_join_windows_of_one_label():
    found = spans([said("a", 0, 0.5), said("a", 1, 0.7), said("b", 2), said("a", 3)])
    assert [(s["start"], s["end"], s["class"], s["score"]) for s in found] == [
        (0, 2, "a", 0.6),
        (2, 3, "b", 0.5),
        (3, 4, "a", 0.5),
    ]


def test_a_labelled_frame_has_a_bar_of_all_labels_and_a_mark():
    frame = np.zeros((120, 200, 3), np.uint8)
    found = [said("a", 0), said("b", 1)]
    picture = labelled(frame, 0.5, found, 1.0, ["a", "b"])
    assert not frame.any() and picture.shape == frame.shape
    bar = picture[-1]
    assert (bar[50] == 255).all() and not (bar[10] == bar[190]).all() and (bar[10] == bar[90]).all()
    late = labelled(frame, 99.0, found, 1.0, ["a", "b"])  # behind the last window: its label
    assert (late[-1, -1] == 255).all()


def test_labels_over_time_are_darker_where_they_are_surer():
    picture = labels_over_time([said("a", 0, 1.0), said("b", 1, 0.5), said("a", 2, 0.2)], ["a", "b"])
    assert picture.shape == (3 * 26, 160 + 960, 3)
    first = picture[13, 160 + 40], picture[13, 160 + 480], picture[13, 160 + 920]  # row of "a", in each window
    assert first[0].sum() < first[2].sum() < first[1].sum() == 3 * 255
    assert labels_over_time([said("a", 7200)], ["a"]).any()


def test_a_film_keeps_frames_and_their_times(tmp_path):
    times = [0.0, 0.1, 0.5, 1.0]
    with written_film(tmp_path / "new" / "out.mp4", 10) as film:
        for seconds, picture in zip(times, grey([30, 90, 150, 210], (49, 65)), strict=True):
            film.add(seconds, picture)
    with opened_video(tmp_path / "new" / "out.mp4") as source:
        found = list(source.frames())
    np.testing.assert_allclose([frame.seconds for frame in found], times, atol=1e-3)
    np.testing.assert_allclose(levels_of([frame.pixels for frame in found]), [30, 90, 150, 210], atol=3.9)
    assert found[0].pixels.shape == (48, 64, 3)


def test_a_film_that_fails_leaves_no_file(tmp_path):
    with (
        pytest.raises(DataError, match="has 24 x 24 pixels, the first one had 48 x 64"),
        written_film(tmp_path / "out.mp4", 10) as film,
    ):
        film.add(0, grey([1])[0])
        film.add(1, grey([1], (24, 24))[0])
    with pytest.raises(DataError, match="no picture to write"), written_film(tmp_path / "out.mp4", 10):
        pass
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=r"out\.gif: a video is written as \.mp4"):
        check_film_name(tmp_path / "out.gif")


def test_a_run_labels_a_long_video(tmp_path, capsys):
    config = tmp_path / "tiny.yml"
    config.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    train(config, runs=tmp_path, name="run")
    frames = np.concatenate([video(way, 20, seed=3) for way in ("left", "down", "right")])
    write_video(tmp_path / "long.mp4", frames)
    words = [str(tmp_path / "run"), str(tmp_path / "long.mp4")]
    written = ["--output", str(tmp_path / "out"), "--video", str(tmp_path / "out" / "shown.mp4")]
    assert main([*words, "--window", "1s", *written]) == 0
    (found,) = json.loads((tmp_path / "out" / "predictions.json").read_text()).values()
    assert [span["class"] for span in found["spans"]] == ["left", "down", "right"]
    assert [(span["start"], span["end"]) for span in found["spans"]] == [(0, 2), (2, 4), (4, 6)]
    assert read_image(tmp_path / "out" / "long.jpg").shape == (4 * 26, 160 + 960, 3)  # 3 classes and the times
    assert len(found["windows"]) == 6 and len(list(frames_of(tmp_path / "out" / "shown.mp4"))) == 60
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    assert main([words[0], str(tmp_path / "broken.mp4"), "--window", "1s", "--output", str(tmp_path / "two")]) == 2
    assert "broken.mp4: damaged" in capsys.readouterr().err
    for wrong, match in (
        ([*words, "--video", "x.mp4"], "needs --window too"),
        ([*words, words[1], "--window", "2", "--video", "x.mp4"], "there are 2 inputs"),
        ([*words, "--window", "1s", "--video", "x.gif"], "a video is written as"),
    ):
        assert main(wrong) == 2
        assert match in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--window", "0s"])
    assert "'0s' is no time above 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--window", "2s", "--batch-size", "3"])
    assert "leave out --batch-size and --profile" in capsys.readouterr().err


def test_what_a_detector_finds_is_drawn_on_a_video(tmp_path):
    path = write_video(tmp_path / "a.mp4", grey(LEVELS[:5]))
    processor = DetectionProcessor([], ("cat",), 0.5)
    one = [{"class": "cat", "score": 0.9, "box": [5.0, 5.0, 40.0, 40.0]}]
    found = processor.film(path, lambda items: [one for _ in items], OverTime(video=tmp_path / "out.mp4"))
    assert [round(entry["seconds"], 1) for entry in found] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert found[0]["found"] == processor.summary(one)
    with av.open(str(tmp_path / "out.mp4")) as shown:
        assert sum(1 for _ in shown.decode(video=0)) == 5
    with pytest.raises(ConfigError, match="looks at single frames"):
        processor.film(path, lambda items: [one for _ in items], OverTime(2.0))
