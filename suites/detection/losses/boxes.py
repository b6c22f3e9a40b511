"""Losses between boxes: smooth L1 on their codes; IoU, GIoU, DIoU and CIoU on their corners.

Letters: ... any leading axes. Boxes are [x1, y1, x2, y2]. All are made of operators, finite with finite gradients for
boxes without area too, so that padded rows may be weighed with 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor

BoxLoss = Literal["smooth_l1", "iou", "giou", "diou", "ciou"]
_EPS = 1e-7  # of areas, in square pixels


def smooth_l1(x: Tensor, target: Tensor, beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |x - target| is below beta, d - beta / 2 from there on (Girshick 2015; beta 0 is L1).

    Args:
        x, target: one shape.
        beta: where the square ends.
    """
    if beta < 0:
        raise AttributeValueError(f"smooth_l1: beta is {beta}; it must be 0 or more")
    distance = ops.abs(x - target)
    if beta == 0:
        return distance
    near = ops.clip(distance, min=0.0, max=beta)
    return near * near * (0.5 / beta) + (distance - near)


def iou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """1 - IoU of boxes [..., 4] and targets [..., 4]: [...]."""
    return 1.0 - _overlap(boxes, targets)[0]


def giou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """1 - IoU + the share of the hull that neither box covers (Rezatofighi et al. 2019): [...]."""
    iou, union = _overlap(boxes, targets)
    width, height = _hull(boxes, targets)
    hull = width * height
    return 1.0 - iou + (hull - union) / (hull + _EPS)


def diou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """1 - IoU + (distance of centres / diagonal of the hull)^2 (Zheng et al. 2020): [...]."""
    return 1.0 - _overlap(boxes, targets)[0] + _distance(boxes, targets)


def ciou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """DIoU's plus alpha * v (Zheng et al. 2020): [...].

    v = 4 / pi^2 (atan(w'/h') - atan(w/h))^2 compares the shapes; alpha = v / (1 - IoU + v) counts as a constant in the
    gradient, as the authors say.
    """
    iou = _overlap(boxes, targets)[0]
    turn = _angle(targets) - _angle(boxes)
    v = turn * turn * (4 / math.pi**2)
    with no_grad():
        fixed = v.detach()
        alpha = fixed / (1.0 - iou.detach() + fixed + _EPS)
    return 1.0 - iou + _distance(boxes, targets) + alpha * v


BOX_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "iou": iou_loss,
    "giou": giou_loss,
    "diou": diou_loss,
    "ciou": ciou_loss,
}


def box_loss(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss on corners called iou, giou, diou or ciou."""
    if name not in BOX_LOSSES:
        raise AttributeValueError(f"box loss '{name}' is not known; it is one of {', '.join(BOX_LOSSES)}")
    return BOX_LOSSES[name]


def _corners(boxes: Tensor) -> tuple[Tensor, ...]:
    """x1, y1, x2, y2 of boxes [..., 4], each [...]."""
    last = boxes.ndim - 1
    return tuple(ops.squeeze(side, axis=last) for side in ops.split(boxes, axis=last, sizes=(1, 1, 1, 1)))


def _positive(x: Tensor) -> Tensor:
    return ops.maximum(x, 0.0)


def _overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and union of boxes."""
    ax1, ay1, ax2, ay2 = _corners(a)
    bx1, by1, bx2, by2 = _corners(b)
    width = _positive(ops.minimum(ax2, bx2) - ops.maximum(ax1, bx1))
    height = _positive(ops.minimum(ay2, by2) - ops.maximum(ay1, by1))
    inner = width * height
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - inner
    return inner / (union + _EPS), union


def _hull(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of the smallest box around both."""
    ax1, ay1, ax2, ay2 = _corners(a)
    bx1, by1, bx2, by2 = _corners(b)
    return ops.maximum(ax2, bx2) - ops.minimum(ax1, bx1), ops.maximum(ay2, by2) - ops.minimum(ay1, by1)


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Squared distance of the centres as a share of the hull's squared diagonal."""
    ax1, ay1, ax2, ay2 = _corners(a)
    bx1, by1, bx2, by2 = _corners(b)
    dx, dy = (ax1 + ax2 - bx1 - bx2) * 0.5, (ay1 + ay2 - by1 - by2) * 0.5
    width, height = _hull(a, b)
    return (dx * dx + dy * dy) / (width * width + height * height + _EPS)


def _angle(boxes: Tensor) -> Tensor:
    """atan(w / h)."""
    x1, y1, x2, y2 = _corners(boxes)
    return ops.atan((x2 - x1) / (y2 - y1 + _EPS))
