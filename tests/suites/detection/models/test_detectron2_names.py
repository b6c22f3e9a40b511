"""Detectron2's files become our detectors: every tensor finds its place, and heads say what Detectron2's formulas say.

The formulas are written here with NumPy from the documentation of detectron2 0.6 (`FastRCNNOutputLayers`,
`MaskRCNNConvUpsampleHead`, `RetinaNetHead`, `DefaultAnchorGenerator`): features are [R, C, S, S], background is the
last class, anchors of a cell go by size, then ratio.
"""

import numpy as np
import pytest
from safetensors.numpy import save_file

from framework import no_grad, tensor
from framework.errors import CheckpointError
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import BoxHead, CascadeHead, CascadeRCNN, FasterRCNN, MaskRCNN
from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
from suites.engine.config import Factory
from suites.engine.weights import load_pretrained
from suites.vision.backbones import MobileNetV1, ResNet
from tests.suites.detection.models.helpers import assert_anchors_are_scored

K, WIDTH = 3, 8
RNG = np.random.default_rng(0)


def tiny(kind, head, **more):
    backbone = ResNet(50, "a", width=4, out_strides=(4, 8, 16, 32))
    return kind(backbone, Factory.of(head, num_classes=K, width=12), Factory.of(FPN, width=WIDTH), **more).eval()


def file_of(model, path):
    """Random tensors under Detectron2's names, in its shapes, and what its checkpoints hold beside them."""
    names = model.names_in("detectron2").sources
    state = model.state_dict()
    arrays = {}
    for ours, source in names.items():
        shape = source.theirs(np.zeros(state[ours].shape, np.float32)).shape
        if ours == "mask_head.out_weight":  # a 1x1 convolution there
            shape = (*shape, 1, 1)
        arrays[source.names[0]] = RNG.normal(0, 0.1, shape).astype(np.float32)
    arrays |= {"pixel_mean": np.zeros((3, 1, 1), np.float32), "pixel_std": np.ones((3, 1, 1), np.float32)}
    save_file(arrays, path)
    return arrays


@pytest.mark.parametrize(
    ("kind", "head"), [(FasterRCNN, BoxHead), (MaskRCNN, BoxHead), (CascadeRCNN, CascadeHead)], ids=lambda x: x.__name__
)
def test_every_tensor_of_a_file_finds_its_place(tmp_path, kind, head):
    model = tiny(kind, head)
    arrays = file_of(model, tmp_path / "d2.safetensors")
    report = load_pretrained(model, tmp_path / "d2.safetensors")
    assert len(report.loaded) == len(model.state_dict()) and not report.new
    assert sorted(report.unused) == ["pixel_mean", "pixel_std"]
    wanted = {
        "backbone.bottom_up.stem.conv1.norm.running_var",
        "backbone.bottom_up.res2.0.shortcut.weight",
        "backbone.fpn_lateral2.bias",
        "backbone.fpn_output5.weight",
        "proposal_generator.rpn_head.objectness_logits.weight",
        "proposal_generator.rpn_head.anchor_deltas.bias",
    }
    wanted |= {"roi_heads.box_predictor.2.bbox_pred.weight"} if head is CascadeHead else {"roi_heads.box_head.fc1.bias"}
    wanted |= {"roi_heads.mask_head.mask_fcn4.weight", "roi_heads.mask_head.deconv.bias"} if kind is MaskRCNN else set()
    assert wanted <= set(arrays)


def test_regions_are_scored_as_by_detectron2(tmp_path):
    model = tiny(FasterRCNN, BoxHead)
    d2 = file_of(model, tmp_path / "d2.safetensors")
    load_pretrained(model, tmp_path / "d2.safetensors")
    features = RNG.normal(size=(5, WIDTH, 7, 7)).astype(np.float32)

    def linear(x, name):
        return x @ d2[f"roi_heads.{name}.weight"].T + d2[f"roi_heads.{name}.bias"]

    x = np.maximum(linear(features.reshape(5, -1), "box_head.fc1"), 0)
    x = np.maximum(linear(x, "box_head.fc2"), 0)
    with no_grad():
        logits, deltas = model.head.predictor(tensor(features.transpose(0, 2, 3, 1).copy()))
    expected = linear(x, "box_predictor.cls_score")
    np.testing.assert_allclose(logits.numpy()[:, 1:], expected[:, :K], atol=1e-5)
    np.testing.assert_allclose(logits.numpy()[:, 0], expected[:, K], atol=1e-5)
    np.testing.assert_allclose(deltas.numpy(), linear(x, "box_predictor.bbox_pred").reshape(5, K, 4), atol=1e-5)


