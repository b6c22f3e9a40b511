"""face-api.js' SSD of faces: the numbers of its own program, its priors, a step, export, what it refuses."""

import numpy as np
import pytest

from framework import nn, no_grad, ops, tensor
from framework.errors import ShapeError
from suites.detection.models.base import PostProcess
from suites.detection.models.faces import FaceSSD
from suites.detection.models.ssd import CODE
from suites.engine.weights import load_wanted, rename
from suites.engine.weights.answers import drawn
from suites.engine.weights.formats.reading import read_weights
from suites.engine.weights.records import get_record
from tests.suites.detection.models.helpers import assert_exports, assert_trains_as_a_program, images_of
from tests.zoo import fetched

SIZE = (512, 512)
# Priors, scores and boxes in pixels that `forwardInput` of @vladmandic/face-api 1.7.15 gives for the picture of
# `drawn`, on the CPU backend of its TensorFlow.js 4.22 under node 20 (2026-11-28).
THEIRS = {
    0: (0.0035933414474, [5.987, -1.582, 26.22, 20.075]),
    1000: (0.0023827189580, [156.369, 126.182, 275.443, 203.928]),
    3071: (0.0002086116001, [466.522, 429.44, 515.31, 572.598]),
    3072: (0.0020623537712, [-49.737, -58.56, 74.62, 107.373]),
    4000: (0.0035150223412, [179.872, 224.292, 461.256, 386.763]),
    4608: (0.0026406617835, [-61.732, -72.692, 174.06, 163.93]),
    5000: (0.0108630871400, [-31.381, -69.532, 436.015, 236.44]),
    5088: (0.0055231563747, [-25.438, -43.772, 344.533, 368.127]),
    5114: (0.0676072612405, [45.232, 33.589, 548.107, 486.702]),
    5117: (0.0055100759491, [141.523, -62.693, 406.294, 593.343]),
}


def made(**arguments):
    model = FaceSSD(**arguments)
    nn.init.initialize(model, 0)
    return model


def test_its_scores_and_boxes_are_those_of_face_api_js(monkeypatch):
    model = FaceSSD(pretrained=fetched("ssd_mobilenetv1_faces", monkeypatch))
    load_wanted(model)
    model.eval()
    picture = drawn(3 * 512 * 512, 256).reshape(1, *SIZE, 3).astype(np.float32) / 127.5 - 1
    with no_grad():
        maps = model.maps(tensor(picture))
        logits, codes = model.head(maps)
        priors = ops.concat(model.head.anchors.grids(maps), axis=0)
        scores, boxes = ops.sigmoid(logits).numpy()[0, :, 0], ops.box_decode(codes, priors, weights=CODE).numpy()[0]
    for at, (score, box) in THEIRS.items():
        assert scores[at] == pytest.approx(score, rel=1e-4)
        np.testing.assert_allclose(boxes[at], box, atol=1e-3)  # the digits above
    assert scores.argmax() == 5114


def test_its_priors_are_those_that_the_file_states(monkeypatch):
    file = read_weights(get_record(fetched("ssd_mobilenetv1_faces", monkeypatch)).weights())
    maps = [tensor(np.zeros((1, side, side, 1), np.float32)) for side in (32, 16, 8, 4, 2, 1)]
    grids = made().head.anchors.grids(maps)
    theirs = file["Output/extra_dim"][0][:, [1, 0, 3, 2]] * 512  # shares of the side, y before x
    found = np.concatenate([grid.numpy() for grid in grids])
    assert found.shape == (5118, 4)
    np.testing.assert_allclose(found, theirs, atol=0.01)  # the file's own sizes differ by so much from cell to cell


def test_its_names_and_shapes_lead_back_to_those_of_the_file(monkeypatch):
    """Written under the file's names and read again it is the same, the rows of the class that nothing reads apart."""
    model, other = made(), made()
    for tensor_ in other.parameters():
        tensor_.set(tensor_ * 0.0)
    names = model.names_in("faceapi")
    theirs = rename(model, names.sources)
    assert theirs["Prediction/BoxPredictor_0/ClassPredictor/weights"].shape == (1, 1, 512, 9)
    for name, source in names.sources.items():
        parts = [source.ours(theirs[each]) for each in source.names]
        np.testing.assert_array_equal(source.joined(parts), model.state_dict()[name].numpy(), err_msg=name)


def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_faces():
    assert_trains_as_a_program(made(), classes=1, size=SIZE)


def test_fine_tuning_leaves_the_statistics_of_its_norms():
    model = made()
    before = {name: b.numpy().copy() for name, b in model.named_buffers()}
    model.train()
    model(tensor(images_of(1, SIZE)))
    assert before and all((b.numpy() == before[name]).all() for name, b in model.named_buffers())


def test_an_exported_model_finds_the_same(tmp_path):
    assert_exports(made(postprocess=PostProcess(0.01, 60, 0.5, 10)), tmp_path, [SIZE])


def test_images_of_another_side_are_an_error():
    with pytest.raises(ShapeError, match="FaceSSD: images are 512x320; sides must be multiples of 512"):
        made()(tensor(images_of(1, (512, 320))))
