"""The second stage of R-CNN: class and box of each region (Girshick 2015, arXiv:1504.08083).

Letters: N batch, R regions an image, C channels, S side of a resampled region, K classes, D detections an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.losses.anchored import BoxTerm
from suites.detection.models.base import Detections, PostProcess, Targets
from suites.detection.models.rcnn.proposals import Proposals
from suites.detection.models.rcnn.regions import RegionPool, Regions, RegionSampler, area_of
from suites.engine.contract.losses import Loss
from suites.engine.registry import register, register_role

Code = tuple[float, float, float, float]
RCNN_POSTPROCESS = PostProcess(score_threshold=0.05, iou_threshold=0.5)


class RoIHead(nn.Layer):
    """Feature maps and proposals to losses and detections.

    Attributes:
        num_classes: K.
        sampler: which regions are trained.
        postprocess: how detections are chosen.
    """

    num_classes: int
    sampler: RegionSampler
    postprocess: PostProcess

    def losses(
        self, maps: Sequence[Tensor], proposals: Proposals, targets: Targets, sizes: Tensor
    ) -> tuple[dict[str, Loss], Regions]:
        """Loss terms by name, and the regions that they were made of, for a mask head to be trained on."""
        raise NotImplementedError(f"{type(self).__name__} defines no losses()")

    def detect(self, maps: Sequence[Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input, cut to each image's true size (int64 [N, 2])."""
        raise NotImplementedError(f"{type(self).__name__} defines no detect()")


