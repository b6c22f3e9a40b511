"""The peers' networks are ours: as many parameters, outputs of our shapes, and steps that learn."""

import importlib
import json
import math
import sys
from functools import partial
from pathlib import Path

import pytest

from tools.bench_cases import detection, images, text, video

pytestmark = pytest.mark.peers
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cases():
    pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("peers.torch_cases")
    sys.path.remove(str(ROOT / "benchmarks"))


def size_of(model):
    return sum(math.prod(parameter.shape) for parameter in model.parameters())


PAIRS = {
    "ResNet50": images.resnet50,
    "DeepLabV3PlusMobileNetV2": images.deeplab_mobilenet,
    "yolo_darknet": detection.yolov3_darknet,
    "yolo_mobilenet": detection.yolov3_mobilenet,
    "TSN": video.tsn_resnet50,
    "Bert": partial(text.sentence_classifier, {}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_network_has_as_many_parameters_as_ours(cases, name):
    theirs = (getattr(cases, name, None) or getattr(cases.networks, name))()
    assert size_of(theirs) == size_of(PAIRS[name]())


def test_networks_of_points_and_faces_have_as_many_parameters_as_ours(cases):
    points, faces = importlib.import_module("keypoints_vs_torch"), importlib.import_module("face_networks")
    assert size_of(points.simple_r50()) == size_of(images.simple_baseline())
    assert size_of(faces.BlazeFace()) == size_of(detection.blazeface_front())
    ours = detection.retinaface()
    assert size_of(faces.RetinaFace()) == size_of(ours) - size_of(ours.head.mark_outs)  # the peer gives no points


@pytest.mark.parametrize("case", ["translation", "characters", "recurrent"])
def test_networks_that_write_learn_as_ours_from_the_same_weights(cases, case):
    writing = importlib.import_module("writing_vs_torch")
    _, _, apart = writing.agreement(case, sys.executable, steps=8, threads=1)
    assert apart < 1e-4


@pytest.mark.parametrize("mode", ["eager", "channels_last"])
@pytest.mark.parametrize("name", ["yolo_mobilenet", "DeepLabV3PlusMobileNetV2"])
def test_steps_on_images_learn(cases, name, mode):
    make = getattr(cases, name, None) or getattr(cases.networks, name)
    given = cases._DENSE if name.startswith("yolo") else cases._LABELLED
    step = cases.step_of(cases.images(make, (2, 3, 64, 64), mode, **given), mode)
    losses = [float(step()) for _ in range(5)]
    assert losses[-1] < losses[0]


def test_steps_on_sentences_and_clicks_learn(cases):
    sizes = {"hidden": 32, "layers": 2, "heads": 2, "inner": 64, "dropout": 0.0}
    for work in (cases.sentences(4, [5, 3], "eager", **sizes), cases.clicks(64, "eager")):
        step = cases.step_of(work, "eager")
        losses = [float(step()) for _ in range(17)]
        assert losses[16] < losses[0]  # a click log's batches come again after eight


def test_padding_changes_no_sentence(cases):
    import torch

    model = cases.networks.Bert(32, 2, 2, 64).eval()
    ids, there = torch.randint(30522, (1, 5)), torch.ones(1, 5, dtype=torch.bool)
    with torch.no_grad():
        alone = model(ids, there)
        padded = model(torch.nn.functional.pad(ids, (0, 3)), torch.nn.functional.pad(there, (0, 3)))
    torch.testing.assert_close(padded, alone, rtol=1e-5, atol=1e-6)


def test_a_case_is_measured_as_the_comparisons_read_it(cases, capsys):
    cases.main(["deepfm_infer_b512", "--seconds", "0", "--threads", "1"])
    found = json.loads(capsys.readouterr().out)
    assert found["case"] == "deepfm_infer_b512" and found["unit"] == "samples/s"
    assert found["rate"] > 0 and found["steps"] == 3 and found["peak_rss_mb"] > 0


def test_onnx_runtime_gives_the_numbers_of_its_network(cases, capsys):
    pytest.importorskip("onnxscript", reason="the peer onnxscript is not installed")
    importlib.import_module("peers.engine_cases").main(["resnet50_infer_b1_224", "--seconds", "0", "--threads", "1"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["max_rel_err"] < 1e-4 and found["steps"] == 5
