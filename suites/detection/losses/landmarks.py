"""Landmarks, such as the five points of a face, as offsets from anchors; and their loss.

Letters: N batch, P anchors, L landmarks an object.
"""

from __future__ import annotations

from framework import ops
from framework.autograd.tape import no_grad
from framework.tensors import Tensor
from suites.detection.losses.boxes import smooth_l1

_WEIGHT = 10.0  # of the code, as that of a box's centre in SSD


def landmarks_of(codes: Tensor, anchors: Tensor) -> Tensor:
    """Points [N, P, L, 2] from codes of that shape: anchor centre + code / 10 times its sides; anchors [P, 4]."""
    centres, sides = _centres_and_sides(anchors)
    return codes * (sides * (1 / _WEIGHT)) + centres


def landmark_loss(codes: Tensor, anchors: Tensor, landmarks: Tensor, weight: Tensor) -> Tensor:
    """The sum of smooth L1 (beta 1) over visible landmarks of positive anchors.

    Args:
        codes: [N, P, L, 2], predicted.
        anchors: [P, 4].
        landmarks: [N, P, L, 3], (x, y, visible) of the object that each anchor stands for.
        weight: float32 [N, P], 0 for anchors that stand for none.
    """
    with no_grad():
        points, visible = ops.split(landmarks, axis=3, sizes=(2, 1))
        centres, sides = _centres_and_sides(anchors)
        is_visible = visible > 0.0
        each = ops.expand_dims(ops.expand_dims(weight, axis=2), axis=3)  # [N, P, 1, 1]
        counted = ops.where(is_visible, each, ops.full_like(each, value=0.0))
        # what is not visible may lie anywhere, even at no number
        gt_codes = ops.where(is_visible, (points - centres) / sides * _WEIGHT, codes.detach())
    return ops.sum(smooth_l1(codes, gt_codes) * counted)


def _centres_and_sides(anchors: Tensor) -> tuple[Tensor, Tensor]:
    """[P, 1, 2] each."""
    low, high = ops.split(ops.expand_dims(anchors, axis=1), axis=2, sizes=(2, 2))
    return (low + high) * 0.5, high - low
