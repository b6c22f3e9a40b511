"""Configs of detectors of one stage: they are valid, and their networks have the published numbers of anchors."""

from pathlib import Path

import numpy as np
import pytest

from framework import nn
from suites.engine.config.building import read_config

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "detection"


def built(name):
    with nn.init.undrawn():
        return read_config(CONFIGS / f"{name}.yml").build("model")


@pytest.mark.parametrize(
    ("name", "sides", "priors"),
    [
        ("ssd300_vgg16_voc", (38, 19, 10, 5, 3, 1), 8732),
        ("ssd512_vgg16_voc", (64, 32, 16, 8, 4, 2, 1), 24564),
        ("ssd300_mobilenetv1_voc", (19, 10, 5, 3, 2, 1), 19 * 19 * 3 + 6 * (100 + 25 + 9 + 4 + 1)),
    ],
)
def test_ssd_has_the_published_priors(name, sides, priors):
    model = built(name)
    assert sum(side * side * each for side, each in zip(sides, model.head.anchors.per_cell, strict=True)) == priors
    assert [out.out_channels for out in model.head.cls_outs] == [21 * each for each in model.head.anchors.per_cell]


def test_retinanet_on_coco_is_detectron2s():
    model = built("retinanet_r50_fpn_coco")
    assert model.neck.strides == (8, 16, 32, 64, 128) and model.head.anchors.per_cell == (9,) * 5
    # 34.0 million of torchvision's retinanet_resnet50_fpn with 91 classes, less 9 * 11 rows of the class convolution
    assert sum(p.size for p in model.parameters()) == 34_014_999 + _norms(model) - 9 * 11 * (256 * 9 + 1)
    assert not any(p.requires_grad for n, p in model.named_parameters() if n.startswith("backbone.stages.0."))


def _norms(model):
    """Scales and biases of batch norms, which torchvision counts as buffers where they are frozen."""
    norms = (layer for _, layer in model.backbone.named_layers() if isinstance(layer, nn.BatchNorm))
    return int(np.sum([2 * layer.channels for layer in norms]))


@pytest.mark.parametrize("name", ["retinanet_mobilenetv2_bccd", "ssd300_mobilenetv2_bccd"])
def test_configs_for_blood_cells_are_valid(name):
    config = read_config(CONFIGS / f"{name}.yml", ["model.backbone.pretrained=null"])
    assert config.build("model").num_classes == 3


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("yolov3_darknet53_pedestrian", 1),
        ("yolov3_darknet53_vehicle", 6),
        ("yolov3_r34_coco", 80),
        ("yolov3_r50vd_coco", 80),
        ("yolov3_r50vd_dcn_coco", 80),
        ("yolov3_mobilenetv3_coco", 80),
    ],
)
def test_yolov3_has_three_levels_on_every_backbone(name, classes):
    model = built(name)
    assert model.num_classes == classes and model.neck.strides == (8, 16, 32)
    assert [len(level.anchors) for level in model.head.levels] == [3, 3, 3]
