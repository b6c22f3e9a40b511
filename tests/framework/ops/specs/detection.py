"""framework/native/ops/detection.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _iou(a, b):
    """IoU of two boxes, straight from the definition."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [max(0.0, x[2] - x[0]) * max(0.0, x[3] - x[1]) for x in (a, b)]
    union = sum(areas) - width * height
    return width * height / union if union > 0 else 0.0


def _box_iou(a, b):
    return np.array([[_iou(x, y) for y in b] for x in a]).reshape(len(a), len(b))


def _greedy(boxes, scores, iou_threshold, score_threshold, top):
    """Indices kept, the best first."""
    order = sorted((i for i in range(len(scores)) if scores[i] > score_threshold), key=lambda i: (-scores[i], i))
    kept = []
    for i in order[:top]:
        if all(_iou(boxes[i], boxes[j]) <= iou_threshold for j in kept):
            kept.append(i)
    return kept


def _nms(boxes, scores, iou_threshold=0.5, score_threshold=0.0, max_outputs=100):
    kept = _greedy(boxes, scores, iou_threshold, score_threshold, None)[:max_outputs]
    return np.array(kept + [-1] * (max_outputs - len(kept))), np.array(len(kept))


def _softened(boxes, scores, order, gaussian, iou_threshold, sigma, post_threshold, limit):
    """(index, lowered score) of one class by Soft-NMS, in the order in which they are taken."""
    left, taken = {i: scores[i] for i in order}, []
    while left and len(taken) < limit:
        best = max(left, key=lambda i: (left[i], -i))
        score = left.pop(best)
        if not score > post_threshold:
            break
        taken.append((best, score))
        for i in left:
            iou = _iou(boxes[best], boxes[i])
            left[i] *= math.exp(-(iou**2) / sigma) if gaussian else 1 - iou if iou > iou_threshold else 1.0
    return taken


def _softened_at_once(boxes, scores, order, gaussian, sigma, post_threshold, limit):
    """The same by Matrix NMS."""
    iou = np.array([[_iou(boxes[i], boxes[j]) for i in order] for j in order])
    own = [max(iou[j, :j], default=0.0) for j in range(len(order))]
    found = []
    for j, index in enumerate(order):
        factors = [1.0]
        for i in range(j):
            if gaussian:
                factors.append(math.exp((own[i] ** 2 - iou[j, i] ** 2) / sigma))
            elif own[i] < 1:
                factors.append((1 - iou[j, i]) / (1 - own[i]))
        if scores[index] * min(factors) > post_threshold:
            found.append((index, scores[index] * min(factors)))
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _multiclass_nms(
    boxes, scores, score_threshold=0.01, nms_top_k=1000, iou_threshold=0.45, keep_top_k=100, method="hard", sigma=0.5,
    post_threshold=0.0,
):  # fmt: skip
    detections = np.zeros((len(boxes), keep_top_k, 6))
    detections[..., 0] = -1
    count, index = np.zeros(len(boxes)), np.full((len(boxes), keep_top_k), -1)
    for n, (image_boxes, image_scores) in enumerate(zip(boxes, scores, strict=True)):
        found = []
        for k in range(scores.shape[2]):
            own, score = image_boxes[:, k] if boxes.ndim == 4 else image_boxes, image_scores[:, k]
            order = sorted((i for i in range(len(score)) if score[i] > score_threshold), key=lambda i: (-score[i], i))
            order, gaussian = order[:nms_top_k], method.endswith("gaussian")
            if method == "hard":
                kept = [(i, score[i]) for i in _greedy(own, score, iou_threshold, score_threshold, nms_top_k)]
            elif method.startswith("soft"):
                kept = _softened(own, score, order, gaussian, iou_threshold, sigma, post_threshold, keep_top_k)
            else:
                kept = _softened_at_once(own, score, order, gaussian, sigma, post_threshold, keep_top_k)
            found += [(-s, k, i, *own[i]) for i, s in kept]
        for row, (negative, k, i, *box) in enumerate(sorted(found)[:keep_top_k]):
            detections[n, row] = [k, -negative, *box]
            index[n, row] = i
        count[n] = min(keep_top_k, len(found))
    return detections, count, index


def boxes(*shape, seed=0, extent=40):
    """Boxes of whole pixels that overlap often, of which some are empty."""
    corner = integers(0, extent, *shape, 2, seed=seed)
    return np.concatenate([corner, corner + integers(0, 25, *shape, 2, seed=seed + 1)], -1).astype(np.float64)


def scores(*shape, seed=7):
    """In steps of 1/64, exact in float32, so that equal ones are met."""
    return integers(0, 64, *shape, seed=seed) / 64.0


def broken(*shape, seed=0):
    """Boxes with an area whose overlaps are no round numbers."""
    return boxes(*shape, seed=seed) + np.abs(normal(*shape, 4, seed=seed)) * (0.1, 0.1, 3.0, 3.0) + (0, 0, 1, 1)


def uneven(*shape):
    """Scores that differ, so that rounding does not change their order."""
    return np.random.default_rng(list(shape)).permutation(math.prod(shape)).reshape(shape) / math.prod(shape)


LOWERED = {"keep_top_k": 50, "post_threshold": 0.3, "nms_top_k": 25}
NAN_SCORES = np.where(integers(0, 4, 30, seed=3) == 0, np.nan, scores(30))

