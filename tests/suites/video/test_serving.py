"""A video classifier is served: what a client gets for a file is what the tools write; other values are refused."""

import base64

import numpy as np
import pytest

from framework import limits
from framework.errors import DataError
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.video.processor import VideoProcessor
from suites.vision.augmentation.transforms import Normalize
from suites.vision.videos.writing import encode_film
from tests.suites.video.helpers import video, write_frame_folders
from tests.suites.video.test_task import CONFIG


def as_json(frames):
    return base64.b64encode(encode_film(frames, 10)).decode()


@pytest.fixture
def processor():
    return VideoProcessor([Normalize()], ["a", "b"], (4, 1))


def test_a_clip_comes_from_base64(processor):
    frames = video("left", 8)
    found = processor.from_json(as_json(frames))
    assert found.shape == (4, 32, 48, 3)
    # Compression loses the noise, of mean 4, and little else.
    assert np.abs(found.astype(int) - frames[[1, 3, 5, 7]]).mean() < 8
    assert processor.from_json(processor.example()).shape == (4, 64, 64, 3)
    assert processor.decoded_bytes(as_json(frames)) == found.nbytes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "takes a video file as base64 text, got int"),
        ("ü" * 8, "this is no base64"),
        ("", "no video that FFmpeg reads"),
        (base64.b64encode(b"GIF87a").decode(), "no video that FFmpeg reads"),
        (as_json(video("left", 8))[:-400], "cut off"),
    ],
)
def test_what_is_no_video_is_refused(processor, value, message):
    for work in (processor.from_json, processor.decoded_bytes):
        with pytest.raises(DataError, match=message):
            work(value)


def test_a_video_is_measured_before_it_is_decoded(processor):
    with limits.allow(pixels=1000), pytest.raises(DataError, match="of the request: its frames of 32 x 48"):
        processor.decoded_bytes(as_json(video("left", 8)))


def test_a_video_classifier_is_served(tmp_path):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running

    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    task = build_task(load_config(path))
    predict = predict_of(task)
    model = Model(task.processor(), task.eval_inputs, predict, lambda: predict)
    values = [as_json(video(way, 8)) for way in ("left", "down")]
    items = [model.processor.from_json(value) for value in values]
    expected = [predict_items(model.processor, model.inputs, predict, [item])[0] for item in items]
    with running(model, Settings(name="clips")) as server, Client(server.url) as client:
        found = client.score(values)
    for ours, theirs in zip(found, expected, strict=True):
        assert [row["class"] for row in ours] == [row["class"] for row in theirs]
        np.testing.assert_allclose([row["score"] for row in ours], [row["score"] for row in theirs], atol=2e-5)
