"""Losses of heads that predict a class and an offset for every anchor: RetinaNet's and SSD's.

Letters: N batch, P anchors of all levels, P_l of one level, M boxes an image, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.losses.boxes import BOX_LOSSES, BoxLoss, box_loss, smooth_l1
from suites.detection.losses.focal import check_focal, sparse_focal_loss
from suites.detection.losses.landmarks import landmark_loss
from suites.detection.matching import Matcher, Matches, rows_of
from suites.detection.models.base import Targets
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.vision.mining import hardest, negatives_for

Weights = tuple[float, float, float, float]


@dataclass(frozen=True)
class BoxTerm:
    """The loss of positive anchors' boxes.

    Args:
        kind: "smooth_l1" of codes; "iou", "giou", "diou" or "ciou" of decoded boxes.
        beta: of smooth L1.
        weight: factor of the term.
    """

    kind: BoxLoss = "smooth_l1"
    beta: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.kind != "smooth_l1":
            box_loss(self.kind)
        if self.beta < 0 or self.weight < 0:
            raise AttributeValueError(f"BoxTerm: beta is {self.beta} and weight {self.weight}; both must be 0 or more")

    def __call__(self, deltas: Tensor, anchors: Tensor, gt_boxes: Tensor, weight: Tensor, code: Weights) -> Tensor:
        """The sum over anchors.

        Args:
            deltas: [N, P, 4], predicted codes; here and below the N may be left out.
            anchors: [P, 4].
            gt_boxes: [N, P, 4], the box that each anchor stands for; anything where `weight` is 0.
            weight: float32 [N, P], 0 for anchors that stand for none.
            code: weights of the box code.
        """
        if self.kind == "smooth_l1":
            with no_grad():
                gt_codes = ops.box_encode(gt_boxes, anchors, weights=code)
            loss = ops.sum(smooth_l1(deltas, gt_codes, self.beta), axes=(-1,))
        else:
            loss = BOX_LOSSES[self.kind](ops.box_decode(deltas, anchors, weights=code), gt_boxes)
        return ops.sum(loss * weight) * self.weight


@dataclass(frozen=True)
class _Assigned:
    """What anchors are trained to say.

    `classes` int64 [N, P]; `gt_boxes` [N, P, 4]; `weight` float32 [N, P] is the truth's score where the anchor is
    positive, else 0; `count` is the number of positives of the batch, at least 1.
    """

    matches: Matches
    classes: Tensor
    gt_boxes: Tensor
    weight: Tensor
    count: Tensor


def _assign(matcher: Matcher, anchors: Tensor, targets: Targets) -> _Assigned:
    with no_grad():
        matches = matcher(anchors, targets)
        positive = ops.cast(matches.positive, "float32")
        return _Assigned(
            matches=matches,
            classes=rows_of(targets.classes, matches.index),
            gt_boxes=rows_of(targets.boxes, matches.index),
            weight=rows_of(targets.scores, matches.index) * positive,
            count=ops.maximum(ops.sum(positive), 1.0),
        )


@register("loss")
@dataclass(frozen=True)
class RetinaNetLoss:
    """Focal loss of every anchor and class, box loss of positives, both divided by the positives of the batch.

    (Lin et al. 2017, arXiv:1708.02002, sections 4 and 5.1.)

    Args:
        alpha, gamma: of the focal loss.
        box: the loss of boxes.
        matcher: which anchors are positive.
    """

    alpha: float = 0.25
    gamma: float = 2.0
    box: BoxTerm = field(default_factory=lambda: BoxTerm(beta=0.11))
    matcher: Matcher = field(default_factory=Matcher)

    def __post_init__(self) -> None:
        check_focal("RetinaNetLoss", self.alpha, self.gamma)

    def __call__(
        self, logits: Sequence[Tensor], deltas: Sequence[Tensor], anchors: Sequence[Tensor], targets: Targets
    ) -> dict[str, Loss]:
        """`loss_cls` and `loss_box`, means over positive anchors.

        Args:
            logits: [N, P_l, K] of each level.
            deltas: [N, P_l, 4] of each level.
            anchors: [P_l, 4] of each level.
            targets: the ground truth.
        """
        all_anchors = ops.concat(list(anchors), axis=0)
        assigned = _assign(self.matcher, all_anchors, targets)
        with no_grad():
            counted = ops.cast(assigned.matches.positive | assigned.matches.negative, "float32")
            levels = [x.detach()[:, :, 0] for x in deltas]
            parts = [ops.split_like(x, levels, axis=1) for x in (assigned.classes, assigned.weight, counted)]
        classes = [
            sparse_focal_loss(x, gt_classes, weight, counts, self.alpha, self.gamma)
            for x, gt_classes, weight, counts in zip(logits, *parts, strict=True)
        ]
        boxes = self.box(
            ops.concat(list(deltas), axis=1), all_anchors, assigned.gt_boxes, assigned.weight, (1, 1, 1, 1)
        )
        return {
            "loss_cls": Loss(_total(classes) / assigned.count, assigned.count),
            "loss_box": Loss(boxes / assigned.count, assigned.count),
        }


@register("loss")
@dataclass(frozen=True)
class SSDLoss:
    """Cross entropy of positives and of the hardest background, smooth L1 of boxes, by the positives of the batch.

    (Liu et al. 2016, arXiv:1512.02325, section 2.2.)

    Args:
        overlap: least IoU of a positive; each truth has its best prior in any case.
        negatives: background priors trained for each positive of an image, those of the highest loss.
        least_negatives: background priors trained at least, of images without objects too; 0 in the paper.
        box: the loss of boxes.
        landmark_weight: factor of the landmarks' term, of a head that has some.
    """

    overlap: float = 0.5
    negatives: float = 3.0
    least_negatives: float = 0.0
    box: BoxTerm = field(default_factory=BoxTerm)
    landmark_weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.overlap <= 1 or self.negatives < 0 or self.least_negatives < 0:
            raise AttributeValueError(
                f"SSDLoss: overlap is {self.overlap}, negatives {self.negatives}, least_negatives "
                f"{self.least_negatives}; overlap must lie in [0, 1], the others be 0 or more"
            )

    def __call__(
        self,
        logits: Tensor,
        deltas: Tensor,
        anchors: Tensor,
        targets: Targets,
        code: Weights,
        landmarks: Tensor | None = None,
    ) -> dict[str, Loss]:
        """`loss_cls`, `loss_box` and perhaps `loss_landmarks`, sums over priors divided by the number of positives.

        Args:
            logits: [N, P, 1 + K]; class 0 is background.
            deltas: [N, P, 4].
            anchors: [P, 4].
            targets: the ground truth.
            code: weights of the box code.
            landmarks: [N, P, L, 2], codes of landmarks, if there are any.
        """
        assigned = _assign(Matcher(self.overlap, self.overlap, "truth"), anchors, targets)
        matches = assigned.matches
        with no_grad():
            labels = ops.where(matches.positive, assigned.classes + 1, ops.full_like(assigned.classes, value=0))
            count = negatives_for(matches.positive, self.negatives, self.least_negatives)
        entropy = ops.cross_entropy(logits, labels)  # [N, P]
        mined = ops.sum(hardest(entropy, matches.negative, count))
        classes = ops.sum(entropy * assigned.weight) + mined
        boxes = self.box(deltas, anchors, assigned.gt_boxes, assigned.weight, code)
        sums = {"loss_cls": classes, "loss_box": boxes}
        if landmarks is not None and targets.landmarks is not None:
            with no_grad():
                points = rows_of(ops.flatten(targets.landmarks, start=2, end=3), matches.index)  # [N, P, 3 L]
                points = ops.reshape(points, shape=(0, 0, -1, 3))
            sums["loss_landmarks"] = landmark_loss(landmarks, anchors, points, assigned.weight) * self.landmark_weight
        return {name: Loss(total / assigned.count, assigned.count) for name, total in sums.items()}


def _total(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
