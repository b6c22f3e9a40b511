"""Operators of framework/native/ops/detection.cc have no gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient("it chooses boxes, which is not differentiable", "nms", "multiclass_nms")
no_gradient("it serves to match and to suppress; write a loss on boxes with differentiable operators", "box_iou")
