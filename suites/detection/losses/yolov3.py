"""The YOLOv3 loss with PaddlePaddle's target assignment, made of operators and traced into the training Program.

Letters: N batch, M boxes an image (padded), A anchors a cell, P = H * W * A predictions of a level, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from framework import ops, tensor
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.grid import Grid, Level, box_of, decode_boxes, make_grid, place_in_cell, points_of
from suites.detection.losses.boxes import box_loss, iou_loss
from suites.detection.losses.landmarks import PointsLoss
from suites.detection.models.base import Targets
from suites.engine.registry import register


@dataclass(frozen=True)
class _Matches:
    """What the boxes want of one level: [N, M] each unless said otherwise.

    `index` int64 is the wanted prediction's number in [N * P]; `weight` is the box's score, 0 where the box belongs to
    another level, is padding, or a later box wants the same prediction; `xy` and `wh`, [N, M, 2], are what the
    prediction should be; `small` is 2 - w * h of the box as a share of the image; `cell` and `anchor`, [N, M, 2], are
    the wanted prediction's column and row, and width and height of its anchor in pixels.
    """

    index: Tensor
    weight: Tensor
    xy: Tensor
    wh: Tensor
    small: Tensor
    cell: Tensor
    anchor: Tensor


@dataclass(frozen=True)
class IoUTerm:
    """A further term of positives: weight * (1 - IoU^2), or GIoU's, DIoU's or CIoU's loss, of the decoded boxes.

    Args:
        kind: "iou_squared" (PaddleDetection's), "iou", "giou", "diou" or "ciou".
        weight: factor of the term.
    """

    kind: Literal["iou_squared", "iou", "giou", "diou", "ciou"] = "iou_squared"
    weight: float = 2.5

    def __post_init__(self) -> None:
        if self.kind != "iou_squared":
            box_loss(self.kind)
        if self.weight < 0:
            raise AttributeValueError(f"IoUTerm: weight is {self.weight}; it must be 0 or more")

    def __call__(self, boxes: Tensor, gt_boxes: Tensor) -> Tensor:
        """The loss [N, M] of boxes [N, M, 4]."""
        if self.kind != "iou_squared":
            return box_loss(self.kind)(boxes, gt_boxes) * self.weight
        iou = 1.0 - iou_loss(boxes, gt_boxes)
        return (1.0 - iou * iou) * self.weight


@dataclass(frozen=True)
class OutputForm:
    """What a head's numbers of one anchor mean: tx, ty, tw, th, object, overlap where it is `iou_aware`, K classes.

    Attributes:
        classes: K.
        iou_aware: whether the overlap of box and object is predicted too.
    """

    classes: int
    iou_aware: bool = False

    @property
    def width(self) -> int:
        """Numbers of an anchor."""
        return 5 + self.iou_aware + self.classes

    def split(self, raw: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
        """xy [..., 2], wh [..., 2], object [..., 1], overlap [..., 1] or None, classes [..., K] of raw [..., width]."""
        if self.iou_aware:
            xy, wh, objectness, iou, logits = ops.split(raw, axis=raw.ndim - 1, sizes=(2, 2, 1, 1, self.classes))
            return xy, wh, objectness, iou, logits
        xy, wh, objectness, logits = ops.split(raw, axis=raw.ndim - 1, sizes=(2, 2, 1, self.classes))
        return xy, wh, objectness, None, logits


@register("loss")
class YOLOv3Loss:
    """Each box trains one prediction: that of the best-shaped anchor in the cell that holds its centre.

    Shape fit is the IoU of box and anchor with one centre, over the anchors of all levels. Where two boxes want the
    same prediction, the later one has it. A prediction nobody wants should have no object, unless its box overlaps
    some ground truth by more than `ignore_iou`. Terms: binary cross entropy for the centre's place in its cell (L1 of a
    head with a `scale_xy`), L1 for the size's logarithm, both times 2 - w * h (shares of the image); binary cross
    entropy for object and classes. Sums over predictions, mean over images (PaddleDetection's `YOLOv3Loss`; Redmon and
    Farhadi 2018). A head that is `iou_aware` learns the overlap of each positive's box by binary cross entropy.

    Args:
        ignore_iou: overlap above which a wrong prediction is not punished for seeing an object.
        label_smooth: class targets are 1 - d and d, d = min(1/K, 1/40), in place of 1 and 0.
        iou: a further term, of the overlap of boxes, times 2 - w * h.
    """

    def __init__(self, ignore_iou: float = 0.7, label_smooth: bool = True, iou: IoUTerm | None = None) -> None:
        if not 0 <= ignore_iou <= 1:
            raise AttributeValueError(f"YOLOv3Loss: ignore_iou is {ignore_iou}; it must lie in [0, 1]")
        self.ignore_iou, self.label_smooth, self.iou = ignore_iou, label_smooth, iou

    def __call__(
        self,
        outputs: Sequence[Tensor],
        levels: Sequence[Level],
        targets: Targets,
        form: OutputForm | int,
        marks: Sequence[Tensor] = (),
        points: PointsLoss | None = None,
    ) -> dict[str, Tensor]:
        """The terms by name, each a scalar.

        Args:
            outputs: of each level, raw [N, H, W, A * width], for each anchor what `form` says.
            levels: stride and anchors of each.
            targets: the ground truth.
            form: what the numbers mean; K alone for (tx, ty, tw, th, object, classes).
            marks: of each level [N, H, W, A * 3 L], for each anchor the codes of L points, then whether each is seen.
            points: what these cost, where there are some.
        """
        form = OutputForm(form) if isinstance(form, int) else form
        with no_grad():
            best = _best_anchors(targets.boxes, np.concatenate([level.anchors for level in levels]))
        points_of_levels: Sequence[Tensor | None] = marks or [None] * len(levels)
        pairs = zip(outputs, levels, points_of_levels, strict=True)
        parts = [self._level(o, v, targets, best, form, m, points) for o, v, m in pairs]
        return {name: _total([part[name] for part in parts]) for name in parts[0]}

    def _level(
        self,
        output: Tensor,
        level: Level,
        targets: Targets,
        best: Tensor,
        form: OutputForm,
        marks: Tensor | None,
        points: PointsLoss | None,
    ) -> dict[str, Tensor]:
        """The terms of one level."""
        raw = ops.reshape(output, shape=(0, -1, form.width))  # [N, P, width]
        grid = make_grid(level, output)
        with no_grad():
            match = _match(level, grid, targets, best)
            smooth = min(1 / form.classes, 1 / 40) if self.label_smooth else 0.0
            gt_classes = ops.one_hot(targets.classes, depth=form.classes, dtype="float32")
            gt_classes = gt_classes * (1 - 2 * smooth) + smooth
            background = self._background(raw.detach(), level, grid, match, targets)
        rows = ops.gather(ops.reshape(raw, shape=(-1, form.width)), match.index)  # [N, M, width]
        xy, wh, objectness, pred_iou, pred_logits = form.split(rows)
        sized = match.weight * match.small
        size_weight = ops.expand_dims(sized, axis=-1)
        weight = ops.expand_dims(match.weight, axis=-1)
        all_objectness = raw[:, :, 4:5]  # [N, P, 1]
        positive_loss = ops.sum(ops.softplus(-objectness) * weight, axes=(1, 2))  # cross entropy of "object", [N]
        negative_loss = ops.sum(ops.softplus(all_objectness) * background, axes=(1, 2))  # of "nothing", [N]
        if level.scale_xy == 1.0:
            xy_loss = ops.sigmoid_cross_entropy(xy, match.xy)
        else:
            xy_loss = ops.abs(place_in_cell(xy, level.scale_xy) - match.xy)
        terms = {
            "loss_xy": _mean_of_images(xy_loss * size_weight),
            "loss_wh": _mean_of_images(ops.abs(wh - match.wh) * size_weight),
            "loss_obj": ops.mean(positive_loss + negative_loss),
            "loss_cls": _mean_of_images(ops.sigmoid_cross_entropy(pred_logits, gt_classes) * weight),
        }
        if self.iou is not None or pred_iou is not None:
            boxes = box_of(xy, wh, match.cell, match.anchor, level)  # [N, M, 4]
        if self.iou is not None:
            terms["loss_iou"] = ops.mean(ops.sum(self.iou(boxes, targets.boxes) * sized, axes=(1,)))
        if pred_iou is not None:
            with no_grad():
                gt_iou = ops.clip(1.0 - iou_loss(boxes.detach(), targets.boxes), min=0.0, max=1.0)
            aware = ops.sigmoid_cross_entropy(pred_iou, ops.expand_dims(gt_iou, axis=-1)) * weight
            terms["loss_iou_aware"] = _mean_of_images(aware)
        if marks is not None and points is not None:
            each = _points(marks, level, match, targets, points)
            terms |= {name: ops.mean(ops.sum(term * match.weight, axes=(1,))) for name, term in each.items()}
        return terms

    def _background(self, raw: Tensor, level: Level, grid: Grid, match: _Matches, targets: Targets) -> Tensor:
        """1 where a prediction should see nothing, 0 where it is positive or ignored: [N, P, 1]."""
        overlap = ops.max_iou(decode_boxes(raw, grid, level), targets.boxes)  # [N, P]
        below = ops.cast(overlap <= self.ignore_iou, dtype="float32")
        positive = ops.cast(match.weight > 0.0, dtype="float32")
        flat = ops.full_like(ops.reshape(below, shape=(-1,)), value=0.0)
        matched = ops.scatter_add(flat, ops.reshape(match.index, shape=(-1,)), ops.reshape(positive, shape=(-1,)))
        unmatched = ops.cast(ops.reshape_like(matched, below) <= 0.0, dtype="float32")
        return ops.expand_dims(below * unmatched, axis=-1)


def _points(marks: Tensor, level: Level, match: _Matches, targets: Targets, loss: PointsLoss) -> dict[str, Tensor]:
    """What the points of each box cost, [N, M], where a level predicts them."""
    if targets.landmarks is None:
        raise AttributeValueError("YOLOv3Loss: learns from points, but the targets have none")
    count = int(targets.landmarks.shape[2])
    rows = ops.gather(ops.reshape(marks, shape=(-1, 3 * count)), match.index)  # [N, M, 3 L]
    codes, logits = ops.split(rows, axis=2, sizes=(2 * count, count))
    codes = ops.reshape(codes, shape=(0, 0, count, 2))
    points = points_of(codes, match.cell, match.anchor, level)
    return loss(codes, logits, points, match.anchor, _size(targets.boxes), targets.landmarks)


def _best_anchors(boxes: Tensor, anchors: np.ndarray) -> Tensor:
    """Number of the anchor with the most similar shape for each box [N, M, 4]: int64 [N, M]."""
    size = _size(boxes)  # [N, M, 2]
    shared = ops.minimum(ops.expand_dims(size, axis=2), tensor(anchors))  # [N, M, A, 2]
    inner = ops.prod(shared, axes=(3,))
    union = ops.prod(size, axes=(2,), keepdims=True) + tensor(anchors.prod(axis=1)) - inner
    return ops.argmax(inner / union, axis=2)


def _match(level: Level, grid: Grid, targets: Targets, best: Tensor) -> _Matches:
    """Where in this level each box finds the prediction it trains."""
    count = len(level.anchors)
    size = _size(targets.boxes)
    centre = (_corner(targets.boxes, 0) + _corner(targets.boxes, 2)) * (0.5 / level.stride)  # in cells
    limit = ops.cast(ops.stack([grid.columns, grid.rows]), dtype="float32")  # [2]
    cell = ops.clip(ops.minimum(ops.floor(centre), limit - 1.0), min=0.0, max=float("inf"))
    column, row = ops.split(ops.cast(cell, dtype="int64"), axis=2, sizes=(1, 1))
    anchor = best - level.first
    mine = (anchor >= 0) & (anchor < count) & ops.all(size > 0.0, axes=(2,)) & (targets.scores > 0.0)
    place = ops.squeeze(row * grid.columns + column, axis=2) * count + ops.clip(anchor, min=0, max=count - 1)
    index = place + grid.first
    mine = mine & ~_taken_later(index, mine)
    own = ops.gather(tensor(level.anchors), ops.clip(anchor, min=0, max=count - 1))  # [N, M, 2]
    share = ops.prod(size / (limit * float(level.stride)), axes=(2,))
    return _Matches(
        index=index,
        weight=targets.scores * ops.cast(mine, dtype="float32"),
        xy=centre - cell,
        wh=ops.log(ops.maximum(size, 1e-6) / own),
        small=2.0 - share,
        cell=cell,
        anchor=own,
    )


def _taken_later(index: Tensor, mine: Tensor) -> Tensor:
    """True where a later box of the same image wants the same prediction: bool [N, M]."""
    same = ops.equal(ops.expand_dims(index, axis=2), ops.expand_dims(index, axis=1))  # [N, M, M]
    place = ops.positions(mine, axis=1)  # [M]
    later = ops.expand_dims(place, axis=0) > ops.expand_dims(place, axis=1)  # [M, M]
    return ops.any(same & later & ops.expand_dims(mine, axis=1), axes=(2,))


def _corner(boxes: Tensor, start: int) -> Tensor:
    return boxes[:, :, start : start + 2]


def _size(boxes: Tensor) -> Tensor:
    """Width and height [N, M, 2] of boxes [N, M, 4]."""
    return _corner(boxes, 2) - _corner(boxes, 0)


def _mean_of_images(x: Tensor) -> Tensor:
    """Sum over boxes and values, mean over images: [N, M, any] to []."""
    return ops.mean(ops.sum(x, axes=(1, 2)))


def _total(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
