"""What MMDetection 2 and 3 call the tensors of detectors, and how they order their rows.

Classes end with the background where ours begin with it; boxes and masks have no row of it. Cell boxes are ordered as
ours, by ratio, then size. Their RoIAlign and cell boxes are Detectron2's.
"""

from __future__ import annotations

from suites.detection.models.base import Neck
from suites.detection.models.fpn import FPN
from suites.detection.models.torchvision_names import convs, placed
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import CONV_AXES, conv_norm, linear

SCHEME = "openmmlab"
_UNUSED = (r"^data_preprocessor\.", r"^ema_")  # means of pixels, which are arguments here; averages beside the weights


def backbone_names(backbone: Backbone, neck: Neck) -> Names:
    """Of a backbone with an FPN behind it; levels that a convolution makes are numbered on."""
    found = placed(backbone.names_in(SCHEME), "backbone.", "backbone.") | Names({}, _UNUSED)
    if not isinstance(neck, FPN):
        return found
    count = len(neck.inner_blocks)
    pairs = {f"neck.inner_blocks.{i}": f"neck.lateral_convs.{i}.conv" for i in range(count)}
    pairs |= {f"neck.layer_blocks.{i}": f"neck.fpn_convs.{i}.conv" for i in range(count)}
    pairs |= {f"neck.extra_blocks.{i}": f"neck.fpn_convs.{count + i}.conv" for i in range(len(neck.extra_blocks))}
    return found | Names(convs(pairs))


def rpn() -> Names:
    """Of the region proposals."""
    pairs = {"rpn.conv": "rpn_conv", "rpn.logits": "rpn_cls", "rpn.deltas": "rpn_reg"}
    return Names(convs({ours: f"rpn_head.{name}" for ours, name in pairs.items()}))


def box_predictor(ours: str, stage: str, channels: int, size: int, num_classes: int) -> Names:
    """Of two layers and what they predict of regions [C, S, S]; `stage` is "" or, of a cascade, ".0", ".1" ..."""
    head = f"roi_head.bbox_head{stage}"
    background_first = (num_classes, *range(num_classes))
    return Names(
        {
            f"{ours}.fc1.weight": Source((f"{head}.shared_fcs.0.weight",), CONV_AXES, view=(-1, channels, size, size)),
            f"{ours}.fc1.bias": Source((f"{head}.shared_fcs.0.bias",)),
            **linear(f"{ours}.fc2", f"{head}.shared_fcs.1"),
            f"{ours}.classes.weight": Source((f"{head}.fc_cls.weight",), rows=background_first),
            f"{ours}.classes.bias": Source((f"{head}.fc_cls.bias",), rows=background_first),
            **linear(f"{ours}.deltas", f"{head}.fc_reg"),
        }
    )


def mask_head(count: int, width: int) -> Names:
    """Of the shapes: `count` convolutions, one that doubles the size, one of a channel a class."""
    theirs = "roi_head.mask_head"
    sources = convs({f"mask_head.convs.{i}": f"{theirs}.convs.{i}.conv" for i in range(count)})
    sources |= {
        "mask_head.up_weight": Source((f"{theirs}.upsample.weight",), (0, 2, 3, 1)),
        "mask_head.up_bias": Source((f"{theirs}.upsample.bias",)),
        "mask_head.out_weight": Source((f"{theirs}.conv_logits.weight",), (0, 1), view=(-1, width)),
        "mask_head.out_bias": Source((f"{theirs}.conv_logits.bias",)),
    }
    return Names(sources)


def retinanet_head(depth: int) -> Names:
    """Of towers of `depth` convolutions, and of what they predict."""
    pairs = {"head.cls_out": "bbox_head.retina_cls", "head.box_out": "bbox_head.retina_reg"}
    for ours, theirs in (("cls_convs", "cls_convs"), ("box_convs", "reg_convs")):
        pairs |= {f"head.{ours}.{i}": f"bbox_head.{theirs}.{i}.conv" for i in range(depth)}
    return Names(convs(pairs))


def yolov3(backbone: Backbone, levels: int) -> Names:
    """Of YOLOv3 with as many levels, where the coarsest is number 1 of the neck and 0 of the head."""
    units: dict[str, str] = {}
    for i in range(levels):
        units |= {f"neck.sets.{i}.{k}": f"neck.detect{i + 1}.conv{k + 1}" for k in range(5)}
        units[f"head.tips.{levels - 1 - i}"] = f"bbox_head.convs_bridge.{i}"
        if i:
            units[f"neck.laterals.{i - 1}"] = f"neck.conv{i}"
    names: dict[str, Source] = {}
    for ours, theirs in units.items():
        names |= conv_norm(ours, f"{theirs}.conv", f"{theirs}.bn")
    outs = {f"head.outs.{levels - 1 - i}": f"bbox_head.convs_pred.{i}" for i in range(levels)}
    return placed(backbone.names_in(SCHEME), "backbone.", "backbone.") | Names({**names, **convs(outs)}, _UNUSED)
