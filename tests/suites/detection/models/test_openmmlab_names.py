"""MMDetection's files become our detectors: their names are written out here from its documentation (3.3, `ResNet`,
`FPN`, `RPNHead`, `Shared2FCBBoxHead`, `FCNMaskHead`, `RetinaHead`, `Darknet`, `YOLOV3Neck`, `YOLOV3Head`), with shapes,
and heads say what its formulas say. No published file was available."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from framework import no_grad, tensor
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import BoxHead, CascadeHead, CascadeRCNN, FasterRCNN, MaskHead, MaskRCNN
from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
from suites.detection.models.yolov3 import YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.engine.config import Factory
from suites.engine.weights import load_pretrained
from suites.vision.backbones import DarkNet53, ResNet
from tests.suites.detection.models.helpers import assert_anchors_are_scored

K, WIDTH, HIDDEN = 3, 8, 12
RNG = np.random.default_rng(0)


def conv(name, k, c, size, bias=False, norm=None):
    found = {f"{name}.weight": (k, c, size, size)}
    if bias:
        found[f"{name}.bias"] = (k,)
    if norm:
        found |= {f"{norm}.{leaf}": (k,) for leaf in ("weight", "bias", "running_mean", "running_var")}
    return found


def resnet50(width, deep=False):
    """mmdet's ResNet, style caffe or pytorch; with `deep` ResNetV1d, whose stem has three convolutions."""
    found = conv("backbone.conv1", width, 3, 7, norm="backbone.bn1")
    if deep:
        found = conv("backbone.stem.0", width // 2, 3, 3, norm="backbone.stem.1")
        found |= conv("backbone.stem.3", width // 2, width // 2, 3, norm="backbone.stem.4")
        found |= conv("backbone.stem.6", width, width // 2, 3, norm="backbone.stem.7")
    before = width
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = width << stage
        for i in range(count):
            at = f"backbone.layer{stage + 1}.{i}"
            found |= conv(f"{at}.conv1", inner, before if i == 0 else 4 * inner, 1, norm=f"{at}.bn1")
            found |= conv(f"{at}.conv2", inner, inner, 3, norm=f"{at}.bn2")
            found |= conv(f"{at}.conv3", 4 * inner, inner, 1, norm=f"{at}.bn3")
            if i == 0:
                first = 1 if deep else 0  # behind an average pool, of 1 x 1 cells in the first stage
                down = f"{at}.downsample"
                found |= conv(f"{down}.{first}", 4 * inner, before, 1, norm=f"{down}.{first + 1}")
        before = 4 * inner
    return found


def fpn(channels, extra=()):
    found = {}
    for i, c in enumerate(channels):
        found |= conv(f"neck.lateral_convs.{i}.conv", WIDTH, c, 1, bias=True)
        found |= conv(f"neck.fpn_convs.{i}.conv", WIDTH, WIDTH, 3, bias=True)
    for i, c in enumerate(extra):
        found |= conv(f"neck.fpn_convs.{len(channels) + i}.conv", WIDTH, c, 3, bias=True)
    return found


def linear(name, k, c):
    return {f"{name}.weight": (k, c), f"{name}.bias": (k,)}


def box_head(name, boxes):
    found = linear(f"{name}.shared_fcs.0", HIDDEN, 49 * WIDTH) | linear(f"{name}.shared_fcs.1", HIDDEN, HIDDEN)
    return found | linear(f"{name}.fc_cls", K + 1, HIDDEN) | linear(f"{name}.fc_reg", 4 * boxes, HIDDEN)


def rpn():
    found = conv("rpn_head.rpn_conv", WIDTH, WIDTH, 3, bias=True)
    return found | conv("rpn_head.rpn_cls", 3, WIDTH, 1, bias=True) | conv("rpn_head.rpn_reg", 12, WIDTH, 1, bias=True)


def mask_head():
    found = {}
    for i in range(4):
        found |= conv(f"roi_head.mask_head.convs.{i}.conv", WIDTH, WIDTH, 3, bias=True)
    found |= {"roi_head.mask_head.upsample.weight": (WIDTH, WIDTH, 2, 2), "roi_head.mask_head.upsample.bias": (WIDTH,)}
    return found | conv("roi_head.mask_head.conv_logits", K, WIDTH, 1, bias=True)


def darknet(width, blocks):
    found = conv("backbone.conv1.conv", width, 3, 3, norm="backbone.conv1.bn")
    for i, count in enumerate(blocks):
        wide, at = width << (i + 1), f"backbone.conv_res_block{i + 1}"
        found |= conv(f"{at}.conv.conv", wide, wide // 2, 3, norm=f"{at}.conv.bn")
        for j in range(count):
            found |= conv(f"{at}.res{j}.conv1.conv", wide // 2, wide, 1, norm=f"{at}.res{j}.conv1.bn")
            found |= conv(f"{at}.res{j}.conv2.conv", wide, wide // 2, 3, norm=f"{at}.res{j}.conv2.bn")
    return found


def yolov3(width, top):
    """Channels of C5, C4, C3: 32, 16, 8 times `width`; those of the neck `top`, top / 2, top / 4."""
    found, given = {}, [32 * width, 16 * width, 8 * width]
    for i in range(3):
        inner = top >> i
        c = given[i] + (inner if i else 0)
        for k, (wide, before, size) in enumerate(
            [(inner, c, 1), (2 * inner, inner, 3), (inner, 2 * inner, 1), (2 * inner, inner, 3), (inner, 2 * inner, 1)]
        ):
            at = f"neck.detect{i + 1}.conv{k + 1}"
            found |= conv(f"{at}.conv", wide, before, size, norm=f"{at}.bn")
        if i:
            found |= conv(f"neck.conv{i}.conv", inner, 2 * inner, 1, norm=f"neck.conv{i}.bn")
        bridge = f"bbox_head.convs_bridge.{i}"
        found |= conv(f"{bridge}.conv", 2 * inner, inner, 3, norm=f"{bridge}.bn")
        found |= conv(f"bbox_head.convs_pred.{i}", 3 * (5 + K), 2 * inner, 1, bias=True)
    return found


def drawn(shapes, path):
    arrays = {name: RNG.uniform(0.1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays |= {"data_preprocessor.mean": np.zeros((3, 1, 1), np.float32)}
    save_file(arrays, path)
    return arrays


def two_stages(kind, head, variant="b", **more):
    backbone = ResNet(50, variant, width=4, out_strides=(4, 8, 16, 32))
    return kind(backbone, Factory.of(head, num_classes=K, width=HIDDEN), Factory.of(FPN, width=WIDTH), **more).eval()


CHANNELS = (16, 32, 64, 128)
CASES = {
    "faster": (lambda: two_stages(FasterRCNN, BoxHead),
               lambda: resnet50(4) | fpn(CHANNELS) | rpn() | box_head("roi_head.bbox_head", K)),
    "faster, deep stem": (lambda: two_stages(FasterRCNN, BoxHead, "d"),
                          lambda: resnet50(4, True) | fpn(CHANNELS) | rpn() | box_head("roi_head.bbox_head", K)),
    "mask": (lambda: two_stages(MaskRCNN, BoxHead, mask_head=Factory.of(MaskHead, width=WIDTH)),
             lambda: resnet50(4) | fpn(CHANNELS) | rpn() | box_head("roi_head.bbox_head", K) | mask_head()),
    "cascade": (lambda: two_stages(CascadeRCNN, CascadeHead),
                lambda: resnet50(4) | fpn(CHANNELS) | rpn() | box_head("roi_head.bbox_head.0", 1)
                | box_head("roi_head.bbox_head.1", 1) | box_head("roi_head.bbox_head.2", 1)),
    "yolov3": (lambda: YOLOv3(DarkNet53(4, (1, 1, 2, 2, 1)), Factory.of(YOLOv3Head, num_classes=K),
                              Factory.of(YOLOv3Neck, width=16)).eval(),
               lambda: darknet(4, (1, 1, 2, 2, 1)) | yolov3(4, 16)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_names_and_shapes_of_a_file_are_exactly_those_wanted(tmp_path, case):
    make, names = CASES[case]
    model, shapes = make(), names()
    drawn(shapes, tmp_path / "mm.safetensors")
    report = load_pretrained(model, tmp_path / "mm.safetensors")
    assert len(report.loaded) == len(model.state_dict()) and not report.new and not report.resized
    assert report.unused == ["data_preprocessor.mean"]
    wanted = {name for source in model.names_in("openmmlab").sources.values() for name in source.names}
    assert wanted == set(shapes)


def test_regions_are_scored_as_by_mmdetection(tmp_path):
    make, names = CASES["faster"]
    model = make()
    mm = drawn(names(), tmp_path / "mm.safetensors")
    load_pretrained(model, tmp_path / "mm.safetensors")
    features = RNG.normal(size=(5, WIDTH, 7, 7)).astype(np.float32)

    def layer(x, name):
        return x @ mm[f"roi_head.bbox_head.{name}.weight"].T + mm[f"roi_head.bbox_head.{name}.bias"]

    x = np.maximum(layer(np.maximum(layer(features.reshape(5, -1), "shared_fcs.0"), 0), "shared_fcs.1"), 0)
    with no_grad():
        logits, deltas = model.head.predictor(tensor(features.transpose(0, 2, 3, 1).copy()))
    expected = layer(x, "fc_cls")
    np.testing.assert_allclose(logits.numpy(), expected[:, [K, *range(K)]], rtol=1e-4)
    np.testing.assert_allclose(deltas.numpy(), layer(x, "fc_reg").reshape(5, K, 4), rtol=1e-4)


def test_retinanet_says_of_each_anchor_what_mmdetection_says(tmp_path):
    """Its cell boxes go by ratio, then by size, as AnchorGenerator makes them."""
    backbone = ResNet(50, width=4, out_strides=(8, 16, 32))
    neck = Factory.of(FPN, width=WIDTH, extra="conv_c5")
    model = RetinaNet(backbone, Factory.of(RetinaNetHead, num_classes=K, convs=2), neck).eval()
    shapes = resnet50(4) | fpn((32, 64, 128), (128, WIDTH))
    for name in ("cls_convs", "reg_convs"):
        for i in range(2):
            shapes |= conv(f"bbox_head.{name}.{i}.conv", WIDTH, WIDTH, 3, bias=True)
    for name, each in (("retina_cls", K), ("retina_reg", 4)):
        shapes |= conv(f"bbox_head.{name}", 9 * each, WIDTH, 3, bias=True)
    mm = drawn(shapes, tmp_path / "mm.safetensors")
    report = load_pretrained(model, tmp_path / "mm.safetensors")
    assert len(report.loaded) == len(model.state_dict())

    def tower(x, name, out, each):
        for i in (0, 1):
            at = f"bbox_head.{name}.{i}.conv"
            x = np.maximum(mm[f"{at}.weight"][:, :, 1, 1] @ x + mm[f"{at}.bias"], 0)
        found = mm[f"bbox_head.{out}.weight"][:, :, 1, 1] @ x + mm[f"bbox_head.{out}.bias"]
        by_ratio = found.reshape(3, 3, each)  # the helper wants size, then ratio
        return by_ratio.transpose(1, 0, 2).reshape(-1)

    assert_anchors_are_scored(
        model, lambda x: tower(x, "cls_convs", "retina_cls", K), lambda x: tower(x, "reg_convs", "retina_reg", 4)
    )
