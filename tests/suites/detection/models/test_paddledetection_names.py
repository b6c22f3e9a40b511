"""PaddleDetection's files become our detectors: every tensor finds its place, and heads say what its formulas say.

Names and formulas are those of PaddleDetection 2.x (`ppdet/modeling`): linear weights are [in, out], regions are laid
flat as [R, C S S], background is the last class.
"""

import pickle

import numpy as np
import pytest

from framework import no_grad, tensor
from framework.errors import CheckpointError
from suites.detection.anchor_boxes import SSDPriors
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import BoxHead, CascadeHead, CascadeRCNN, FasterRCNN, MaskRCNN
from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
from suites.detection.models.yolov3 import TinyYOLOv3Neck, YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.engine.config import Factory
from suites.engine.weights import load_pretrained
from suites.vision.backbones import VGG, DarkNet53, MobileNetV1, MobileNetV2, ResNet, ResNeXt, TinyDarkNet
from tests.suites.detection.models.helpers import assert_anchors_are_scored

K, WIDTH = 3, 8
RNG = np.random.default_rng(0)


def rcnn(kind=FasterRCNN, head=BoxHead, classes=K, **more):
    backbone = ResNet(50, width=4, out_strides=(4, 8, 16, 32))
    return kind(backbone, Factory.of(head, num_classes=classes, width=12), Factory.of(FPN, width=WIDTH), **more).eval()


def yolo(backbone):
    return YOLOv3(backbone, Factory.of(YOLOv3Head, num_classes=K), Factory.of(YOLOv3Neck, width=16)).eval()


def retinanet():
    backbone, head = ResNet(50, width=4, out_strides=(8, 16, 32)), Factory.of(RetinaNetHead, num_classes=K, convs=2)
    return RetinaNet(backbone, head, Factory.of(FPN, width=WIDTH, extra="conv_p5")).eval()


def ssd():
    backbone = VGG(width=8, out_strides=(8, 16), reduced_fc=True)
    return SSD(backbone, Factory.of(SSDHead, num_classes=K), Factory.of(SSDNeck, norm=False, l2_norm=20.0)).eval()


def pdparams_of(model, path):
    """Random tensors under PaddleDetection's names, in its shapes, as `paddle.save` writes them."""
    state, arrays = model.state_dict(), {}
    for ours, source in model.names_in("paddledetection").sources.items():
        shape = source.theirs(np.zeros(state[ours].shape, np.float32)).shape
        if ours == "mask_head.out_weight":  # a 1x1 convolution there
            shape = (*shape, 1, 1)
        arrays[source.names[0]] = np.abs(RNG.normal(0, 0.1, shape)).astype(np.float32)
    path.write_bytes(pickle.dumps({**arrays, "StructuredToParameterName@@": {n: n for n in arrays}}, protocol=2))
    return arrays


