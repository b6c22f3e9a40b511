"""framework/native/ops/matching.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec
from tests.framework.ops.specs.detection import _iou, boxes, scores


def _match_boxes(anchors, truths, ignored=None, high=0.5, low=0.5, keep_best=False, claim_best=False, ignore_iou=0.5):
    images, most = truths.shape[:2]
    anchors = np.broadcast_to(anchors, (images, *anchors.shape[-2:]))
    match = np.full(anchors.shape[:2], -2)
    has_area = lambda b: b[2] > b[0] and b[3] > b[1]  # noqa: E731
    for n in range(images):
        usable = [m for m in range(most) if has_area(truths[n, m]) and not (ignored is not None and ignored[n, m])]
        regions = [m for m in range(most) if has_area(truths[n, m]) and m not in usable]
        iou = {
            p: {m: _iou(anchors[n, p], truths[n, m]) for m in usable}
            for p in range(anchors.shape[1])
            if has_area(anchors[n, p])
        }
        own = {p: max(usable, key=lambda m: (row[m], -m)) for p, row in iou.items() if any(row.values())}
        for p, row in iou.items():
            largest = max(row.values(), default=0.0)
            if p in own and largest >= high:
                match[n, p] = own[p]
            elif p not in own or largest < low:
                covered = [_inside(anchors[n, p], truths[n, m]) for m in regions]
                match[n, p] = -2 if any(c > 0 and c >= ignore_iou for c in covered) else -1
        if keep_best:
            for m in usable:
                best = max((row[m] for row in iou.values()), default=0.0)
                for p, row in iou.items():
                    if best > 0 and row[m] == best:
                        match[n, p] = own[p]
        if claim_best:
            pairs = sorted((-row[m], m, p) for p, row in iou.items() for m in usable if row[m] > 0)
            anchors_taken, truths_taken = set(), set()
            for _, m, p in pairs:
                if p not in anchors_taken and m not in truths_taken:
                    match[n, p] = m
                    anchors_taken.add(p)
                    truths_taken.add(m)
    return match


def _inside(a, region):
    """Share of the area of `a` that lies in a region."""
    width = max(0.0, min(a[2], region[2]) - max(a[0], region[0]))
    height = max(0.0, min(a[3], region[3]) - max(a[1], region[1]))
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]))


def _sample_matches(match, keys, count, positive_share=0.5):
    index, kind = np.zeros((len(match), count), np.int64), np.full((len(match), count), -2)
    for n, row in enumerate(match):
        order = sorted(range(len(row)), key=lambda p: (np.inf if np.isnan(keys[n, p]) else keys[n, p], p))
        matched = [p for p in order if row[p] >= 0][: int(count * positive_share + 1e-6)]
        taken = matched + [p for p in order if row[p] == -1][: count - len(matched)]
        index[n, : len(taken)] = taken
        kind[n, : len(taken)] = row[taken]
    return index, kind


IGNORED = integers(0, 3, 2, 6) == 0
MATCH = np.maximum(integers(-6, 6, 3, 40), -2)
NAN_KEYS = np.where(integers(0, 4, 3, 40, seed=3) == 0, np.nan, scores(3, 40))

spec(
    "match_boxes",
    reference=_match_boxes,
    gradient=False,
    samples=[
        Sample([boxes(40), boxes(2, 6, seed=5), None], {"high": 0.5, "low": 0.3}),
        Sample([boxes(2, 40), boxes(2, 6, seed=5), None], {"high": 0.7, "low": 0.3, "keep_best": True}),
        Sample([boxes(40), boxes(2, 6, seed=5), IGNORED], {"high": 0.4, "low": 0.4, "ignore_iou": 0.3}),
        Sample([boxes(40, extent=20), boxes(2, 6, seed=5, extent=20), IGNORED], {"high": 0.5, "claim_best": True}),
        Sample([boxes(5, extent=4), boxes(2, 6, seed=5, extent=4), None], {"claim_best": True, "keep_best": True}),
        Sample([np.repeat(boxes(9), 3, 0), np.repeat(boxes(1, 3, seed=5), 2, 1), None], {"keep_best": True}),
        Sample([boxes(2000, extent=90), boxes(2, 6, seed=5), IGNORED], {"keep_best": True}),
        Sample([boxes(7), np.zeros((2, 3, 4)), None], {"keep_best": True, "claim_best": True}),
        Sample([boxes(7), np.zeros((2, 0, 4)), None], {"high": 0.0, "low": 0.0}),
        Sample([normal(0, 4), boxes(2, 3), None]),
    ],
    errors=[
        Bad([boxes(3, 4), boxes(2, 3), None], ShapeError, r"anchors \[3, 4, 4\] must be \[P, 4\], or \[N, P, 4\]"),
        Bad([boxes(4), boxes(3), None], ShapeError, "truths has 2 axes"),
        Bad([boxes(4), boxes(2, 3), IGNORED], ShapeError, r"ignored has shape \[2, 6\] but must have \[2, 3\]"),
        Bad([boxes(4), boxes(2, 6), integers(0, 2, 2, 6)], DTypeError, "ignored is int64"),
        Bad([boxes(4), boxes(2, 6), None], AttributeValueError, "low is 0.6 but must be at most high", {"low": 0.6}),
        Bad([boxes(4), boxes(2, 6), None], AttributeValueError, "high is 1.5", {"high": 1.5}),
    ],
)
spec(
    "sample_matches",
    reference=_sample_matches,
    gradient=False,
    samples=[
        Sample([MATCH, scores(3, 40)], {"count": 16, "positive_share": 0.25}),
        Sample([MATCH, scores(3, 40, seed=2)], {"count": 60}),
        Sample([MATCH, NAN_KEYS], {"count": 30, "positive_share": 1.0}),
        Sample([np.full((2, 5), -2), scores(2, 5)], {"count": 3}),
        Sample([np.full((2, 100), 7), scores(2, 100)], {"count": 100, "positive_share": 0.29}),
        Sample([MATCH[:, :0], normal(3, 0)], {"count": 2}),
    ],
    errors=[
        Bad([MATCH, scores(3, 39)], ShapeError, r"keys has shape \[3, 39\] but must have \[3, 40\]", {"count": 2}),
        Bad([MATCH, scores(3, 40)], AttributeValueError, "count is 0", {"count": 0}),
        Bad([MATCH.astype(np.int32), scores(3, 40)], DTypeError, "match is int32", {"count": 2}),
        Bad(
            [MATCH, scores(3, 40)],
            AttributeValueError,
            "positive_share is -0.1",
            {"count": 2, "positive_share": -0.1},
        ),
    ],
)
