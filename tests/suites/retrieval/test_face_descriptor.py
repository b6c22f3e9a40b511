"""dlib's descriptor of faces: the numbers of face-api.js' program, length 1, a gradient, what it refuses."""

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import ShapeError
from suites import engine
from suites.engine.weights import load_wanted
from suites.engine.weights.records import get_record
from suites.engine.weights.runs import write_run
from suites.retrieval.models.face_descriptor import SIDE, FaceDescriptor
from suites.vision.face_api import drawn_face
from tests.zoo import fetched

# The first and last four of 128 numbers, their sum and length, that `forwardInput` of @vladmandic/face-api 1.7.15 gives
# for the picture of `drawn`, on the CPU backend of its TensorFlow.js 4.22 under node 20 (2026-11-28).
FIRST, LAST = [-0.121624, 0.106222, 0.117178, -0.031057], [0.030327, -0.037266, -0.041077, 0.056812]
SUM, LENGTH = -0.5736413, 1.3122979


def picture():
    return drawn_face(SIDE)


def test_its_descriptor_is_that_of_face_api_js(monkeypatch):
    model = FaceDescriptor(pretrained=fetched("face_descriptor", monkeypatch))
    load_wanted(model)
    model.eval()
    with no_grad():
        found, unit = model.features(picture()).numpy()[0], model(picture()).numpy()[0]
    np.testing.assert_allclose([*found[:4], *found[-4:]], [*FIRST, *LAST], atol=2e-6)
    assert found.sum() == pytest.approx(SUM, abs=1e-4) and np.linalg.norm(found) == pytest.approx(LENGTH, rel=1e-5)
    np.testing.assert_allclose(unit, found / np.linalg.norm(found), atol=1e-6)


def test_its_record_becomes_a_run_though_it_has_no_classes(monkeypatch, tmp_path):
    record = get_record(fetched("face_descriptor", monkeypatch))
    assert write_run(record, tmp_path / "run") == ["FaceDescriptor: pretrained face_descriptor: 117 tensors loaded"]
    (found,) = engine.load(tmp_path / "run")([np.zeros((40, 30, 3), np.uint8)])
    vector = found.value
    assert vector.shape == (128,) and np.linalg.norm(vector) == pytest.approx(1, rel=1e-5)


def test_all_of_it_learns():
    model = FaceDescriptor()
    nn.init.initialize(model, 0)
    (model.features(picture()) * tensor(np.arange(128, dtype=np.float32))).mean().backward()
    assert all(np.abs(p.grad.numpy()).max() > 0 for p in model.parameters())


def test_images_of_another_side_are_an_error():
    with pytest.raises(ShapeError, match="FaceDescriptor: images are 112x150; its size is 150, square"):
        FaceDescriptor().features(tensor(np.zeros((1, 150, 112, 3), np.float32)))