def test_masks_are_those_of_detectron2(tmp_path):
    model = tiny(MaskRCNN, BoxHead, mask_head=None)
    d2 = file_of(model, tmp_path / "d2.safetensors")
    load_pretrained(model, tmp_path / "d2.safetensors")
    head = model.mask_head
    x = RNG.normal(size=(2, 1, 1, head.width)).astype(np.float32)  # behind the convolutions, one pixel
    up = np.einsum("nc,cdrs->nrsd", x[:, 0, 0], d2["roi_heads.mask_head.deconv.weight"])
    up = np.maximum(up + d2["roi_heads.mask_head.deconv.bias"], 0)
    predictor = d2["roi_heads.mask_head.predictor.weight"][:, :, 0, 0]
    expected = up @ predictor.T + d2["roi_heads.mask_head.predictor.bias"]
    np.testing.assert_allclose(head.up_weight.numpy(), d2["roi_heads.mask_head.deconv.weight"].transpose(0, 2, 3, 1))
    ours = np.maximum(np.einsum("nc,crsd->nrsd", x[:, 0, 0], head.up_weight.numpy()) + head.up_bias.numpy(), 0)
    np.testing.assert_allclose(ours @ head.out_weight.numpy().T + head.out_bias.numpy(), expected, atol=1e-5)


def test_retinanet_says_of_each_anchor_what_detectron2_says(tmp_path):
    backbone = ResNet(50, "a", width=4, out_strides=(8, 16, 32))
    neck = Factory.of(FPN, width=WIDTH, extra="conv_c5")
    model = RetinaNet(backbone, Factory.of(RetinaNetHead, num_classes=K, convs=2), neck).eval()
    d2 = file_of(model, tmp_path / "d2.safetensors")
    assert {"backbone.top_block.p6.weight", "backbone.top_block.p7.bias", "head.cls_subnet.2.weight"} <= set(d2)
    load_pretrained(model, tmp_path / "d2.safetensors")

    def tower(x, name, out):
        for i in (0, 2):
            x = np.maximum(d2[f"head.{name}.{i}.weight"][:, :, 1, 1] @ x + d2[f"head.{name}.{i}.bias"], 0)
        return d2[f"head.{out}.weight"][:, :, 1, 1] @ x + d2[f"head.{out}.bias"]

    assert_anchors_are_scored(
        model, lambda x: tower(x, "cls_subnet", "cls_score"), lambda x: tower(x, "bbox_subnet", "bbox_pred")
    )


def test_a_file_of_another_number_of_classes_gives_all_but_the_classes(tmp_path):
    file_of(tiny(MaskRCNN, BoxHead), tmp_path / "d2.safetensors")
    backbone = ResNet(50, "a", width=4, out_strides=(4, 8, 16, 32))
    other = MaskRCNN(backbone, Factory.of(BoxHead, num_classes=5, width=12), Factory.of(FPN, width=WIDTH))
    report = load_pretrained(other, tmp_path / "d2.safetensors")
    assert len(report.resized) == 6  # weights and biases of classes, boxes and masks
    assert all(any(part in text for part in ("classes", "deltas", "out_")) for text in report.resized)


def test_a_missing_tensor_is_named_and_a_backbone_without_such_names_offers_none(tmp_path):
    model = tiny(FasterRCNN, BoxHead)
    arrays = file_of(model, tmp_path / "d2.safetensors")
    del arrays["backbone.fpn_output3.bias"]
    save_file(arrays, tmp_path / "cut.safetensors")
    with pytest.raises(CheckpointError, match=r"neck\.layer_blocks\.1\.bias \(from backbone\.fpn_output3\.bias\)"):
        load_pretrained(model, tmp_path / "cut.safetensors")
    plain = FasterRCNN(MobileNetV1(0.25, out_strides=(4, 8, 16, 32)), Factory.of(BoxHead, num_classes=K))
    assert "detectron2" not in plain.schemes
