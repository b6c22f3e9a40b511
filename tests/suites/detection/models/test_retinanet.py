"""RetinaNet end to end at a tiny width, and torchvision's numbers with torchvision's weights."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from suites.detection.losses.anchored import BoxTerm, RetinaNetLoss
from suites.detection.models.base import Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.retinanet import LevelPostProcess, RetinaNet, RetinaNetHead
from suites.engine.config import Factory
from suites.engine.weights.pretrained import load_pretrained
from suites.vision.backbones import MobileNetV2, ResNet
from tests.suites.detection.models.helpers import (
    assert_exports,
    assert_exports_to_onnx,
    assert_trains_as_a_program,
    images_of,
    targets_of,
)


def tiny(classes=3, backbone=None, **head):
    head = {"num_classes": classes, "convs": 1, **head}
    neck = Factory.of(FPN, width=8, extra="conv_p5")
    model = RetinaNet(backbone or MobileNetV2(0.25), Factory.of(RetinaNetHead, **head), neck)
    nn.init.initialize(model, 0)
    return model


def test_levels_have_nine_anchors_a_cell_at_any_image_size():
    logits, deltas = tiny()(tensor(np.zeros((2, 40, 72, 3), np.float32)))
    cells = [5 * 9, 3 * 5, 2 * 3, 1 * 2, 1]
    assert [x.shape for x in logits] == [(2, 9 * n, 3) for n in cells]
    assert [x.shape for x in deltas] == [(2, 9 * n, 4) for n in cells]


@pytest.mark.parametrize("box", ["smooth_l1", "giou"])
def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_objects(box):
    assert_trains_as_a_program(tiny(loss=RetinaNetLoss(box=BoxTerm(box))), classes=3)


def test_an_untrained_head_costs_little_without_objects():
    model = tiny(prior=0.01)
    terms = model.losses(tensor(images_of(1)), targets_of(1, 0))
    # each of P * K scores is 0.01: 0.75 * 0.01^2 * 0.01 each, and no box
    anchors = 9 * (8 * 12 + 4 * 6 + 2 * 3 + 1 * 2 + 1)
    assert float(terms["loss_cls"].mean) == pytest.approx(3 * anchors * 0.75 * 1e-4 * -np.log(0.99), rel=0.5)
    assert float(terms["loss_box"].mean) == 0
    assert float(terms["loss_cls"].weight) == 1


def test_crowd_regions_are_not_punished():
    model, images = tiny(), tensor(images_of(1))
    crowd = np.zeros((1, 16, 4), np.float32)
    crowd[0, 0] = (0, 0, 96, 64)
    ignored = np.zeros((1, 16), bool)
    ignored[0, 0] = True
    nothing, none = tensor(np.zeros((1, 16), np.int64)), tensor(np.zeros((1, 16), np.float32))
    plain = model.losses(images, targets_of(1, 0))["loss_cls"].mean
    spared = model.losses(images, Targets(tensor(crowd), nothing, none, ignored=tensor(ignored)))["loss_cls"].mean
    assert float(spared) < 0.6 * float(plain)


def test_boxes_are_cut_to_each_images_own_size():
    model = tiny(prior=0.5, postprocess=LevelPostProcess(0.0, 50, 0.5, 20)).eval()
    sizes = np.array([[64, 96], [40, 50]])
    with no_grad():
        found = model.detect(tensor(images_of(2)), tensor(sizes))
    assert found.counts.numpy().min() > 0
    for boxes, (height, width) in zip(found.boxes.numpy(), sizes, strict=True):
        assert boxes.min() >= 0 and (boxes.max(axis=0) <= [width, height, width, height]).all()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_it_learns_and_finds_in_half_precision(precision):
    """Levels with fewer pairs than are taken are filled up with what no precision takes for a pair."""
    model = tiny(prior=0.5, postprocess=LevelPostProcess(0.0, 1000, 0.5, 20))
    images, targets = tensor(images_of(2)), targets_of(2, 2)
    whole = model.losses(images, targets)
    with framework.autocast(precision):
        half = model.losses(images, targets)
        with no_grad():
            found = model.eval().detect(images)
    for name, term in whole.items():
        assert float(half[name].mean) == pytest.approx(float(term.mean), rel=0.05)
    assert found.counts.numpy().tolist() == [20, 20] and np.isfinite(found.boxes.numpy()).all()


def test_onnx_runtime_finds_the_same(tmp_path):
    assert_exports_to_onnx(tiny(prior=0.5, postprocess=LevelPostProcess(0.0, 30, 0.5, 10)), tmp_path)


def test_an_exported_model_finds_the_same(tmp_path):
    model = tiny(prior=0.5, postprocess=LevelPostProcess(0.0, 30, 0.5, 10))
    assert_exports(model, tmp_path, sizes=((64, 96), (96, 64)))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"num_classes": 0}, "num_classes is 0"),
        ({"prior": 0}, "prior 0"),
        ({"in_channels": (8, 4)}, r"the maps have \[8, 4\] channels"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(AttributeValueError, match=match):
        RetinaNetHead(**{"in_channels": (8, 8), "strides": (8, 16), "num_classes": 2, **arguments})


@pytest.mark.peers
def test_the_numbers_are_torchvisions(tmp_path):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    detection = pytest.importorskip("torchvision.models.detection", reason="the peer torchvision is not installed")
    torch.manual_seed(0)
    peer = detection.retinanet_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=4, min_size=256, max_size=256, score_thresh=0.0
    )
    torch.nn.init.normal_(peer.head.classification_head.cls_logits.weight, std=0.05)
    torch.nn.init.normal_(peer.head.regression_head.bbox_reg.weight, std=0.05)
    postprocess = LevelPostProcess(0.0, 1000, 0.5, 300)
    backbone = ResNet(50, out_strides=(8, 16, 32))
    head = Factory.of(RetinaNetHead, num_classes=4, rounded_anchors=True, postprocess=postprocess)
    model = RetinaNet(backbone, head, Factory.of(FPN, extra="conv_p5")).eval()
    torch.save(peer.state_dict(), tmp_path / "retinanet.pth")
    report = load_pretrained(model, tmp_path / "retinanet.pth")
    assert len(report.loaded) == len(model.state_dict()) and not report.new
    assert all(name.endswith("num_batches_tracked") for name in report.unused)
    rng = np.random.default_rng(0)
    images = rng.random((2, 256, 256, 3)).astype(np.float32)
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    given = [torch.from_numpy(x.transpose(2, 0, 1).copy()) for x in images]
    with torch.no_grad():
        expected = peer.eval()(given)
    with no_grad():
        found = model.detect(tensor((images - mean) / std))
    for n, theirs in enumerate(expected):
        count = int(found.counts.numpy()[n])
        assert count == len(theirs["scores"]) == 300
        np.testing.assert_allclose(found.scores.numpy()[n], theirs["scores"].numpy(), rtol=1e-4, atol=1e-5)
        # of nearly equal scores the order may differ: compare as sets, by class and box
        ours = np.column_stack([found.classes.numpy()[n], found.boxes.numpy()[n]])
        other = np.column_stack([theirs["labels"].numpy(), theirs["boxes"].numpy()])
        apart = np.abs(ours[:, None] - other[None]).max(axis=2).min(axis=1)
        assert np.median(apart) < 1e-3 and (apart < 2e-2).mean() > 0.98
    boxes, classes = np.zeros((2, 16, 4), np.float32), np.zeros((2, 16), np.int64)
    boxes[0, :2], classes[0, :2] = [(20, 30, 120, 140), (100, 100, 250, 200)], [1, 3]
    truth = [
        {"boxes": torch.from_numpy(boxes[n, :k]), "labels": torch.from_numpy(classes[n, :k])}
        for n, k in enumerate((2, 0))
    ]
    peer.train()
    for module in peer.modules():  # running statistics in both
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    theirs = peer(given, truth)
    scores = (boxes[..., 2] > 0).astype(np.float32)
    model.head.loss = RetinaNetLoss(box=BoxTerm(beta=0.0))
    ours = model.losses(tensor((images - mean) / std), Targets(*(tensor(x) for x in (boxes, classes, scores))))
    # theirs are means over images of sums by each image's own positives; ours divide by the positives of the batch
    matches = float(ours["loss_cls"].weight)
    with no_grad():
        maps = model.maps(tensor((images - mean) / std))
        only = [
            model.head.losses([m.numpy()[n : n + 1] for m in maps], _one(boxes, classes, scores, n)) for n in (0, 1)
        ]
    by_image = {name: np.mean([float(terms[name].mean) for terms in only]) for name in ("loss_cls", "loss_box")}
    assert by_image["loss_cls"] == pytest.approx(float(theirs["classification"]), rel=1e-4)
    assert by_image["loss_box"] == pytest.approx(float(theirs["bbox_regression"]), rel=1e-4)
    assert matches == float(only[0]["loss_cls"].weight)


def test_the_older_names_of_published_files_are_known():
    names = {
        n
        for s in tiny(backbone=ResNet(18, width=8, out_strides=(8, 16, 32)))
        .names_in("torchvision_old")
        .sources.values()
        for n in s.names
    }
    wanted = {
        "backbone.fpn.inner_blocks.0.weight",
        "head.classification_head.conv.0.bias",
        "backbone.body.conv1.weight",
    }
    assert wanted <= names and "backbone.fpn.extra_blocks.p7.bias" in names


def _one(boxes, classes, scores, n):
    return Targets(*(tensor(x[n : n + 1]) for x in (boxes, classes, scores)))
