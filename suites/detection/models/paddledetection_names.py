"""What PaddleDetection 2 calls the tensors of detectors, and how it orders them.

Its classes end with the background where ours begin with it; boxes and masks have no row of background. Linear
weights are [in, out]. RetinaNet's cell boxes are ordered as Detectron2's.
"""

from __future__ import annotations

from collections.abc import Sequence

from suites.detection.models.base import Neck
from suites.detection.models.detectron2_names import rows_of_conv, size_first
from suites.detection.models.fpn import FPN
from suites.detection.models.torchvision_names import convs, placed
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv_norm, linear

SCHEME = "paddledetection"


def backbone_names(backbone: Backbone, neck: Neck) -> Names:
    """Of a backbone with an FPN behind it; a level is called by the power of two that its stride is."""
    found = placed(backbone.names_in(SCHEME), "backbone.", "backbone.")
    if not isinstance(neck, FPN):
        return found
    levels = [stride.bit_length() - 1 for stride in neck.strides]
    pairs: dict[str, str] = {}
    last = len(neck.inner_blocks) - 1
    for i in range(last + 1):
        pairs[f"neck.inner_blocks.{i}"] = f"neck.fpn_inner_res{levels[i]}_sum" + ("" if i == last else "_lateral")
        pairs[f"neck.layer_blocks.{i}"] = f"neck.fpn_res{levels[i]}_sum"
    for i in range(len(neck.extra_blocks)):
        pairs[f"neck.extra_blocks.{i}"] = f"neck.fpn_{levels[last + 1 + i]}"
    return found | Names(convs(pairs))


def rpn() -> Names:
    """Of the region proposals."""
    pairs = {"rpn.conv": "rpn_feat.rpn_conv", "rpn.logits": "rpn_rois_score", "rpn.deltas": "rpn_rois_delta"}
    return Names(convs({ours: f"rpn_head.{name}" for ours, name in pairs.items()}))


def box_predictor(ours: str, stage: int | None, channels: int, size: int, num_classes: int) -> Names:
    """Of two layers and what they predict of regions [C, S, S]; `stage` is None or the number of a cascade's."""
    head = "bbox_head.head" if stage is None else f"bbox_head.head.{stage}"
    suffix = "" if stage is None else f"_stage{stage}"
    background_first = (num_classes, *range(num_classes))
    scores = f"bbox_head.bbox_score{suffix}"
    return Names(
        {
            f"{ours}.fc1.weight": Source((f"{head}.fc6.weight",), (3, 1, 2, 0), view=(channels, size, size, -1)),
            f"{ours}.fc1.bias": Source((f"{head}.fc6.bias",)),
            **linear(f"{ours}.fc2", f"{head}.fc7", paddle=True),
            f"{ours}.classes.weight": Source((f"{scores}.weight",), (1, 0), rows=background_first),
            f"{ours}.classes.bias": Source((f"{scores}.bias",), rows=background_first),
            **linear(f"{ours}.deltas", f"bbox_head.bbox_delta{suffix}", paddle=True),
        }
    )


def mask_head(count: int, width: int) -> Names:
    """Of the shapes: `count` convolutions, one that doubles the size, one of a channel a class."""
    theirs = "mask_head.head.upsample"
    sources = convs({f"mask_head.convs.{i}": f"{theirs}.mask_inter_feat_{i + 1}" for i in range(count)})
    sources |= {
        "mask_head.up_weight": Source((f"{theirs}.conv5_mask.weight",), (0, 2, 3, 1)),
        "mask_head.up_bias": Source((f"{theirs}.conv5_mask.bias",)),
        "mask_head.out_weight": Source(("mask_head.mask_fcn_logits.weight",), (0, 1), view=(-1, width)),
        "mask_head.out_bias": Source(("mask_head.mask_fcn_logits.bias",)),
    }
    return Names(sources)


def retinanet_head(depth: int, octaves: int, ratios: int, num_classes: int) -> Names:
    """Of towers of `depth` convolutions, and of predictions for `octaves` sizes and `ratios` forms of anchors, which
    are ordered by size, then ratio."""
    pairs: dict[str, str] = {}
    for ours, theirs in (("cls_convs", "cls"), ("box_convs", "reg")):
        at = f"head.conv_feat.fcos_head_{theirs}_tower_conv"
        pairs |= {f"head.{ours}.{i}": f"{at}_{i}.conv" for i in range(depth)}
    return Names(
        {
            **convs(pairs),
            **size_first("head.cls_out", "head.retina_cls", octaves, ratios, num_classes),
            **size_first("head.box_out", "head.retina_reg", octaves, ratios, 4),
        }
    )


def ssd(backbone: Backbone, extras: int, per_cell: Sequence[int], num_classes: int, scaled: bool) -> Names:
    """Of SSD on VGG with `extras` levels more, which are parts of the backbone there, and `per_cell` priors a level."""
    pairs = {
        f"neck.extras.{i}.{at}": f"backbone.conv{6 + i}.conv{k}"
        for i in range(extras)
        for k, at in enumerate((0, 2))  # an activation lies between
    }
    names = convs(pairs) | ({"neck.scale": Source(("backbone.norm0.scale",))} if scaled else {})
    for level, priors in enumerate(per_cell):
        width = 1 + num_classes
        rows = [a * width + k for a in range(priors) for k in (num_classes, *range(num_classes))]
        names |= rows_of_conv(f"head.cls_outs.{level}", f"ssd_head.scores{level}", rows)
        names |= convs({f"head.box_outs.{level}": f"ssd_head.boxes{level}"})
    return Names({**placed(backbone.names_in(SCHEME), "backbone.", "backbone.").sources, **names})


def yolov3(backbone: Backbone, levels: int) -> Names:
    """Of YOLOv3 with as many levels, where the coarsest is number 0."""
    units: dict[str, str] = {}
    for i in range(levels):
        block = f"neck.yolo_block.{i}"
        inside = [f"conv_module.conv{k}" for k in range(4)] + ["conv_module.route"]
        units |= {f"neck.sets.{i}.{k}": f"{block}.{name}" for k, name in enumerate(inside)}
        units[f"head.tips.{levels - 1 - i}"] = f"{block}.tip"
        if i:
            units[f"neck.laterals.{i - 1}"] = f"neck.yolo_transition.{i - 1}"
    names: dict[str, Source] = {}
    for ours, theirs in units.items():
        names |= conv_norm(ours, f"{theirs}.conv", f"{theirs}.batch_norm", paddle=True)
    outs = {f"head.outs.{levels - 1 - i}": f"yolo_head.yolo_output.{i}" for i in range(levels)}
    return placed(backbone.names_in(SCHEME), "backbone.", "backbone.") | Names({**names, **convs(outs)})
