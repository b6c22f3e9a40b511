"""Landmarks, such as the five points of a face, as offsets from anchors; and their losses.

Letters: N batch, P anchors, M boxes an image, L landmarks an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.losses.boxes import smooth_l1
from suites.engine.registry import register
from suites.vision.pose import sigmas_of

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


@register("loss")
@dataclass(frozen=True)
class PointsLoss:
    """What a detector's points of an object cost: three terms.

    `loss_oks`: 1 - OKS of the visible points, with the area of the object's box (YOLO-Pose, Maji et al. 2022,
    arXiv:2204.06806, section 3.4). It tells nothing apart where points are far off, so `loss_offset` leads there:
    smooth L1 of the offset in sides of the anchor. `loss_seen`: binary cross entropy of whether a point is labelled.

    Args:
        oks: factor of the first term.
        offset: factor of the second term.
        seen: factor of the third term.
        sigmas: of OKS, see `CocoEvaluator`; empty for those that fit the number of points.
    """

    oks: float = 2.0
    offset: float = 5.0
    seen: float = 0.5
    sigmas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if min(self.oks, self.offset, self.seen) < 0 or self.oks + self.offset <= 0 or min(self.sigmas, default=1) <= 0:
            raise AttributeValueError(
                f"PointsLoss: oks is {self.oks}, offset {self.offset}, seen {self.seen}, sigmas {list(self.sigmas)}; "
                "factors are 0 or more, one of the first two above 0, sigmas positive"
            )

    def of(self, count: int) -> Sequence[float]:
        """The sigmas of L points; AttributeValueError where there are others than these."""
        if len(self.sigmas or range(count)) != count:
            raise AttributeValueError(f"PointsLoss: {len(self.sigmas)} sigmas for {count} points")
        return self.sigmas or sigmas_of(count)

    def __call__(
        self, codes: Tensor, logits: Tensor, points: Tensor, scale: Tensor, sides: Tensor, truth: Tensor
    ) -> dict[str, Tensor]:
        """The terms by name, of each object, [N, M].

        Args:
            codes: [N, M, L, 2], offsets in `scale`.
            logits: [N, M, L], of whether each point is labelled.
            points: [N, M, L, 2], what the codes stand for, in pixels.
            scale: [N, M, 2], the anchor's width and height in pixels.
            sides: [N, M, 2], those of the object's box.
            truth: [N, M, L, 3], (x, y, visible).
        """
        reach = tensor([2.0 * sigma for sigma in self.of(int(truth.shape[2]))], "float32")  # k of each point
        with no_grad():
            places, visible = ops.split(truth, axis=3, sizes=(2, 1))
            there = visible > 0.0
            places = ops.where(
                there, places, points.detach()
            )  # what is not visible may lie anywhere, even at no number
            counted = ops.cast(ops.squeeze(there, axis=3), dtype="float32")  # [N, M, L]
            number = ops.maximum(ops.sum(counted, axes=(2,)), 1.0)
            area = ops.maximum(ops.prod(sides, axes=(2,), keepdims=True), 1.0)  # [N, M, 1]
            unit = ops.expand_dims(scale, axis=2)
            wanted = codes.detach() + (places - points.detach()) / unit
        apart = ops.sum(ops.square(points - places), axes=(3,)) / (area * ops.square(reach) * 2.0)
        far = ops.sum(smooth_l1(codes, wanted), axes=(3,))
        terms = {
            "loss_oks": ops.sum((1.0 - ops.exp(-apart)) * counted, axes=(2,)) / number * self.oks,
            "loss_offset": ops.sum(far * counted, axes=(2,)) / number * self.offset,
            "loss_seen": ops.mean(ops.sigmoid_cross_entropy(logits, counted), axes=(2,)) * self.seen,
        }
        weights = {"loss_oks": self.oks, "loss_offset": self.offset, "loss_seen": self.seen}
        return {name: term for name, term in terms.items() if weights[name]}