spec(
    "box_iou",
    reference=_box_iou,
    gradient=False,
    samples=[
        Sample([boxes(9), boxes(7, seed=5)]),
        Sample([boxes(5) / 3, boxes(70) / 7 - 3]),
        Sample([np.array([[3.0, 3, 1, 1], [0, 0, 0, 0]]), np.array([[0.0, 0, 4, 4], [0, 0, 0, 0]])]),
        Sample([normal(0, 4), boxes(3)]),
    ],
    errors=[
        Bad([normal(2, 5), normal(2, 4)], ShapeError, r"a of shape \[2, 5\] must end in 4 coordinates"),
        Bad([normal(2, 4), integers(0, 3, 2, 4)], DTypeError, "b is int64 but a is float32"),
        Bad([normal(2, 4), normal(4)], ShapeError, "b has 1 axes"),
    ],
)
spec(
    "nms",
    reference=_nms,
    gradient=False,
    samples=[
        Sample([boxes(60), scores(60)], {"iou_threshold": 0.3}),
        Sample([boxes(60), scores(60)], {"iou_threshold": 0.7, "score_threshold": 0.25, "max_outputs": 7}),
        Sample([boxes(30), NAN_SCORES], {"max_outputs": 30}),
        Sample([np.repeat(boxes(3), 4, 0), np.full(12, 0.5)], {"max_outputs": 4}),
        Sample([boxes(200, extent=1000), scores(200)], {"iou_threshold": 0.0, "max_outputs": 200}),
        Sample([normal(0, 4), normal(0)], {"max_outputs": 3}),
    ],
    errors=[
        Bad([normal(3, 4), normal(2)], ShapeError, r"scores has shape \[2\] but must have \[3\]"),
        Bad([normal(3, 5), normal(3)], ShapeError, "must end in 4 coordinates"),
        Bad([normal(3, 4), normal(3)], AttributeValueError, "iou_threshold is 1.5", {"iou_threshold": 1.5}),
        Bad([normal(3, 4), normal(3)], AttributeValueError, "max_outputs is 0", {"max_outputs": 0}),
    ],
)
spec(
    "multiclass_nms",
    reference=_multiclass_nms,
    gradient=False,
    samples=[
        Sample([boxes(2, 40), scores(2, 40, 3)], {"keep_top_k": 25}),
        Sample([boxes(1, 50), scores(1, 50, 4)], {"nms_top_k": 10, "keep_top_k": 100, "iou_threshold": 0.2}),
        Sample([boxes(2, 30), np.stack([NAN_SCORES, scores(30, seed=1)] * 2).reshape(2, 30, 2)], {"keep_top_k": 12}),
        Sample([boxes(3, 20), scores(3, 20, 2)], {"score_threshold": 0.9, "keep_top_k": 5}),
        Sample([boxes(2, 20, 3), scores(2, 20, 3)], {"keep_top_k": 20, "iou_threshold": 0.3}),
        Sample([broken(2, 30), uneven(2, 30, 2)], {"method": "soft_linear", "iou_threshold": 0.2, "keep_top_k": 40}),
        Sample([broken(2, 30, 2), uneven(2, 30, 2)], {"method": "soft_gaussian", "sigma": 0.4, "keep_top_k": 9}),
        Sample([broken(2, 30), uneven(2, 30, 2)], {"method": "matrix_linear", "keep_top_k": 40}),
        Sample([broken(2, 40, 3), uneven(2, 40, 3)], {"method": "matrix_gaussian", **LOWERED}),
        Sample([broken(2, 40), uneven(2, 40, 3)], {"method": "soft_gaussian", **LOWERED}),
        Sample([np.repeat(boxes(1, 5), 3, 1), scores(1, 15, 2)], {"method": "matrix_linear", "keep_top_k": 30}),
        Sample([normal(2, 0, 4), normal(2, 0, 3)], {"keep_top_k": 2}),
        Sample([normal(0, 3, 4), normal(0, 3, 3)], {"keep_top_k": 2}),
    ],
    errors=[
        Bad([normal(1, 3, 4), normal(1, 2, 5)], ShapeError, r"boxes \[1, 3, 4\] and scores \[1, 2, 5\] must agree"),
        Bad([normal(1, 3, 5), normal(1, 3, 5)], ShapeError, "must end in 4 coordinates"),
        Bad([normal(1, 3, 4, 4), normal(1, 3, 5)], ShapeError, "must agree in classes"),
        Bad([normal(3, 4), normal(1, 3, 5)], ShapeError, r"must be \[N, M, 4\] or \[N, M, K, 4\]"),
        Bad([normal(1, 3, 4), normal(1, 3, 5)], AttributeValueError, "keep_top_k is -1", {"keep_top_k": -1}),
        Bad([normal(1, 3, 4), normal(1, 3, 5)], AttributeValueError, "method is 'fast'", {"method": "fast"}),
        Bad([normal(1, 3, 4), normal(1, 3, 5)], AttributeValueError, "sigma is 0", {"sigma": 0.0}),
        Bad([normal(1, 3, 4), normal(1, 3, 5)], AttributeValueError, "nms_top_k is 0", {"nms_top_k": 0}),
    ],
)
