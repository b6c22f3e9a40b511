"""Cascade R-CNN: second stages, each on the boxes of the one before (Cai and Vasconcelos 2018, arXiv:1712.00726).

Letters: N batch, T proposals an image, R regions an image, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework import nn, ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.matching import Matcher
from suites.detection.models.base import Detections, PostProcess, Targets
from suites.detection.models.rcnn.box_head import (
    RCNN_POSTPROCESS,
    BoxPredictor,
    Code,
    RegionLoss,
    RoIHead,
    check_classes,
    decoded,
    scores_of,
)
from suites.detection.models.rcnn.proposals import Proposals
from suites.detection.models.rcnn.regions import RegionPool, Regions, RegionSampler, matched
from suites.engine.contract.losses import Loss
from suites.engine.registry import register


@register("roi_head")
class CascadeHead(RoIHead):
    """Stages of rising IoU; each has one box a region, whatever its class. A score is the mean of all stages' scores.

    The first stage's regions are drawn by the sampler; the others are trained on the boxes of the stage before, all of
    them, matched anew with their own IoU.

    Args:
        in_channels: of each map; all the same.
        strides: of each map, finest first.
        num_classes: K.
        ious: least IoU of a region with its truth, of each stage after the first, which is the sampler's.
        codes: weights of the box code, of each stage.
        weights: factor of each stage's losses.
        width: of the fully connected layers.
        pool: what is read of the maps.
        sampler: which regions the first stage is trained on.
        loss: what is minimised.
        postprocess: how detections are chosen.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        ious: tuple[float, ...] = (0.6, 0.7),
        codes: tuple[Code, ...] = ((10, 10, 5, 5), (20, 20, 10, 10), (30, 30, 15, 15)),
        weights: tuple[float, ...] = (1.0, 0.5, 0.25),
        width: int = 1024,
        pool: RegionPool | None = None,
        sampler: RegionSampler | None = None,
        loss: RegionLoss | None = None,
        postprocess: PostProcess = RCNN_POSTPROCESS,
    ) -> None:
        super().__init__()
        if not len(codes) == len(weights) == len(ious) + 1:
            raise AttributeValueError(
                f"CascadeHead: {len(codes)} codes, {len(weights)} weights and {len(ious)} ious; give one code and one "
                "weight a stage, and one iou for each stage after the first"
            )
        self.num_classes = check_classes("CascadeHead", num_classes)
        self.ious, self.codes, self.weights = ious, codes, weights
        self.pool = pool or RegionPool()
        self.sampler = sampler or RegionSampler()
        self.loss = loss or RegionLoss()
        self.postprocess = postprocess
        self.strides = tuple(strides)
        self.predictors = nn.LayerList(
            BoxPredictor(in_channels[0], self.pool.size, num_classes, width, agnostic=True) for _ in codes
        )

    def losses(
        self, maps: Sequence[Tensor], proposals: Proposals, targets: Targets, sizes: Tensor
    ) -> tuple[dict[str, Loss], Regions]:
        """`loss_cls_I` and `loss_box_I` of each stage I, means over regions, and the first stage's regions."""
        first = regions = self.sampler(proposals.boxes, targets)
        boxes = regions.boxes
        terms: dict[str, Loss] = {}
        for i, (predictor, code, weight) in enumerate(zip(self.predictors, self.codes, self.weights, strict=True)):
            if i:
                regions = self._again(boxes, regions, targets, self.ious[i - 1])
            logits, deltas = predictor(self.pool(maps, self.strides, regions.boxes))
            counted = self.loss.mined(logits, regions)
            both = self.loss(logits, deltas, counted, code, 1)
            for name, term in zip(("loss_cls", "loss_box"), both, strict=True):
                terms[f"{name}_{i + 1}"] = Loss(term * weight, counted.count)
            with no_grad():
                at = Proposals(regions.boxes, proposals.count, self.sampler.samples)
                boxes = decoded(deltas.detach(), at, code, sizes, 1)
        return terms, first

    def _again(self, boxes: Tensor, before: Regions, targets: Targets, iou: float) -> Regions:
        """The regions of the next stage: boxes [N, R, 4] of the one before; padding stays padding."""
        with no_grad():
            gt_index = Matcher(iou, iou, "none").numbers(boxes, targets)
            gt_index = ops.where(before.gt_index > -2, gt_index, ops.full_like(gt_index, value=-2))
            return matched(boxes, gt_index, targets)

    def detect(self, maps: Sequence[Tensor], proposals: Proposals, sizes: Tensor) -> Detections:
        """What it finds."""
        at, total = proposals, None
        for predictor, code in zip(self.predictors, self.codes, strict=True):
            logits, deltas = predictor(self.pool(maps, self.strides, at.boxes, at.count))
            scores = ops.softmax(logits, axis=1)
            total = scores if total is None else total + scores
            at = replace(at, boxes=decoded(deltas, at, code, sizes, 1))
        assert total is not None
        mean = total * (1 / len(self.codes))
        return self.postprocess(at.boxes, scores_of(mean, proposals, self.num_classes))
