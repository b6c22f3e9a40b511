"""YOLOv3 end to end at a tiny width: shapes, learning, decoding, and one trace for every image size."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, optim, tensor
from framework.errors import AttributeValueError, ConfigError
from suites.detection.losses import Targets, YOLOv3Loss
from suites.detection.losses.yolov3 import IoUTerm
from suites.detection.models.yolov3 import PostProcess, YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.engine.config import Factory
from suites.vision.backbones import DarkNet53
from tests.suites.detection.models.helpers import assert_exports, assert_trains_as_a_program

ANCHORS = ((8, 8), (16, 16), (32, 32), (48, 48))


def tiny(**head):
    head = {"num_classes": 2, "anchors": ANCHORS, "loss": YOLOv3Loss(label_smooth=False), **head}
    backbone = DarkNet53(width=4, blocks=(1, 1, 1), out_strides=(4, 8))
    model = YOLOv3(backbone, Factory.of(YOLOv3Head, **head), Factory.of(YOLOv3Neck, width=16))
    nn.init.initialize(model, 0)
    return model


def squares(count, seed=0, size=32):
    """Dark images with one light square each, of class 0 (red) or 1 (blue)."""
    rng = np.random.default_rng(seed)
    images = rng.normal(-1, 0.1, (count, size, size, 3)).astype(np.float32)
    boxes, labels = np.zeros((count, 2, 4), np.float32), np.zeros((count, 2), np.int64)
    for n in range(count):
        side, label = int(rng.integers(8, 20)), int(rng.integers(2))
        x, y = rng.integers(0, size - side, 2)
        images[n, y : y + side, x : x + side, 2 * label] += 3
        boxes[n, 0], labels[n, 0] = (x, y, x + side, y + side), label
    scores = np.zeros((count, 2), np.float32)
    scores[:, 0] = 1
    return images, boxes, labels, scores


def test_levels_have_the_backbones_strides_and_all_outputs():
    outputs = tiny()(tensor(np.zeros((2, 32, 64, 3), np.float32)))
    assert [o.shape for o in outputs] == [(2, 8, 16, 2 * 7), (2, 4, 8, 2 * 7)]


def test_an_untrained_head_sees_objects_with_its_prior():
    model = tiny(prior=0.01)
    _, scores = model.head.scored_boxes(model.neck(model.backbone(tensor(squares(1)[0]))))
    assert scores.numpy().max() < 0.05


def test_it_learns_to_find_and_name_squares():
    model = tiny()
    optimizer = optim.Adam(model.named_parameters(), lr=3e-3)

    @framework.program
    def step(images, boxes, labels, scores):
        terms = list(model.losses(images, Targets(boxes, labels, scores)).values())
        loss = terms[0] + terms[1] + terms[2] + terms[3]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for seed in range(80):
        step(*(tensor(a) for a in squares(16, seed)))
    assert step.traces_made == 1
    images, boxes, labels, _ = squares(16, seed=1000)
    model.eval()
    with no_grad():
        found = model.detect(tensor(images))
    assert found.counts.numpy().min() >= 1
    # 16 held-out images: all but a few found, within a fifth of the largest side, and named.
    near = np.abs(found.boxes.numpy()[:, 0] - boxes[:, 0]).max(axis=1) <= 4
    assert (near & (found.classes.numpy()[:, 0] == labels[:, 0])).sum() >= 12


def test_detection_is_one_program_for_every_image_size():
    model = tiny(postprocess=PostProcess(score_threshold=0.0001, keep_top_k=5)).eval()
    run = framework.program(lambda images: model.detect(images).by_name())
    for size in ((32, 32), (64, 32), (48, 80)):
        images = tensor(np.random.default_rng(0).standard_normal((2, *size, 3)).astype(np.float32))
        with no_grad():
            found, expected = run(images), model.detect(images).by_name()
        for name, b in expected.items():
            np.testing.assert_allclose(found[name].numpy(), b.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)
    assert run.traces_made == 1


def test_an_overlap_aware_head_weighs_it_into_the_score_and_steps_as_a_program(tmp_path):
    aware = {"iou_aware": 0.4, "scale_xy": 1.05, "loss": YOLOv3Loss(iou=IoUTerm("giou"))}
    model = tiny(**aware, postprocess=PostProcess(score_threshold=0.0, keep_top_k=5))
    outputs = model(tensor(squares(1)[0]))
    assert [o.shape[3] for o in outputs] == [2 * 8, 2 * 8]
    _, scores = model.head.scored_boxes(model.neck(model.backbone(tensor(squares(1)[0]))))
    raw = outputs[0].numpy().reshape(1, -1, 8)[0].astype(np.float64)
    share = 1 / (1 + np.exp(-raw))
    expected = share[:, 4:5] ** 0.6 * share[:, 5:6] ** 0.4 * share[:, 6:]
    np.testing.assert_allclose(scores.numpy()[0, : len(raw)], expected, rtol=1e-4)
    assert_trains_as_a_program(model, classes=2)
    assert_exports(model, tmp_path)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tiny(num_classes=0), "num_classes is 0"),
        (lambda: tiny(prior=1.0), "prior is 1"),
        (lambda: tiny(scale_xy=0.5), "scale_xy is 0.5 and iou_aware None"),
        (lambda: tiny(iou_aware=2.0), r"iou_aware 2\.0; .* lie in \[0, 1\]"),
        (lambda: tiny(anchors=ANCHORS[:3]), "3 anchors do not divide into 2 levels"),
        (lambda: YOLOv3Neck((8, 8, 8), (8, 16, 32), width=4), "width is 4, too little for 3 levels"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises((AttributeValueError, ConfigError), match=match):
        make()
