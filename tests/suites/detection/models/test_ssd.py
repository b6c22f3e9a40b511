"""SSD end to end at a tiny width, and torchvision's numbers with torchvision's weights."""

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from suites.detection.anchor_boxes import SSD512, SSDPriors
from suites.detection.losses.anchored import SSDLoss
from suites.detection.models.base import PostProcess, Targets
from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
from suites.engine.config import Factory
from suites.engine.weights.pretrained import load_pretrained
from suites.vision.backbones import VGG, MobileNetV2, MobileNetV3
from tests.suites.detection.models.helpers import (
    assert_exports,
    assert_exports_to_onnx,
    assert_trains_as_a_program,
    images_of,
    targets_of,
)

PRIORS = SSDPriors.between((12, 24, 40, 70), ((2,), (2, 3), (2,)), (16, 32, 64))


def tiny(**head):
    head = {"num_classes": 3, "priors": PRIORS, **head}
    neck = Factory.of(SSDNeck, extras=((8, 8, 3, 2, 1),))
    model = SSD(MobileNetV2(0.25, out_strides=(16, 32)), Factory.of(SSDHead, **head), neck)
    nn.init.initialize(model, 0)
    return model


def vgg(side, **neck):
    head = Factory.of(SSDHead, num_classes=2, priors=SSD512 if side == 512 else None)
    backbone = VGG(width=8, out_strides=(8, 16), reduced_fc=True)
    return SSD(backbone, head, Factory.of(SSDNeck, norm=False, l2_norm=20.0, **neck))


def test_ssd300_has_8732_priors_and_ssd512_24564():
    assert vgg(300)(tensor(np.zeros((1, 300, 300, 3), np.float32)))[0].shape == (1, 8732, 3)
    extras = ((32, 64, 3, 2, 1), *[(16, 32, 3, 2, 1)] * 3, (16, 32, 4, 1, 1))
    assert vgg(512, extras=extras)(tensor(np.zeros((1, 512, 512, 3), np.float32)))[1].shape == (1, 24564, 4)


def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_objects():
    assert_trains_as_a_program(tiny(), classes=3)


def test_the_loss_is_the_papers():
    """Three negatives a positive, those of the highest loss; a truth's best prior is positive."""
    model, images = tiny(), tensor(images_of(2))
    targets = targets_of(2, 2)
    terms = model.losses(images, targets)
    with no_grad():
        maps = model.maps(images)
        logits, deltas = (x.numpy().astype(np.float64) for x in model.head(maps))
    anchors = np.concatenate([anchors.numpy() for anchors in model.head.anchors.grids(maps)])
    classes = boxes = positives = 0.0
    for n in range(2):
        truths, labels = targets.boxes.numpy()[n, :2], targets.classes.numpy()[n, :2]
        sides = np.minimum(anchors[:, None, 2:], truths[:, 2:]) - np.maximum(anchors[:, None, :2], truths[:, :2])
        inner = sides.clip(0).prod(axis=2)
        areas = (anchors[:, 2:] - anchors[:, :2]).prod(axis=1)[:, None], (truths[:, 2:] - truths[:, :2]).prod(axis=1)
        iou = inner / (areas[0] + areas[1] - inner)
        match = np.where(iou.max(axis=1) >= 0.5, iou.argmax(axis=1), -1)
        match[iou.argmax(axis=0)] = [0, 1]
        logp = logits[n] - np.log(np.exp(logits[n]).sum(axis=1, keepdims=True))
        hard = np.sort(-logp[match < 0, 0])[::-1][: 3 * int((match >= 0).sum())]
        classes += hard.sum()
        for p in np.flatnonzero(match >= 0):
            classes -= logp[p, 1 + labels[match[p]]]
            boxes += _smooth_l1(deltas[n, p], anchors[p], truths[match[p]])
        positives += (match >= 0).sum()
    assert float(terms["loss_cls"].weight) == positives
    assert float(terms["loss_cls"].mean) == pytest.approx(classes / positives, rel=1e-4)
    assert float(terms["loss_box"].mean) == pytest.approx(boxes / positives, rel=1e-4)


def _smooth_l1(found, anchor, truth):
    size, wanted = anchor[2:] - anchor[:2], truth[2:] - truth[:2]
    middle = (truth[:2] + truth[2:] - anchor[:2] - anchor[2:]) / 2
    apart = np.abs(found - np.concatenate([10 * middle / size, 5 * np.log(wanted / size)]))
    return np.where(apart < 1, apart**2 / 2, apart - 0.5).sum()


def test_images_without_objects_train_background_only_where_that_is_asked_for():
    for least, positive in ((0, False), (10, True)):
        terms = tiny(loss=SSDLoss(least_negatives=least)).losses(tensor(images_of(1)), targets_of(1, 0))
        assert (float(terms["loss_cls"].mean) > 0) == positive
        assert float(terms["loss_box"].mean) == 0


