"""What torchvision calls the tensors of `FasterRCNN`, `MaskRCNN` and `KeypointRCNN` with a pyramid."""

from __future__ import annotations

from collections.abc import Sequence

from suites.detection.models.torchvision_names import OLD
from suites.engine.weights import Source
from suites.vision.backbones.naming import CONV_AXES, conv, linear
from suites.vision.pose import COCO_PERSON


def rpn(scheme: str) -> dict[str, Source]:
    """Of the region proposals."""
    inner = "" if scheme == OLD else ".0.0"
    return {
        **conv("rpn.conv", f"rpn.head.conv{inner}", bias=True),
        **conv("rpn.logits", "rpn.head.cls_logits", bias=True),
        **conv("rpn.deltas", "rpn.head.bbox_pred", bias=True),
    }


def box_head(channels: int, size: int) -> dict[str, Source]:
    """Of the second stage: regions are [C, S, S] there before they are laid flat, and background has a box too."""
    below = "head.predictor"
    theirs = "roi_heads.box_head"
    flat = {f"{below}.fc1.weight": Source((f"{theirs}.fc6.weight",), CONV_AXES, view=(-1, channels, size, size))}
    flat |= {f"{below}.fc1.bias": Source((f"{theirs}.fc6.bias",))}
    boxes = "roi_heads.box_predictor.bbox_pred"
    return {
        **flat,
        **linear(f"{below}.fc2", f"{theirs}.fc7"),
        **linear(f"{below}.classes", "roi_heads.box_predictor.cls_score"),
        f"{below}.deltas.weight": Source((f"{boxes}.weight",), skipped=4),
        f"{below}.deltas.bias": Source((f"{boxes}.bias",), skipped=4),
    }


def mask_head(scheme: str, convs: int, width: int) -> dict[str, Source]:
    """Of the shapes; background has a channel there."""
    names: dict[str, Source] = {}
    for i in range(convs):
        at = f"mask_fcn{i + 1}" if scheme == OLD else f"{i}.0"
        names |= conv(f"mask_head.convs.{i}", f"roi_heads.mask_head.{at}", bias=True)
    theirs = "roi_heads.mask_predictor"
    return {
        **names,
        "mask_head.up_weight": Source((f"{theirs}.conv5_mask.weight",), (0, 2, 3, 1)),
        "mask_head.up_bias": Source((f"{theirs}.conv5_mask.bias",)),
        "mask_head.out_weight": Source((f"{theirs}.mask_fcn_logits.weight",), (0, 1), skipped=1, view=(-1, width)),
        "mask_head.out_bias": Source((f"{theirs}.mask_fcn_logits.bias",), skipped=1),
    }


def keypoint_head(convs: int, points: Sequence[str]) -> dict[str, Source]:
    """Of the heatmaps; each convolution has its ReLU behind it there. COCO's `points` may stand in another order."""
    names: dict[str, Source] = {}
    for i in range(convs):
        names |= conv(f"keypoint_head.convs.{i}", f"roi_heads.keypoint_head.{2 * i}", bias=True)
    theirs = "roi_heads.keypoint_predictor.kps_score_lowres"
    known = COCO_PERSON.names
    order = tuple(map(known.index, points)) if sorted(points) == sorted(known) else None
    return {
        **names,
        "keypoint_head.up_weight": Source((f"{theirs}.weight",), CONV_AXES, columns=order),
        "keypoint_head.up_bias": Source((f"{theirs}.bias",), rows=order),
    }
