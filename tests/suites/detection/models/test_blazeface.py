"""BlazeFace: the config's network, a step with and without landmarks, export, and pictures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework import nn, no_grad, ops, tensor
from framework.nn import parameter
from suites.detection.anchor_boxes import SSDPriors
from suites.detection.losses.landmarks import landmark_loss, landmarks_of
from suites.detection.models.base import PostProcess
from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
from suites.detection.processor import DetectionProcessor
from suites.engine.config import Factory
from suites.engine.config.building import read_config
from suites.engine.contract.losses import Loss
from suites.vision.augmentation.transforms import Normalize, Resize
from suites.vision.backbones import BlazeNet
from tests.suites.detection.losses.helpers import differences
from tests.suites.detection.models.helpers import (
    SIZE,
    assert_exports,
    assert_exports_to_onnx,
    assert_trains_as_a_program,
    images_of,
    targets_of,
)

CONFIGS = Path(__file__).resolve().parents[4] / "configs" / "detection"
SINGLE, DOUBLE = ((8, 8, 1), (8, 12, 2)), ((12, 8, 16, 2), (16, 8, 16, 2))


def tiny(**head):
    priors = SSDPriors(((16, 24), (32, 48)), ((), ()), (8, 16))
    head = Factory.of(SSDHead, num_classes=1, priors=priors, **head)
    model = SSD(BlazeNet(SINGLE, DOUBLE), head, Factory.of(SSDNeck, extras=()))
    nn.init.initialize(model, 0)
    return model


def points_of(targets, seed=0):
    """Three points in each box, the second never visible."""
    boxes = targets.boxes.numpy()
    share = np.random.default_rng(seed).random((*boxes.shape[:2], 3, 2))
    points = boxes[:, :, None, :2] + share * (boxes[..., 2:] - boxes[..., :2])[:, :, None]
    visible = np.array([2, 0, 1])[None, None, :, None] * np.ones((*boxes.shape[:2], 1, 1))
    return replace(targets, landmarks=tensor(np.concatenate([points, visible], axis=3).astype(np.float32)))


def test_the_configs_network_has_two_heads_on_96_channels():
    with nn.init.undrawn():
        model = read_config(CONFIGS / "blazeface_wider.yml").build("model")
        marked = read_config(CONFIGS / "blazeface_landmarks_wider.yml").build("model")
    assert model.neck.channels == (96, 96) and model.head.anchors.per_cell == (2, 6)
    assert model.landmarks == 0 and marked.landmarks == 5
    assert [out.out_channels for out in marked.head.mark_outs] == [2 * 10, 6 * 10]


def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_faces():
    assert_trains_as_a_program(tiny(), classes=1)


def test_landmarks_are_learnt_where_they_are_visible():
    model, images = tiny(landmarks=3), tensor(images_of(2))
    targets = points_of(targets_of(2, 2, classes=1))
    terms = model.losses(images, targets)
    assert set(terms) == {"loss_cls", "loss_box", "loss_landmarks"}
    assert isinstance(terms["loss_landmarks"], Loss) and float(terms["loss_landmarks"].mean) > 0
    terms["loss_landmarks"].mean.backward()
    gradient = model.head.mark_outs[0].bias.grad.numpy().reshape(2, 3, 2)
    assert np.abs(gradient[:, [0, 2]]).max() > 0 and not gradient[:, 1].any()
    none = model.losses(images, points_of(targets_of(2, 0, classes=1)))["loss_landmarks"].mean
    assert float(none) == 0


def test_the_landmark_loss_is_smooth_l1_of_offsets_in_tenths_of_a_side():
    rng = np.random.default_rng(1)
    anchors = np.array([[0.0, 0, 20, 10], [10, 10, 26, 42]])
    codes, landmarks = rng.normal(0, 1, (1, 2, 2, 2)), rng.uniform(0, 40, (1, 2, 2, 3))
    landmarks[0, 1, 1, 2] = 0
    weight = np.array([[0.5, 1.0]])
    wanted = 10 * (landmarks[..., :2] - [[[10, 5]], [[18, 26]]]) / [[[20, 10]], [[16, 32]]]

    def reference(codes):
        apart = np.abs(codes - wanted)
        each = np.where(apart < 1, apart**2 / 2, apart - 0.5) * (landmarks[..., 2:] > 0)
        return (each * weight[..., None, None]).sum()

    leaf = parameter(codes)
    loss = landmark_loss(leaf, tensor(anchors), tensor(landmarks), tensor(weight))
    loss.backward()
    assert float(loss) == pytest.approx(reference(codes), rel=1e-6)
    np.testing.assert_allclose(leaf.grad.numpy(), differences(reference, codes), rtol=1e-4, atol=1e-7)
    back = landmarks_of(tensor(wanted), tensor(anchors)).numpy()
    np.testing.assert_allclose(back, landmarks[..., :2], rtol=1e-6)


def test_onnx_runtime_finds_the_same(tmp_path):
    assert_exports_to_onnx(tiny(landmarks=3, postprocess=PostProcess(0.0, 30, 0.3, 10)), tmp_path)


@pytest.mark.parametrize("landmarks", [0, 3])
def test_an_exported_model_finds_the_same(tmp_path, landmarks):
    assert_exports(tiny(landmarks=landmarks, postprocess=PostProcess(0.0, 30, 0.3, 10)), tmp_path)


def test_each_detection_has_the_landmarks_of_its_prior():
    model = tiny(landmarks=3, postprocess=PostProcess(0.0, 30, 0.3, 10)).eval()
    with no_grad():
        found = model.detect(tensor(images_of(1)))
    assert found.landmarks.shape == (1, 10, 3, 2)
    with no_grad():
        maps = model.maps(tensor(images_of(1)))
        anchors = ops.concat(model.head.anchors.grids(maps), axis=0)
        boxes = ops.box_decode(model.head(maps)[1], anchors, weights=(10, 10, 5, 5)).numpy()[0]
        points = landmarks_of(model.head._marks(maps), anchors).numpy()[0]
    boxes = np.clip(boxes, 0, [SIZE[1], SIZE[0]] * 2)
    for box, marks in zip(found.boxes.numpy()[0], found.landmarks.numpy()[0], strict=True):
        same = np.abs(boxes - box).max(axis=1) < 1e-4
        assert same.any() and np.abs(points[same] - marks).max(axis=(1, 2)).min() < 1e-3


def test_landmarks_come_back_in_the_images_own_pixels_and_are_drawn():
    processor = DetectionProcessor([Resize([64, 32]), Normalize()], ["face"], 0.5)
    image = np.zeros((128, 128, 3), np.uint8)  # halved in height, quartered in width
    batch = processor.prepare([image])
    outputs = {
        "boxes": np.array([[[4, 8, 16, 40], [0, 0, 8, 8]]], np.float32),
        "scores": np.array([[0.9, 0.4]], np.float32),
        "classes": np.zeros((1, 2), np.int64),
        "counts": np.array([2], np.int32),
        "landmarks": np.array([[[[8, 16], [12, 30]], [[1, 1], [2, 2]]]], np.float32),
    }
    (result,) = processor.results(outputs, batch)
    assert result == [
        {"class": "face", "score": 0.9, "box": [16.0, 16.0, 64.0, 80.0], "landmarks": [[32.0, 32.0], [48.0, 60.0]]}
    ]
    drawn = processor.draw(image, result)
    scale = drawn.shape[0] // 128
    assert drawn[60 * scale, 48 * scale].max() > 0