class BoxPredictor(nn.Layer):
    """Two fully connected layers with ReLU, then logits of background and K classes, and codes of boxes.

    Parameters: `fc1`, `fc2`, `classes`, `deltas`.

    Args:
        in_channels: C.
        size: S.
        num_classes: K.
        width: of the two layers.
        agnostic: one box a region, whatever its class, in place of one for each class.
    """

    def __init__(
        self, in_channels: int, size: int, num_classes: int, width: int = 1024, agnostic: bool = False
    ) -> None:
        super().__init__()
        self.num_classes, self.boxes_each = num_classes, 1 if agnostic else num_classes
        self.fc1 = nn.Linear(in_channels * size * size, width, initializer=nn.init.Kaiming("uniform", slope=1.0))
        self.fc2 = nn.Linear(width, width, initializer=nn.init.Kaiming("uniform", slope=1.0))
        self.classes = nn.Linear(width, num_classes + 1, initializer=nn.init.Normal(0.01))
        self.deltas = nn.Linear(width, 4 * self.boxes_each, initializer=nn.init.Normal(0.001))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: [N * R, S, S, C]; logits [N * R, 1 + K] and codes [N * R, boxes_each, 4]."""
        x = ops.relu(self.fc1(ops.reshape(x, shape=(0, -1))))
        x = ops.relu(self.fc2(x))
        return self.classes(x), ops.reshape(self.deltas(x), shape=(0, self.boxes_each, 4))


@dataclass(frozen=True)
class RegionLoss:
    """Cross entropy of classes, a loss of the boxes of matched regions; both divided by the number of regions.

    Args:
        box: the loss of boxes.
        hardest: with a number, only so many regions of each image count, those of the largest cross entropy: online
            hard example mining (Shrivastava et al. 2016, arXiv:1604.03540). The sampler then draws more regions than
            that, such as 512 for 128.
    """

    box: BoxTerm = field(default_factory=lambda: BoxTerm(beta=1 / 9))
    hardest: int | None = None

    def __post_init__(self) -> None:
        if self.hardest is not None and self.hardest < 1:
            raise AttributeValueError(f"RegionLoss: hardest is {self.hardest}; it must be 1 or more, or null")

    def mined(self, logits: Tensor, regions: Regions) -> Regions:
        """The regions, of which those that are too easy have weight 0; all of them without `hardest`."""
        if self.hardest is None:
            return regions
        with no_grad():
            entropy = ops.cross_entropy(logits.detach(), ops.reshape(regions.labels, shape=(-1,)))
            entropy = ops.unflatten_like(entropy, regions.weight, axis=0, start=0, end=1)
            masked = ops.where(regions.weight > 0.0, entropy, ops.full_like(entropy, value=-1.0))
            _, order = ops.sort(masked, axis=1, descending=True)
            _, rank = ops.sort(ops.cast(order, "float32"), axis=1)  # the inverse permutation
            weight = regions.weight * ops.cast(rank < self.hardest, "float32")
            return replace(regions, weight=weight, count=ops.maximum(ops.sum(weight), 1.0))

    def __call__(
        self, logits: Tensor, deltas: Tensor, regions: Regions, code: Code, boxes_each: int
    ) -> tuple[Tensor, Tensor]:
        """Both terms.

        Args:
            logits: [N * R, 1 + K]; class 0 is background.
            deltas: [N * R, boxes_each, 4].
            regions: what they should be.
            code: weights of the box code.
            boxes_each: K, or 1 for heads with one box a region.
        """
        weight, positive = (ops.reshape(x, shape=(-1,)) for x in (regions.weight, regions.positive))
        entropy = ops.cross_entropy(logits, ops.reshape(regions.labels, shape=(-1,)))
        chosen = of_class(deltas, ops.reshape(regions.classes, shape=(-1,)), boxes_each)  # [N * R, 4]
        boxes, gt_boxes = (ops.reshape(x, shape=(-1, 4)) for x in (regions.boxes, regions.gt_boxes))
        distance = self.box(chosen, boxes, gt_boxes, positive, code)
        return ops.sum(entropy * weight) / regions.count, distance / regions.count


def of_class(values: Tensor, classes: Tensor, each: int) -> Tensor:
    """values[i, classes[i]] of values [I, each, ...], values[i, 0] where `each` is 1."""
    if each == 1:
        return ops.squeeze(values, axis=1)
    with no_grad():
        index = ops.positions(classes, axis=0) * each + classes
    return ops.gather(ops.flatten(values, start=0, end=1), index)


@register("roi_head")
class BoxHead(RoIHead):
    """Faster R-CNN's second stage.

    Args:
        in_channels: of each map; all the same.
        strides: of each map, finest first.
        num_classes: K.
        width: of the two fully connected layers.
        pool: what is read of the maps.
        sampler: which regions are trained.
        loss: what is minimised.
        agnostic: one box a region, whatever its class.
        code: weights of the box code.
        postprocess: how detections are chosen.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        width: int = 1024,
        pool: RegionPool | None = None,
        sampler: RegionSampler | None = None,
        loss: RegionLoss | None = None,
        agnostic: bool = False,
        code: Code = (10.0, 10.0, 5.0, 5.0),
        postprocess: PostProcess = RCNN_POSTPROCESS,
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("BoxHead", num_classes)
        self.pool = pool or RegionPool()
        self.sampler = sampler or RegionSampler()
        self.loss = loss or RegionLoss()
        self.code = code
        self.postprocess = postprocess
        self.strides = tuple(strides)
        self.predictor = BoxPredictor(in_channels[0], self.pool.size, num_classes, width, agnostic)

    def losses(
        self, maps: Sequence[Tensor], proposals: Proposals, targets: Targets, sizes: Tensor
    ) -> tuple[dict[str, Loss], Regions]:
        """`loss_cls` and `loss_box`, means over regions, and these regions."""
        regions = self.sampler(proposals.boxes, targets)
        logits, deltas = self.predictor(self.pool(maps, self.strides, regions.boxes))
        counted = self.loss.mined(logits, regions)
        classes, boxes = self.loss(logits, deltas, counted, self.code, self.predictor.boxes_each)
        return {"loss_cls": Loss(classes, counted.count), "loss_box": Loss(boxes, counted.count)}, regions

    def detect(self, maps: Sequence[Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        """What it finds."""
        logits, deltas = self.predictor(self.pool(maps, self.strides, proposals.boxes, proposals.count))
        boxes = decoded(deltas, proposals, self.code, sizes, self.predictor.boxes_each)
        return self.postprocess(boxes, scores_of(ops.softmax(logits, axis=1), proposals, self.num_classes))


def check_classes(who: str, num_classes: int) -> int:
    """The number of classes; AttributeValueError below 1."""
    if num_classes < 1:
        raise AttributeValueError(f"{who}: num_classes is {num_classes}; it must be 1 or more")
    return num_classes


def decoded(deltas: Tensor, proposals: Proposals, code: Code, sizes: Tensor, each: int) -> Tensor:
    """Codes [N * T, each, 4] of proposals as boxes [N, T, each, 4], or [N, T, 4] where `each` is 1; cut."""
    anchors = ops.reshape(proposals.boxes, shape=(-1, 1, 4))
    moved = ops.box_decode(deltas, anchors, weights=code)
    cut = ops.clip_boxes(ops.reshape(moved, shape=(-1, proposals.rows * each, 4)), sizes)
    return cut if each == 1 else ops.reshape(cut, shape=(0, proposals.rows, each, 4))


def scores_of(probabilities: Tensor, proposals: Proposals, classes: int) -> Tensor:
    """Scores [N, T, K] out of probabilities [N * T, 1 + K]; 0 for proposals without area, which are padding."""
    table = ops.reshape(probabilities, shape=(-1, proposals.rows, classes + 1))
    kept = table[:, :, 1 : classes + 1]
    real = ops.cast(area_of(proposals.boxes) > 0.0, "float32")
    return kept * ops.expand_dims(real, axis=2)


register_role(
    "roi_head", RoIHead, supplied=("in_channels", "strides"), doc="Feature maps and proposals to losses and detections."
)
