"""Images from requests, and a classifier that is served: what a client gets is what the tools write."""

import base64

import numpy as np
import pytest

from framework import limits
from framework.errors import DataError
from suites.classification.processor import ClassificationProcessor
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.engine.registry import load_suites
from suites.vision.augmentation.transforms import Resize
from suites.vision.pictures.images import encode_image
from tests import bombs

CONFIG = "configs/classification/resnet18_digits.yml"
IMAGE = np.random.default_rng(0).integers(0, 255, (20, 24, 3), np.uint8)


def as_json(image, suffix=".png"):
    return base64.b64encode(encode_image(image, suffix)).decode()


@pytest.fixture
def processor():
    load_suites(["classification"])
    return ClassificationProcessor([Resize(8)], ["a", "b"])


def test_an_image_comes_from_base64(processor):
    np.testing.assert_array_equal(processor.from_json(as_json(IMAGE)), IMAGE)
    assert processor.from_json(processor.example()).dtype == np.uint8


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "takes an image file as base64 text, got int"),
        ("ü" * 8, "this is no base64"),
        ("abc", "this is no base64"),
        ("", "the file is empty"),
        (base64.b64encode(b"GIF87a").decode(), "damaged, or not an image"),
        (as_json(IMAGE)[:-40], "cut off"),
    ],
)
def test_what_is_no_image_is_refused(processor, value, message):
    with pytest.raises(DataError, match=message):
        processor.from_json(value)


def test_a_classifier_is_served():
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client, ServerError
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running

    task = build_task(load_config(CONFIG))
    predict = predict_of(task)
    model = Model(task.processor(), task.eval_inputs, predict, lambda: predict)
    images = [np.roll(IMAGE, 3 * i, axis=0) for i in range(5)]
    expected = predict_items(model.processor, model.inputs, predict, images)
    with running(model, Settings(name="digits", max_chars=10)) as server, Client(server.url) as client:
        found = client.score([as_json(image) for image in images])
        with pytest.raises(ServerError, match="this model gives no vectors"):
            client.encode([as_json(IMAGE)])
        metadata = client.request("GET", "/v2/models/digits")
    assert [row["name"] for row in metadata["inputs"]] == ["items", "images"]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose([row["score"] for row in ours], [row["score"] for row in theirs], atol=2e-5)


def test_a_picture_is_measured_before_it_is_decoded(processor):
    assert processor.decoded_bytes(as_json(IMAGE)) == IMAGE.nbytes
    bomb = base64.b64encode(bombs.png(20_000, 10_000)).decode()
    for work in (processor.decoded_bytes, processor.from_json):
        with pytest.raises(DataError, match=r"10000 x 20000 is too many pixels, 200000000; 67108864 are allowed"):
            work(bomb)
    with limits.allow(pixels=300), pytest.raises(DataError, match="480; 300 are allowed"):
        processor.from_json(as_json(IMAGE))


def test_a_thousand_pictures_in_a_request_are_refused_by_what_they_take(processor):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running
    from tests.suites.engine.serving.web.test_server import problem

    picture = base64.b64encode(bombs.png(6000, 4000)).decode()

    def predict(arrays):
        return {"scores": np.zeros((len(arrays["images"]), 2), np.float32)}

    model = Model(processor, ("images",), predict, lambda: predict)
    with running(model, Settings(name="m")) as server:
        status, message = problem(server, "/v1/scores", {"input": [picture] * 80})
    assert status == 413 and "the items take 5760000000 bytes once decoded; 268435456 are allowed" in message
