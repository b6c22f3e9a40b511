"""RPN: where objects may be, whatever their class (Ren et al. 2015, Faster R-CNN, arXiv:1506.01497).

Letters: N batch, H W a level's grid, A anchors a cell, P_l anchors of a level, P of all, T proposals an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.anchor_boxes import RATIOS, rcnn_anchors
from suites.detection.losses.anchored import BoxTerm
from suites.detection.matching import Matcher, rows_of
from suites.detection.models.base import Targets
from suites.detection.models.rcnn.regions import draw_keys
from suites.engine.contract.losses import Loss
from suites.engine.registry import register, register_role


@dataclass(frozen=True)
class Proposals:
    """Regions that may hold an object, best first.

    Attributes:
        boxes: float32 [N, T, 4], in pixels of the input; rows from `count` on have no area.
        count: int32 [N].
        rows: T.
    """

    boxes: Tensor
    count: Tensor
    rows: int


@dataclass(frozen=True)
class ProposalLimits:
    """How many proposals are made.

    Args:
        before_nms: best anchors of each level that are decoded.
        after_nms: proposals of an image, of all levels together.
    """

    before_nms: int
    after_nms: int

    def __post_init__(self) -> None:
        if self.before_nms < 1 or self.after_nms < 1:
            raise AttributeValueError(
                f"ProposalLimits: before_nms is {self.before_nms} and after_nms {self.after_nms}; "
                "both must be 1 or more"
            )


_MATCHER, _BOX = Matcher(0.7, 0.3), BoxTerm(beta=1 / 9)
_TRAIN, _PREDICT = ProposalLimits(2000, 2000), ProposalLimits(1000, 1000)


class RPN(nn.Layer):
    """A 3x3 convolution with ReLU, then for each anchor a logit and a code of its box; shared by all levels.

    Parameters: `conv`, `logits`, `deltas`; a normal draw of deviation 0.01.

    Args:
        in_channels: of each map; all the same.
        strides: of each map, finest first.
        sizes: side of the square anchor of each level, in pixels.
        ratios: height / width of anchors.
        rounded_anchors: whole pixels, as torchvision's weights expect.
        matcher: which anchors are positive; IoU 0.7 and a truth's best ones by default, background below 0.3.
        samples: anchors of an image that are trained.
        positive_share: of these, how many may be positive.
        box: the loss of boxes; smooth L1 with beta 1/9 by default.
        train: how many proposals are made in training.
        predict: how many proposals are made otherwise.
        nms_iou: overlap with a better proposal of its level that removes one.
        min_side: proposals with a shorter side, in pixels, are left out.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        sizes: tuple[float, ...] = (32, 64, 128, 256, 512),
        ratios: tuple[float, ...] = RATIOS,
        rounded_anchors: bool = False,
        matcher: Matcher = _MATCHER,
        samples: int = 256,
        positive_share: float = 0.5,
        box: BoxTerm = _BOX,
        train: ProposalLimits = _TRAIN,
        predict: ProposalLimits = _PREDICT,
        nms_iou: float = 0.7,
        min_side: float = 1e-3,
    ) -> None:
        super().__init__()
        if len(set(in_channels)) > 1:
            raise AttributeValueError(
                f"RPN: the maps have {list(in_channels)} channels; all levels share its convolutions, so these must be "
                "equal (put an FPN before it)"
            )
        if samples < 1 or not 0 < positive_share <= 1:
            raise AttributeValueError(
                f"RPN: samples is {samples}, positive_share {positive_share}; samples must be 1 or more, "
                "positive_share in (0, 1]"
            )
        self.anchors = rcnn_anchors(strides, sizes, ratios, rounded=rounded_anchors)
        self._matcher = matcher
        self._box = box
        self._samples, self._positive_share = samples, positive_share
        self._train = train
        self._predict = predict
        self._nms_iou, self._min_side = nms_iou, min_side
        width, each = in_channels[0], self.anchors.per_cell[0]
        start = nn.init.Normal(0.01)
        self.conv = nn.Conv2d(width, width, 3, initializer=start)
        self.logits = nn.Conv2d(width, each, 1, initializer=start)
        self.deltas = nn.Conv2d(width, 4 * each, 1, initializer=start)

    def forward(self, maps: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Maps [N, H, W, C]; of each level logits [N, P_l] and codes of boxes [N, P_l, 4]."""
        logits, deltas = [], []
        for x in maps:
            x = ops.relu(self.conv(x))
            logits.append(ops.flatten(self.logits(x), start=1, end=3))
            deltas.append(ops.reshape(self.deltas(x), shape=(0, -1, 4)))
        return logits, deltas

    def losses(self, maps: Sequence[Tensor], targets: Targets, sizes: Tensor) -> tuple[dict[str, Loss], Proposals]:
        """`loss_rpn_cls` and `loss_rpn_box`, means over sampled anchors, and proposals to train the next stage on."""
        logits, deltas = self(maps)
        anchors = self.anchors.grids(maps)
        proposals = self._select(logits, deltas, anchors, sizes, self._train)
        return self._losses(ops.concat(logits, axis=1), ops.concat(deltas, axis=1), anchors, targets), proposals

    def propose(self, maps: Sequence[Tensor], sizes: Tensor) -> Proposals:
        """Where objects may be; `sizes` int64 [N, 2], the true (H, W) of each image."""
        logits, deltas = self(maps)
        return self._select(logits, deltas, self.anchors.grids(maps), sizes, self._predict)

    def _losses(self, logits: Tensor, deltas: Tensor, anchors: Sequence[Tensor], targets: Targets) -> dict[str, Loss]:
        """Of logits [N, P] and codes [N, P, 4]."""
        with no_grad():
            boxes = ops.concat(list(anchors), axis=0)  # [P, 4]
            match = self._matcher.numbers(boxes, targets)
            index, gt_index = ops.sample_matches(
                match, draw_keys(match), count=self._samples, positive_share=self._positive_share
            )
            used = ops.cast(gt_index > -2, "float32")
            positive = ops.cast(gt_index >= 0, "float32")
            gt_boxes = rows_of(targets.boxes, ops.maximum(gt_index, 0))
            chosen = ops.gather(boxes, index)  # [N, S, 4]
            count = ops.maximum(ops.sum(used), 1.0)
        entropy = ops.sigmoid_cross_entropy(rows_of(logits, index), positive)
        distance = self._box(rows_of(deltas, index), chosen, gt_boxes, positive, (1, 1, 1, 1))
        return {
            "loss_rpn_cls": Loss(ops.sum(entropy * used) / count, count),
            "loss_rpn_box": Loss(distance / count, count),
        }

    def _select(
        self,
        logits: Sequence[Tensor],
        deltas: Sequence[Tensor],
        anchors: Sequence[Tensor],
        sizes: Tensor,
        limits: ProposalLimits,
    ) -> Proposals:
        """The best of all levels, after suppression within each."""
        with no_grad():
            levels = [
                ops.select_proposals(
                    logit.detach(),
                    delta.detach(),
                    boxes,
                    sizes,
                    pre_nms=limits.before_nms,
                    post_nms=limits.after_nms,
                    iou_threshold=self._nms_iou,
                    min_side=self._min_side,
                )
                for logit, delta, boxes in zip(logits, deltas, anchors, strict=True)
            ]
            boxes, scores, counts = (list(column) for column in zip(*levels, strict=True))
            total = counts[0]
            for count in counts[1:]:
                total = total + count
            _, order = ops.topk(ops.concat(scores, axis=1), k=limits.after_nms, axis=1)
            chosen = rows_of(ops.concat(boxes, axis=1), order)
            return Proposals(chosen, ops.minimum(total, limits.after_nms), limits.after_nms)


register_role("rpn", RPN, supplied=("in_channels", "strides"), doc="Feature maps to regions that may hold an object.")
register("rpn")(RPN)
