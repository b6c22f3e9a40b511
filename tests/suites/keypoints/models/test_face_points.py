"""face-api.js' 68 points: the numbers of its own program, a Program, what it refuses."""

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import ConfigError, ShapeError
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.weights import load_wanted
from suites.keypoints.models.face_points import SIDE, FacePoints
from suites.vision.face_api import drawn_face
from tests.zoo import fetched

# The first and last two places, the sum and the length of all 136 that `runNet` of @vladmandic/face-api 1.7.15 gives
# for the picture of `drawn`, on the CPU backend of its TensorFlow.js 4.22 under node 20 (2026-11-28).
FIRST, LAST = [0.422411, 0.544605, 0.549465, 0.554942], [0.5116, 0.348383, 0.552931, 0.379138]
SUM, LENGTH = 65.483551, 5.6906576


def made():
    model = FacePoints()
    nn.init.initialize(model, 0)
    return model.eval()


def picture():
    return drawn_face(SIDE)


def test_its_places_are_those_of_face_api_js(monkeypatch):
    model = FacePoints(pretrained=fetched("face_points_68", monkeypatch))
    load_wanted(model)
    model.eval()
    with no_grad():
        places, points = model(picture()).numpy()[0], model.points(picture()).numpy()[0]
    np.testing.assert_allclose([*places[:4], *places[-4:]], [*FIRST, *LAST], atol=2e-6)
    assert places.sum() == pytest.approx(SUM, rel=1e-5) and np.linalg.norm(places) == pytest.approx(LENGTH, rel=1e-5)
    np.testing.assert_allclose(points[:, :2], places.reshape(68, 2) * SIDE, rtol=1e-6)
    assert (points[:, 2] == 1).all()


def test_a_program_gives_the_same_points():
    model = made()
    with no_grad():
        wanted = model.points(picture()).numpy()
        found = program(model.points, pass_names=INFERENCE_PASSES)(picture()).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_images_of_another_side_and_training_are_errors(monkeypatch):
    with pytest.raises(ShapeError, match="FacePoints: images are 64x112; its size is 112, square"):
        made()(tensor(np.zeros((1, 112, 64, 3), np.float32)))
    config = load_config("keypoints/face_points_68", ["data.train=${data.eval}", "data.eval.batch_size=1"], check=False)
    with pytest.raises(ConfigError, match="FacePoints gives points of its own and is not trained"):
        build_task(config)
