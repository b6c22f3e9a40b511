"""Gradients of framework/native/ops/boxes.cc."""

from typing import Any

from framework.autograd.rule_table import first_order_only, flat, joint_rule, no_gradient, rule
from framework.ops import internal
from framework.ops.internal import sum_to


def _box_decode(dboxes: Any, deltas: Any, anchors: Any, weights: Any, max_log_scale: Any) -> Any:
    ddeltas, danchors = internal.box_decode_grad(dboxes, deltas, anchors, weights, max_log_scale)
    return sum_to(ddeltas, deltas), sum_to(danchors, anchors)


no_gradient("it makes training targets, which are held fixed", "box_encode")
joint_rule("box_decode", "deltas anchors", _box_decode)
first_order_only("losses on boxes need one order", "box_decode_grad")
rule("clip_boxes", boxes=lambda dclipped, boxes, sizes: internal.clip_boxes_grad(dclipped, boxes, sizes))
rule("clip_boxes_grad", dy=lambda ddboxes, boxes, sizes: internal.clip_boxes_grad(ddboxes, boxes, sizes))
flat("clip_boxes_grad", boxes="it only says which coordinates were moved")
no_gradient("it depends on the map's shape only", "anchor_grid")