def test_the_first_map_has_the_length_it_says_at_each_pixel():
    neck = SSDNeck((4, 8), (8, 16), ((2, 4, 3, 2, 1),), l2_norm=20.0)
    rng = np.random.default_rng(0)
    maps = [tensor(rng.standard_normal((2, s, s, c)).astype(np.float32)) for s, c in ((4, 4), (2, 8))]
    assert (neck.channels, neck.strides) == ((4, 8, 4), (8, 16, 32))
    np.testing.assert_allclose(np.linalg.norm(neck(maps)[0].numpy(), axis=3), 20, rtol=1e-5)


def test_onnx_runtime_finds_the_same(tmp_path):
    assert_exports_to_onnx(tiny(postprocess=PostProcess(0.0, 30, 0.5, 10)), tmp_path)


def test_an_exported_model_finds_the_same(tmp_path):
    assert_exports(tiny(postprocess=PostProcess(0.0, 30, 0.5, 10)), tmp_path)


def test_wrong_arguments_are_refused():
    with pytest.raises(AttributeValueError, match="gives 2 maps but the priors are of 3 levels"):
        SSDHead((4, 4), (16, 32), 2, PRIORS)
    with pytest.raises(AttributeValueError, match="num_classes is 0"):
        SSDHead((4, 4, 4), (16, 32, 64), 0, PRIORS)
    with pytest.raises(AttributeValueError, match="overlap is 2"):
        SSDLoss(overlap=2)


@pytest.mark.peers
def test_the_numbers_are_torchvisions(tmp_path):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    detection = pytest.importorskip("torchvision.models.detection", reason="the peer torchvision is not installed")
    torch.manual_seed(0)
    peer = detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=4, score_thresh=0.01)
    sizes = [300 * share for share in (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)]
    priors = SSDPriors.between(sizes, ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)), (8, 16, 32, 64, 100, 300))
    priors = SSDPriors(priors.min_sizes, priors.ratios, priors.steps, priors.max_sizes, limit=300)
    head = Factory.of(SSDHead, num_classes=3, priors=priors)
    backbone = VGG(out_strides=(8, 16), reduced_fc=True)
    model = SSD(backbone, head, Factory.of(SSDNeck, norm=False, l2_norm=20.0)).eval()
    torch.save(peer.state_dict(), tmp_path / "ssd.pth")
    report = load_pretrained(model, tmp_path / "ssd.pth")
    assert len(report.loaded) == len(peer.state_dict()) and not report.unused and not report.new
    images = np.random.default_rng(0).random((2, 300, 300, 3)).astype(np.float32)
    given = [torch.from_numpy(x.transpose(2, 0, 1).copy()) for x in images]
    # torchvision's preprocessing: mean (0.48235, 0.45882, 0.40784), deviation 1 / 255
    ours = tensor(((images - [0.48235, 0.45882, 0.40784]) / (1 / 255.0)).astype(np.float32))
    with torch.no_grad():
        raw = peer.eval().head(list(peer.backbone(peer.transform(given)[0].tensors).values()))
        expected = peer(given)
    with no_grad():
        logits, deltas = (x.numpy() for x in model(ours))
        found = model.detect(ours)
    scale = max(np.abs(raw["cls_logits"].numpy()).max(), np.abs(raw["bbox_regression"].numpy()).max())
    np.testing.assert_allclose(logits, raw["cls_logits"].numpy(), atol=1e-4 * scale)
    np.testing.assert_allclose(deltas, raw["bbox_regression"].numpy(), atol=1e-4 * scale)
    for n, theirs in enumerate(expected):
        count = int(found.counts.numpy()[n])
        assert count == len(theirs["scores"]) > 50
        np.testing.assert_allclose(found.scores.numpy()[n, :count], theirs["scores"].numpy(), rtol=1e-3, atol=1e-4)
    boxes, classes = np.zeros((2, 16, 4), np.float32), np.zeros((2, 16), np.int64)
    boxes[0, :2], classes[0, :2] = [(20, 30, 120, 140), (100, 100, 250, 200)], [0, 2]
    truth = [
        {"boxes": torch.from_numpy(boxes[n, :k]), "labels": torch.from_numpy(classes[n, :k] + 1)}
        for n, k in enumerate((2, 0))
    ]
    with torch.no_grad():
        theirs = peer.train()(given, truth)
    scores = (boxes[..., 2] > 0).astype(np.float32)
    with no_grad():
        terms = model.losses(ours, Targets(*(tensor(x) for x in (boxes, classes, scores))))
    assert float(terms["loss_cls"].mean) == pytest.approx(float(theirs["classification"]), rel=1e-4)
    assert float(terms["loss_box"].mean) == pytest.approx(float(theirs["bbox_regression"]), rel=1e-4)


def test_ssdlite_sees_the_expansion_of_stride_16_and_halves_the_last_stage():
    net = MobileNetV3("large", 0.5, out_strides=(16, 32), ssdlite=True).eval()
    maps = net(tensor(np.zeros((1, 64, 96, 3), np.float32)))
    assert [m.shape for m in maps] == [(1, 4, 6, 336), (1, 2, 3, 240)]
    assert net.channels == (336, 240) and not net.as_published
    with pytest.raises(AttributeValueError, match="it is of stride 32, without segmenting"):
        MobileNetV3(out_strides=(8, 16), ssdlite=True)
