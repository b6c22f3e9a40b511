"""What Detectron2 calls the tensors of detectors, and how it orders their rows.

Its classes end with the background where ours begin with it. Boxes and masks have no row of background. RetinaNet's
cell boxes are ordered by size, then ratio; ours are the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

from suites.detection.models.base import Neck
from suites.detection.models.fpn import FPN
from suites.detection.models.torchvision_names import convs, placed
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import CONV_AXES, linear

SCHEME = "detectron2"
_UNUSED = (r"^pixel_(mean|std)$", r"anchor_generator\.cell_anchors")  # constants that are arguments here


def backbone_names(backbone: Backbone, neck: Neck) -> Names:
    """Of a backbone with an FPN behind it; a level is called by the power of two that its stride is."""
    found = placed(backbone.names_in(SCHEME), "backbone.", "backbone.bottom_up.") | Names({}, _UNUSED)
    if not isinstance(neck, FPN):
        return found
    levels = [stride.bit_length() - 1 for stride in neck.strides]
    pairs: dict[str, str] = {}
    for i in range(len(neck.inner_blocks)):
        pairs[f"neck.inner_blocks.{i}"] = f"backbone.fpn_lateral{levels[i]}"
        pairs[f"neck.layer_blocks.{i}"] = f"backbone.fpn_output{levels[i]}"
    for i in range(len(neck.extra_blocks)):
        pairs[f"neck.extra_blocks.{i}"] = f"backbone.top_block.p{levels[len(neck.inner_blocks) + i]}"
    return found | Names(convs(pairs))


def rpn() -> Names:
    """Of the region proposals."""
    theirs = "proposal_generator.rpn_head"
    pairs = {"rpn.conv": "conv", "rpn.logits": "objectness_logits", "rpn.deltas": "anchor_deltas"}
    return Names(convs({ours: f"{theirs}.{name}" for ours, name in pairs.items()}))


def box_predictor(ours: str, stage: str, channels: int, size: int, num_classes: int) -> Names:
    """Of two layers and what they predict of regions [C, S, S]; `stage` is "" or, of a cascade, ".0", ".1" ..."""
    head, predictor = f"roi_heads.box_head{stage}", f"roi_heads.box_predictor{stage}"
    background_first = (num_classes, *range(num_classes))
    return Names(
        {
            f"{ours}.fc1.weight": Source((f"{head}.fc1.weight",), CONV_AXES, view=(-1, channels, size, size)),
            f"{ours}.fc1.bias": Source((f"{head}.fc1.bias",)),
            **linear(f"{ours}.fc2", f"{head}.fc2"),
            f"{ours}.classes.weight": Source((f"{predictor}.cls_score.weight",), rows=background_first),
            f"{ours}.classes.bias": Source((f"{predictor}.cls_score.bias",), rows=background_first),
            **linear(f"{ours}.deltas", f"{predictor}.bbox_pred"),
        }
    )


def mask_head(count: int, width: int) -> Names:
    """Of the shapes: `count` convolutions, one that doubles the size, one of a channel a class."""
    theirs = "roi_heads.mask_head"
    sources = convs({f"mask_head.convs.{i}": f"{theirs}.mask_fcn{i + 1}" for i in range(count)})
    sources |= {
        "mask_head.up_weight": Source((f"{theirs}.deconv.weight",), (0, 2, 3, 1)),
        "mask_head.up_bias": Source((f"{theirs}.deconv.bias",)),
        "mask_head.out_weight": Source((f"{theirs}.predictor.weight",), (0, 1), view=(-1, width)),
        "mask_head.out_bias": Source((f"{theirs}.predictor.bias",)),
    }
    return Names(sources)


def retinanet_head(depth: int, octaves: int, ratios: int, num_classes: int) -> Names:
    """Of towers of `depth` convolutions, and of predictions for `octaves` sizes and `ratios` forms of anchors."""
    pairs: dict[str, str] = {}
    for ours, theirs in (("cls_convs", "cls_subnet"), ("box_convs", "bbox_subnet")):
        pairs |= {f"head.{ours}.{i}": f"head.{theirs}.{2 * i}" for i in range(depth)}
    return Names(
        {
            **convs(pairs),
            **size_first("head.cls_out", "head.cls_score", octaves, ratios, num_classes),
            **size_first("head.box_out", "head.bbox_pred", octaves, ratios, 4),
        }
    )


def size_first(ours: str, theirs: str, octaves: int, ratios: int, each: int) -> dict[str, Source]:
    """A convolution with `each` channels a cell box, where theirs are ordered by size, then ratio."""
    cells = [size * ratios + ratio for ratio in range(ratios) for size in range(octaves)]  # theirs in our order
    return rows_of_conv(ours, theirs, [cell * each + i for cell in cells for i in range(each)])


def rows_of_conv(ours: str, theirs: str, rows: Sequence[int]) -> dict[str, Source]:
    """A convolution whose channel i is their channel rows[i]."""
    return {
        f"{ours}.weight": Source((f"{theirs}.weight",), CONV_AXES, rows=tuple(rows)),
        f"{ours}.bias": Source((f"{theirs}.bias",), rows=tuple(rows)),
    }