MODELS = {
    "Faster": (rcnn, "bbox_head.head.fc6.weight bbox_head.bbox_delta.bias backbone.res2.res2a.branch2c.norm._variance"),
    "Mask": (lambda: rcnn(MaskRCNN), "mask_head.head.upsample.mask_inter_feat_4.weight mask_head.mask_fcn_logits.bias"),
    "Cascade": (
        lambda: rcnn(CascadeRCNN, CascadeHead),
        "bbox_head.head.2.fc7.bias bbox_head.bbox_score_stage1.weight neck.fpn_inner_res5_sum.bias "
        "neck.fpn_inner_res3_sum_lateral.weight neck.fpn_res2_sum.weight rpn_head.rpn_feat.rpn_conv.weight",
    ),
    "YOLOv3 DarkNet": (
        lambda: yolo(DarkNet53(4)),
        "backbone.conv0.batch_norm._mean backbone.downsample0.conv_bn_layer.conv.weight "
        "backbone.stage.0.downsample.conv_bn_layer.batch_norm.bias backbone.stage.2.basicblock0.conv2.conv.weight "
        "backbone.stage.3.stage.3.7.conv1.batch_norm.weight neck.yolo_block.0.conv_module.route.conv.weight "
        "neck.yolo_block.2.tip.batch_norm._variance neck.yolo_transition.1.conv.weight yolo_head.yolo_output.0.bias",
    ),
    "YOLOv3 MobileNet": (
        lambda: yolo(MobileNetV1(0.25)),
        "backbone.conv1._conv.weight backbone.conv2_1._depthwise_conv._conv.weight "
        "backbone.conv5_6._pointwise_conv._batch_norm._mean backbone.conv6._pointwise_conv._conv.weight",
    ),
    "YOLOv3 ResNet-vd-dcn": (
        lambda: yolo(ResNet(50, "d", width=4, out_strides=(8, 16, 32), deformable=(32,))),
        "backbone.conv1.conv1_3.norm.bias backbone.res2.res2a.short.conv.weight backbone.res4.res4f.branch2a.norm.bias "
        "backbone.res3.res3a.short.conv.conv.weight backbone.res5.res5a.branch2b.conv_offset.bias",
    ),
    "YOLOv3 ResNet-34": (
        lambda: yolo(ResNet(34, width=4, out_strides=(8, 16, 32), projected=True)),
        "backbone.conv1.conv1.conv.weight backbone.res2.res2a.short.conv.weight backbone.res2.res2a.short.norm._mean "
        "backbone.res3.res3a.short.conv.weight backbone.res4.res4f.branch2b.norm.weight",
    ),
    "YOLOv3 ResNet-18-vd": (
        lambda: yolo(ResNet(18, "d", width=4, out_strides=(8, 16, 32), projected=True)),
        "backbone.conv1.conv1_1.conv.weight backbone.res2.res2a.short.conv.weight "
        "backbone.res3.res3a.short.conv.conv.weight backbone.res5.res5b.branch2b.conv.weight",
    ),
    "RetinaNet": (
        lambda: retinanet(),
        "head.conv_feat.fcos_head_cls_tower_conv_1.conv.weight head.conv_feat.fcos_head_reg_tower_conv_0.conv.bias "
        "head.retina_cls.weight head.retina_reg.bias neck.fpn_6.weight neck.fpn_7.bias neck.fpn_res3_sum.weight "
        "neck.fpn_inner_res3_sum_lateral.weight neck.fpn_inner_res5_sum.bias backbone.res5.res5c.branch2c.norm._mean",
    ),
    "SSD": (
        lambda: ssd(),
        "backbone.conv_block_0.conv0.weight backbone.conv_block_4.conv2.bias backbone.fc6.weight backbone.fc7.bias "
        "backbone.conv6.conv0.weight backbone.conv9.conv1.bias backbone.norm0.scale ssd_head.boxes0.weight "
        "ssd_head.scores5.bias",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_of_a_file_finds_its_place(tmp_path, name):
    make, wanted = MODELS[name]
    model = make()
    arrays = pdparams_of(model, tmp_path / "m.pdparams")
    assert set(wanted.split()) <= set(arrays)
    report = load_pretrained(model, tmp_path / "m.pdparams")
    assert len(report.loaded) == len(model.state_dict()) == len(arrays) and not report.new and not report.unused


def test_deep_networks_number_the_blocks_that_letters_do_not_reach():
    names = {source.names[0] for source in ResNet(101, width=4).names_in("paddledetection").sources.values()}
    assert {"res4.res4b22.branch2a.conv.weight", "res4.res4a.short.conv.weight"} <= names
    assert "res3.res3d.branch2a.conv.weight" in names
    assert "conv1.res_conv1.conv.weight" in ResNeXt(101).names_in("paddledetection").sources["stem.0.conv.weight"].names


def test_regions_are_scored_as_by_paddledetection(tmp_path):
    model = rcnn()
    paddle = pdparams_of(model, tmp_path / "m.pdparams")
    load_pretrained(model, tmp_path / "m.pdparams")
    features = RNG.normal(size=(5, WIDTH, 7, 7)).astype(np.float32)

    def linear(x, name):
        return x @ paddle[f"bbox_head.{name}.weight"] + paddle[f"bbox_head.{name}.bias"]

    x = np.maximum(linear(features.reshape(5, -1), "head.fc6"), 0)
    x = np.maximum(linear(x, "head.fc7"), 0)
    with no_grad():
        logits, deltas = model.head.predictor(tensor(features.transpose(0, 2, 3, 1).copy()))
    expected = linear(x, "bbox_score")
    np.testing.assert_allclose(logits.numpy()[:, 1:], expected[:, :K], atol=1e-5)
    np.testing.assert_allclose(logits.numpy()[:, 0], expected[:, K], atol=1e-5)
    np.testing.assert_allclose(deltas.numpy(), linear(x, "bbox_delta").reshape(5, K, 4), atol=1e-5)


def test_levels_of_yolov3_are_paddledetections_from_the_coarsest(tmp_path):
    model = yolo(MobileNetV1(0.25))
    paddle = pdparams_of(model, tmp_path / "m.pdparams")
    load_pretrained(model, tmp_path / "m.pdparams")
    for i in range(3):
        theirs = paddle[f"yolo_head.yolo_output.{i}.weight"][:, :, 0, 0]
        np.testing.assert_array_equal(model.head.outs[2 - i].weight.numpy()[:, 0, 0], theirs)
        assert theirs.shape == (3 * (5 + K), 32 >> i)


def test_retinanet_says_of_each_anchor_what_paddledetection_says(tmp_path):
    model = retinanet()
    paddle = pdparams_of(model, tmp_path / "m.pdparams")
    load_pretrained(model, tmp_path / "m.pdparams")

    def conv(x, name):  # of a map of one pixel, where a 3x3 kernel sees its centre only
        return paddle[f"head.{name}.weight"][:, :, 1, 1] @ x + paddle[f"head.{name}.bias"]

    def tower(x, kind, out):
        for i in range(2):
            x = np.maximum(conv(x, f"conv_feat.fcos_head_{kind}_tower_conv_{i}.conv"), 0)
        return conv(x, out)

    assert_anchors_are_scored(model, lambda x: tower(x, "cls", "retina_cls"), lambda x: tower(x, "reg", "retina_reg"))


def test_ssd_says_of_each_prior_what_paddledetection_says(tmp_path):
    model = ssd()
    paddle = pdparams_of(model, tmp_path / "m.pdparams")
    load_pretrained(model, tmp_path / "m.pdparams")
    sizes, ratios = (30, 60, 111, 162, 213, 264, 315), ([2], [2, 3], [2, 3], [2, 3], [2], [2])
    maps = [RNG.normal(size=(1, 1, 1, c)).astype(np.float32) for c in model.neck.channels]
    with no_grad():
        logits, deltas = (x.numpy()[0] for x in model.head([tensor(x) for x in maps]))

    def conv(level, name):  # of a map of one pixel
        weight, bias = (paddle[f"ssd_head.{name}{level}.{leaf}"] for leaf in ("weight", "bias"))
        return weight[:, :, 1, 1] @ maps[level][0, 0, 0] + bias

    at = 0
    for level, level_ratios in enumerate(ratios):
        # its prior_box with min_max_aspect_ratios_order: the square, that of sqrt(min max), each ratio and its inverse
        least, most = sizes[level : level + 2]
        roots = [root for ratio in level_ratios for root in (ratio**0.5, ratio**-0.5)]
        sides = [(least, least), ((least * most) ** 0.5,) * 2, *((least * r, least / r) for r in roots)]
        cells = [(-w / 2, -h / 2, w / 2, h / 2) for w, h in sides]
        np.testing.assert_allclose(model.head.anchors.levels[level].cells, cells, rtol=1e-12)
        scores, count = conv(level, "scores").reshape(-1, K + 1), len(cells)  # the last class is background
        np.testing.assert_allclose(logits[at : at + count, 1:], scores[:, :K], atol=1e-5)
        np.testing.assert_allclose(logits[at : at + count, 0], scores[:, K], atol=1e-5)
        np.testing.assert_allclose(deltas[at : at + count], conv(level, "boxes").reshape(-1, 4), atol=1e-5)
        at += count


def test_a_vgg_starts_from_the_backbone_of_an_ssd(tmp_path):
    pdparams_of(ssd(), tmp_path / "m.pdparams")
    report = load_pretrained(VGG(width=8, out_strides=(8, 16), reduced_fc=True), tmp_path / "m.pdparams")
    assert len(report.loaded) == 30 and not report.new
    left = {"backbone.conv6.conv0.weight", "backbone.norm0.scale", "ssd_head.boxes0.weight"}
    assert left <= set(report.unused) | {f"backbone.{name}" for name in report.unused}
    report = load_pretrained(VGG(width=8, out_strides=(8,)), tmp_path / "m.pdparams")  # up to conv4_3
    assert len(report.loaded) == 20


def test_a_plain_resnet_18_names_the_convolution_that_it_lacks(tmp_path):
    pdparams_of(yolo(ResNet(18, width=4, out_strides=(8, 16, 32), projected=True)), tmp_path / "m.pdparams")
    with pytest.raises(CheckpointError, match=r"unexpected: backbone\.res2\.res2a\.short\.conv\.weight"):
        load_pretrained(yolo(ResNet(18, width=4, out_strides=(8, 16, 32))), tmp_path / "m.pdparams")


def test_a_file_of_another_number_of_classes_gives_all_but_the_classes(tmp_path):
    pdparams_of(rcnn(MaskRCNN), tmp_path / "m.pdparams")
    report = load_pretrained(rcnn(MaskRCNN, classes=5), tmp_path / "m.pdparams")
    assert len(report.resized) == 6  # weights and biases of classes, boxes and masks
    assert all(any(part in text for part in ("classes", "deltas", "out_")) for text in report.resized)


def test_a_model_offers_only_the_names_that_it_can_have():
    assert yolo(DarkNet53(4)).schemes == ("darknet", "openmmlab", "paddledetection")
    assert yolo(MobileNetV1(0.25)).schemes == ("paddledetection",)
    two = Factory.of(YOLOv3Head, num_classes=K, anchors=((9, 9), (20, 20)))
    assert YOLOv3(TinyDarkNet(), two, Factory.of(TinyYOLOv3Neck)).schemes == ("darknet",)
    aware = Factory.of(YOLOv3Head, num_classes=K, iou_aware=0.4)
    assert YOLOv3(MobileNetV1(0.25), aware).schemes == ()
    assert ssd().schemes == ("torchvision", "paddledetection")
    small = Factory.of(SSDHead, num_classes=K, priors=SSDPriors.between((12, 24, 40), ((2,), (2,)), (16, 32)))
    plain = Factory.of(SSDNeck, extras=())
    assert SSD(MobileNetV2(0.25, out_strides=(16, 32)), small, plain).schemes == ()
    mobile = MobileNetV1(0.25, out_strides=(8, 16, 32))
    assert RetinaNet(mobile, Factory.of(RetinaNetHead, num_classes=K)).schemes == ("paddledetection",)
