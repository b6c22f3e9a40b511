"""Every pair of backbone and detector that docs/howto/detection.md claims is built, makes a step, and is exported."""

import re
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import nn, tensor
from suites.detection.anchor_boxes import SSDPriors
from suites.detection.models.base import PostProcess, Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import RPN, BoxHead, FasterRCNN, RegionSampler
from suites.detection.models.rcnn.proposals import ProposalLimits
from suites.detection.models.retinanet import LevelPostProcess, RetinaNet, RetinaNetHead
from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
from suites.detection.models.yolov3 import YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import REGISTRY
from suites.vision import backbones
from tests.suites.detection.models.helpers import arrays_of, assert_exports, images_of

DOCS = Path(__file__).resolve().parents[4] / "docs" / "howto" / "detection.md"
CLASSES = 2

BACKBONES = {
    "ResNet": lambda strides: backbones.ResNet(18, width=8, out_strides=strides),
    "ResNeXt": lambda strides: backbones.ResNeXt(50, groups=4, group_width=8, width=8, out_strides=strides),
    "DarkNet53": lambda strides: backbones.DarkNet53(width=4, out_strides=strides),
    "TinyDarkNet": lambda strides: backbones.TinyDarkNet(out_strides=strides),
    "MobileNetV1": lambda strides: backbones.MobileNetV1(0.25, out_strides=strides),
    "MobileNetV2": lambda strides: backbones.MobileNetV2(0.25, out_strides=strides),
    "MobileNetV3": lambda strides: backbones.MobileNetV3("small", 0.5, out_strides=strides),
    "EfficientNetLite": lambda strides: backbones.EfficientNetLite(0, out_strides=strides),
    "HRNet": lambda strides: backbones.HRNet(18, out_strides=strides),
    "VGG": lambda strides: backbones.VGG(width=8, out_strides=strides),
    "Xception": lambda strides: backbones.Xception(41, out_strides=strides, output_stride=32),
    "ConvNeXt": lambda strides: backbones.ConvNeXt("tiny", width=8, out_strides=strides),
    "DenseNet": lambda strides: backbones.DenseNet(121, out_strides=strides),
    "DINOv2": lambda strides: backbones.DINOv2("small", image_size=70, blocks=4, out_strides=strides, pyramid_width=8),
    "EfficientNet": lambda strides: backbones.EfficientNet(0, out_strides=strides),
    "GoogLeNet": lambda strides: backbones.GoogLeNet(out_strides=strides),
    "ShuffleNetV2": lambda strides: backbones.ShuffleNetV2(0.5, out_strides=strides),
    "Swin": lambda strides: backbones.Swin("tiny", out_strides=strides),
    "ThinResNet": lambda strides: backbones.ThinResNet(out_strides=strides),
    "ViT": lambda strides: backbones.ViT("tiny", 16, 64, blocks=4, out_strides=strides, pyramid_width=8),
    "BlazeNet": lambda strides: backbones.BlazeNet(
        ((8, 12, 2),), ((12, 8, 16, 2), (16, 8, 16, 2)), out_strides=strides
    ),
}


def yolov3(backbone):
    few = PostProcess(0.0, 20, 0.5, 5)
    anchors = ((8, 8), (12, 12), (16, 16), (24, 24), (32, 32), (48, 48))
    head = Factory.of(YOLOv3Head, num_classes=CLASSES, anchors=anchors, postprocess=few)
    return YOLOv3(backbone((16, 32)), head, Factory.of(YOLOv3Neck, width=16))


def retinanet(backbone):
    head = Factory.of(RetinaNetHead, num_classes=CLASSES, convs=1, prior=0.5, postprocess=LevelPostProcess(0.0, 20))
    return RetinaNet(backbone((8, 16, 32)), head, Factory.of(FPN, width=8, extra="conv_p5"))


def ssd(backbone):
    strides = (8, 16) if backbone is BACKBONES["BlazeNet"] else (16, 32)
    priors = SSDPriors.between((12, 24, 40, 70), ((2,), (2,), (2,)), (*strides, 2 * strides[-1]))
    head = Factory.of(SSDHead, num_classes=CLASSES, priors=priors, postprocess=PostProcess(0.0, 20, 0.5, 5))
    return SSD(backbone(strides), head, Factory.of(SSDNeck, extras=((8, 8, 3, 2, 1),)))


def rcnn(backbone):
    few, last = ProposalLimits(40, 24), PostProcess(0.0, 50, 0.5, 6)
    head = Factory.of(BoxHead, num_classes=CLASSES, width=16, sampler=RegionSampler(16, 0.25), postprocess=last)
    rpn = Factory.of(RPN, sizes=(8, 16, 32, 64, 128), samples=32, train=few, predict=few)
    return FasterRCNN(backbone((4, 8, 16, 32)), head, Factory.of(FPN, width=8), rpn)


DETECTORS = {"YOLOv3": yolov3, "RetinaNet": retinanet, "SSD": ssd, "R-CNN": rcnn}


def claimed():
    """(backbone, detector) of every "yes" in the table of the docs."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\|(.*)\|$", DOCS.read_text().split("## Which backbone")[1], re.M)
    names = list(DETECTORS)
    return [
        (backbone, names[i]) for backbone, cells in rows for i, cell in enumerate(cells.split("|")) if "yes" in cell
    ]


def test_the_table_names_every_backbone():
    # The first two end at stride 16; the third's maps have sides that are no whole strides; the last has its own neck.
    no_detector = {"UNetEncoder", "SqueezeNet", "InceptionV3", "InceptionV4", "DarknetCfg"}
    assert {backbone for backbone, _ in claimed()} == set(BACKBONES) == set(REGISTRY.names("backbone")) - no_detector


@pytest.mark.parametrize(
    ("backbone", "detector"),
    [
        pytest.param(*pair, marks=() if pair[0] == "ResNet" else pytest.mark.slow, id="-".join(pair))
        for pair in claimed()
    ],
)
def test_the_pair_is_built_makes_a_step_and_is_exported(backbone, detector, tmp_path):
    model = DETECTORS[detector](BACKBONES[backbone])
    nn.init.initialize(model, 0)

    @framework.program
    def step(images, boxes, classes, scores):
        terms = model.losses(images, Targets(boxes, classes, scores)).values()
        total = sum((t.mean if isinstance(t, Loss) else t for t in terms), start=tensor(np.float32(0)))
        total.backward()
        return total

    size = (64, 96)
    loss = step(*(tensor(x) for x in (images_of(2, size), *arrays_of(2, 2, CLASSES, size))))
    assert np.isfinite(float(loss)) and float(loss) > 0
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
    assert all(np.isfinite(g).all() for g in gradients.values())
    # HRNet makes its finest maps for others than the wanted strides too: nothing reaches what only they need
    assert len(gradients) == len(model.parameters()) or backbone == "HRNet"
    assert any(np.abs(g).max() > 0 for name, g in gradients.items() if name.startswith("backbone."))
    assert_exports(model, tmp_path, sizes=(size, (96, 64)))
