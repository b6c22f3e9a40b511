"""Every record of torchvision builds, and torchvision's own networks have its tensors, names and shapes."""

import re

import numpy as np
import pytest

from framework.nn import init
from suites.engine.config.building import build_task
from suites.engine.weights.matching import load_mapped
from suites.engine.weights.records import get_record, record_names
from suites.engine.weights.runs import _config_of

pytestmark = pytest.mark.peers

OURS = {
    "mobilenetv2": "mobilenet_v2", "mobilenetv3_large": "mobilenet_v3_large", "mobilenetv3_small": "mobilenet_v3_small",
    "faster_rcnn_r50_fpn": "fasterrcnn_resnet50_fpn", "mask_rcnn_r50_fpn": "maskrcnn_resnet50_fpn",
    "retinanet_r50_fpn": "retinanet_resnet50_fpn", "deeplabv3_mobilenetv3_large": "deeplabv3_mobilenet_v3_large",
    "lraspp_mobilenetv3_large": "lraspp_mobilenet_v3_large", "keypoint_rcnn_r50_fpn": "keypointrcnn_resnet50_fpn",
    "ssdlite320_mobilenetv3": "ssdlite320_mobilenet_v3_large",
}  # fmt: skip
# What torchvision renames when it reads its published files of these.
OLDER = {
    "densenet": (r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2"),
    "vit": (r"mlp\.(0|3)\.", lambda found: f"mlp.linear_{1 + int(found[1]) // 3}."),
    "faster": (r"(inner_blocks\.\d|layer_blocks\.\d|rpn\.head\.conv)\.0(\.0)?", r"\1"),
    "keypoint": (r"(inner_blocks\.\d|layer_blocks\.\d|rpn\.head\.conv)\.0(\.0)?", r"\1"),
    "mask": (r"(inner_blocks\.\d|layer_blocks\.\d|rpn\.head\.conv)\.0(\.0)?", r"\1"),
    "retinanet": (r"(inner_blocks\.\d|layer_blocks\.\d)\.0", r"\1"),
}
RECORDS = [
    name for name in record_names() if "torchvision" in get_record(name).what and name != "mobilenetv2_imagenet_v1"
]


def theirs_of(name):
    """torchvision's network of a record, without memory for its numbers."""
    import torch
    from torchvision import models

    plain = re.sub(r"_(imagenet|coco|kinetics)(_v\d)?$", "", name)
    plain = OURS.get(plain, plain)
    with torch.device("meta"):
        if name.endswith("_coco"):
            room = models.detection if hasattr(models.detection, plain) else models.segmentation
            more = {"aux_loss": True} if plain.startswith(("fcn", "deeplab")) else {}
            return getattr(room, plain)(weights=None, weights_backbone=None, **more)
        if name.endswith("_kinetics"):
            return getattr(models.video, plain)(weights=None)
        more = {"init_weights": False} if plain in ("googlenet", "inception_v3") else {}
        return getattr(models, plain)(weights=None, **more)


def named(name, key):
    """What the published file of a record calls a tensor."""
    key = re.sub(r"roi_heads\.mask_head\.(\d)\.0", lambda m: f"roi_heads.mask_head.mask_fcn{int(m[1]) + 1}", key)
    key = re.sub(r"_head\.conv\.(\d)\.0", lambda m: f"_head.conv.{2 * int(m[1])}", key)  # RetinaNet's: ReLUs counted
    for start, rule in OLDER.items():
        if name.startswith(start):
            key = re.sub(*rule, key)
    return key


@pytest.mark.parametrize("name", RECORDS)
def test_the_names_and_shapes_of_a_record_are_torchvisions(name):
    pytest.importorskip("torchvision", reason="the peer torchvision is not installed")
    record = get_record(name)
    arrays = {
        named(name, key): np.broadcast_to(np.float32(0), tuple(value.shape))
        for key, value in theirs_of(name).state_dict().items()
        if not key.endswith("num_batches_tracked")
    }
    with init.undrawn():
        model = build_task(_config_of(record)).model
    names = model.names_in(record.scheme)
    report = load_mapped(model, arrays, names.sources, file=name, unused=names.unused)
    assert set(report.loaded) == set(model.state_dict()) and not report.new and not report.resized
    classes = record.names_of_classes()
    assert classes is None or len(classes) == model.num_classes
