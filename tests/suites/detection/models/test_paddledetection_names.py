"""PaddleDetection's files become our detectors: every tensor finds its place, and heads say what its formulas say.

Names and formulas are those of PaddleDetection 2.x (`ppdet/modeling`): linear weights are [in, out], regions are laid
flat as [R, C S S], background is the last class.
"""

import pickle

import numpy as np
import pytest

from framework import no_grad, tensor
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import BoxHead, CascadeHead, CascadeRCNN, FasterRCNN, MaskRCNN
from suites.detection.models.yolov3 import TinyYOLOv3Neck, YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.engine.config import Factory
from suites.engine.weights import load_pretrained
from suites.vision.backbones import DarkNet53, MobileNetV1, ResNet, ResNeXt, TinyDarkNet

K, WIDTH = 3, 8
RNG = np.random.default_rng(0)


def rcnn(kind=FasterRCNN, head=BoxHead, classes=K, **more):
    backbone = ResNet(50, width=4, out_strides=(4, 8, 16, 32))
    return kind(backbone, Factory.of(head, num_classes=classes, width=12), Factory.of(FPN, width=WIDTH), **more).eval()


def yolo(backbone):
    return YOLOv3(backbone, Factory.of(YOLOv3Head, num_classes=K), Factory.of(YOLOv3Neck, width=16)).eval()


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


def test_a_file_of_another_number_of_classes_gives_all_but_the_classes(tmp_path):
    pdparams_of(rcnn(MaskRCNN), tmp_path / "m.pdparams")
    report = load_pretrained(rcnn(MaskRCNN, classes=5), tmp_path / "m.pdparams")
    assert len(report.resized) == 6  # weights and biases of classes, boxes and masks
    assert all(any(part in text for part in ("classes", "deltas", "out_")) for text in report.resized)


def test_a_model_offers_only_the_names_that_it_can_have():
    assert yolo(DarkNet53(4)).schemes == ("darknet", "paddledetection")
    assert yolo(MobileNetV1(0.25)).schemes == ("paddledetection",)
    two = Factory.of(YOLOv3Head, num_classes=K, anchors=((9, 9), (20, 20)))
    assert YOLOv3(TinyDarkNet(), two, Factory.of(TinyYOLOv3Neck)).schemes == ("darknet",)
    aware = Factory.of(YOLOv3Head, num_classes=K, iou_aware=0.4)
    assert YOLOv3(MobileNetV1(0.25), aware).schemes == ()
