"""Regions of interest: what is drawn from proposals in training, and what is read of the maps for each.

Letters: N batch, T proposals an image, M ground truths an image, R regions an image, S side of a resampled region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.random import default_generator
from framework.tensors import Tensor
from suites.detection.matching import Matcher, rows_of
from suites.detection.models.base import Targets


@dataclass(frozen=True)
class Regions:
    """Regions that a head is trained on, matched ones first.

    Attributes:
        boxes: float32 [N, R, 4], in pixels of the input.
        gt_index: int64 [N, R], the number of the truth that a region stands for; -1 background, -2 a row of padding.
        labels: int64 [N, R], the truth's class plus 1; 0 for background.
        gt_boxes: float32 [N, R, 4], the truth's box; the first truth's where there is none.
        weight: float32 [N, R], 1, or the truth's score, which is less after mixup; 0 for padding.
        count: float32 [], the sum of `weight`, at least 1: what losses are divided by.
    """

    boxes: Tensor
    gt_index: Tensor
    labels: Tensor
    gt_boxes: Tensor
    weight: Tensor
    count: Tensor

    @property
    def classes(self) -> Tensor:
        """int64 [N, R], the truth's class; 0 where there is none."""
        with no_grad():
            return ops.maximum(self.labels - 1, 0)

    @property
    def positive(self) -> Tensor:
        """float32 [N, R]: `weight` of the regions that stand for a truth, else 0."""
        with no_grad():
            return self.weight * ops.cast(self.gt_index >= 0, "float32")

    def first(self, count: int) -> Regions:
        """The first `count` regions of each image; matched ones stand first. `count` stays that of all."""
        with no_grad():
            columns = self.boxes, self.gt_index, self.labels, self.gt_boxes, self.weight
            boxes, gt_index, labels, gt_boxes, weight = (x[:, :count] for x in columns)
            return Regions(boxes, gt_index, labels, gt_boxes, weight, self.count)


@dataclass(frozen=True)
class RegionSampler:
    """Draws regions to train on from proposals and truths (Girshick 2015, Fast R-CNN, section 2.3).

    Args:
        samples: R, regions an image.
        positive_share: of these, how many may stand for a truth.
        iou: least IoU of a region with its truth; the others are background.
    """

    samples: int = 512
    positive_share: float = 0.25
    iou: float = 0.5

    def __post_init__(self) -> None:
        if self.samples < 1 or not 0 < self.positive_share <= 1 or not 0 < self.iou <= 1:
            raise AttributeValueError(
                f"RegionSampler: samples is {self.samples}, positive_share {self.positive_share}, iou {self.iou}; "
                "samples must be 1 or more, the others in (0, 1]"
            )

    @property
    def positives(self) -> int:
        """Regions of an image that stand for a truth, at most."""
        return max(1, int(self.samples * self.positive_share + 1e-6))

    def __call__(self, proposals: Tensor, targets: Targets) -> Regions:
        """Regions out of proposals [N, T, 4] and the truths themselves; rows without area are never drawn."""
        with no_grad():
            boxes = ops.concat([proposals.detach(), learnt(targets)], axis=1)
            match = Matcher(self.iou, self.iou, "none").numbers(boxes, targets)
            index, gt_index = ops.sample_matches(
                match, draw_keys(match), count=self.samples, positive_share=self.positive_share
            )
            return matched(rows_of(boxes, index), gt_index, targets)


def learnt(targets: Targets) -> Tensor:
    """The boxes that are learnt from, [N, M, 4]; crowd regions have no area in it."""
    if targets.ignored is None:
        return targets.boxes
    kept = 1.0 - ops.cast(targets.ignored, "float32")
    return targets.boxes * ops.expand_dims(kept, axis=2)


def matched(boxes: Tensor, gt_index: Tensor, targets: Targets) -> Regions:
    """Regions of boxes [N, R, 4] whose truths are known."""
    owner = ops.maximum(gt_index, 0)
    real = gt_index >= 0
    labels = rows_of(targets.classes, owner) + 1
    ones = ops.full_like(ops.cast(gt_index, "float32"), value=1.0)
    weight = ops.where(real, rows_of(targets.scores, owner), ones) * ops.cast(gt_index > -2, "float32")
    return Regions(
        boxes=boxes,
        gt_index=gt_index,
        labels=ops.where(real, labels, ops.full_like(labels, value=0)),
        gt_boxes=rows_of(targets.boxes, owner),
        weight=weight,
        count=ops.maximum(ops.sum(weight), 1.0),
    )


def area_of(boxes: Tensor) -> Tensor:
    """Width times height [N, P] of boxes [N, P, 4]."""
    x1, y1, x2, y2 = ops.split(boxes, axis=2, sizes=(1, 1, 1, 1))
    return ops.squeeze((x2 - x1) * (y2 - y1), axis=2)


def draw_keys(match: Tensor) -> Tensor:
    """Random numbers float32 [N, P], new ones each time, by which `ops.sample_matches` chooses."""
    return ops.random_uniform_like(default_generator.key(), match)


@dataclass(frozen=True)
class RegionPool:
    """What is read of the maps for each region (He et al. 2017, Mask R-CNN; Lin et al. 2017, FPN, equation 1).

    Args:
        size: S.
        sampling: points along a side of each of the S x S bins; 0 for as many as the bin has pixels.
        aligned: a pixel's centre lies half a pixel from its corner. False is the first version, which torchvision's
            weights expect.
        coarsest: stride of the coarsest map that is read.
        canonical_size: a region of this side, in pixels, is read from the map of stride 16.
    """

    size: int = 7
    sampling: int = 2
    aligned: bool = True
    coarsest: int = 32
    canonical_size: float = 224.0

    def __call__(
        self, maps: Sequence[Tensor], strides: Sequence[int], boxes: Tensor, count: Tensor | None = None
    ) -> Tensor:
        """[N * R, S, S, C]; zeros for boxes without area and for rows from `count` [N] on.

        Args:
            maps: finest first, [N, H_s, W_s, C].
            strides: of each map.
            boxes: [N, R, 4].
            count: int32 or int64 [N].
        """
        read = [(x, stride) for x, stride in zip(maps, strides, strict=True) if stride <= self.coarsest]
        places = [stride for _, stride in read]
        # The map of stride 16, or where there is none, as if the list went on to it.
        level = round(_log2(16) - _log2(places[0]))
        return ops.roi_align(
            boxes.detach(),
            count,
            [x for x, _ in read],
            size=self.size,
            strides=[float(stride) for stride in places],
            sampling=self.sampling,
            aligned=self.aligned,
            canonical_size=self.canonical_size,
            canonical_level=level,
        )


def _log2(stride: int) -> int:
    return stride.bit_length() - 1
