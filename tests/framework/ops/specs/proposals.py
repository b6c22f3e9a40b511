"""framework/native/ops/proposals.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec
from tests.framework.ops.specs.boxes import MAX_LOG_SCALE, SIZES, _box_decode, _clip_boxes, regions
from tests.framework.ops.specs.detection import _greedy, scores


def _select_proposals(
    logits, deltas, anchors, sizes, pre_nms=2000, post_nms=1000, iou_threshold=0.7, min_side=1e-3,
    weights=(1.0, 1.0, 1.0, 1.0), max_log_scale=MAX_LOG_SCALE,
):  # fmt: skip
    images = len(logits)
    boxes, kept_scores = np.zeros((images, post_nms, 4)), np.full((images, post_nms), -1e30)
    count = np.zeros(images)
    regions = _clip_boxes(_box_decode(deltas, anchors, weights, max_log_scale), sizes)
    for n in range(images):
        known = [p for p in range(len(anchors)) if not math.isnan(logits[n, p])]
        best = sorted(known, key=lambda p: (-logits[n, p], p))[:pre_nms]
        sides = regions[n, :, 2:] - regions[n, :, :2]
        best = [p for p in best if (sides[p] >= min_side).all() and (sides[p] > 0).all()]
        ranks = -np.arange(len(best), dtype=float)
        kept = [best[i] for i in _greedy(regions[n, best], ranks, iou_threshold, -math.inf, None)][:post_nms]
        boxes[n, : len(kept)] = regions[n, kept]
        kept_scores[n, : len(kept)] = logits[n, kept]
        count[n] = len(kept)
    return boxes, kept_scores, count


def _inputs(anchors, seed=0):
    return [scores(2, anchors, seed=seed) - 0.5, normal(2, anchors, 4, seed=seed, scale=0.2), regions(anchors), SIZES]


def _with_nans(inputs):
    logits, *others = inputs
    logits = logits.copy()
    logits[:, ::3] = np.nan
    return [logits, *others]


GOOD = _inputs(6)
spec(
    "select_proposals",
    reference=_select_proposals,
    gradient=False,
    samples=[
        Sample(_inputs(60), {"pre_nms": 30, "post_nms": 12}),
        Sample(_inputs(60, seed=1), {"post_nms": 50, "iou_threshold": 0.4, "min_side": 6.0}),
        Sample(_inputs(40, seed=2), {"post_nms": 50, "weights": (2, 2, 1, 1), "max_log_scale": 0.1}),
        Sample(_with_nans(_inputs(20, seed=3)), {"post_nms": 20}),
        Sample([normal(2, 0), normal(2, 0, 4), normal(0, 4), SIZES.astype(np.int32)], {"post_nms": 2}),
    ],
    errors=[
        Bad([GOOD[0], normal(2, 5, 4), *GOOD[2:]], ShapeError, r"deltas has shape \[2, 5, 4\]"),
        Bad([*GOOD[:2], normal(5, 4), SIZES], ShapeError, r"anchors has shape \[5, 4\]"),
        Bad([*GOOD[:3], SIZES[:1]], ShapeError, "sizes has shape"),
        Bad([*GOOD[:3], normal(2, 2)], DTypeError, "sizes"),
        Bad(GOOD, AttributeValueError, "pre_nms is 0", {"pre_nms": 0}),
        Bad(GOOD, AttributeValueError, "iou_threshold is 2", {"iou_threshold": 2.0}),
    ],
)
