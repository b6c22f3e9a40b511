"""framework/native/ops/ragged.cc"""

from itertools import pairwise

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec

OFFSETS = np.array([0, 3, 3, 4, 9])  # four sequences, the second empty
FULL = np.array([0, 3, 4, 9], np.int32)
NONE = np.zeros(1, np.int64)  # no sequence, no row


def _pieces(x, offsets):
    return [x[a:b] for a, b in pairwise(offsets)]


def _segment_max(x, offsets):
    y = np.array([p.max(0) for p in _pieces(x, offsets)])
    rows = np.array([p.argmax(0) + a for p, a in zip(_pieces(x, offsets), offsets[:-1], strict=True)])
    return y, rows


def _window(x, offsets, before, after):
    y = np.zeros((len(x), before + 1 + after, x.shape[1]))
    for a, b in pairwise(offsets):
        for r in range(a, b):
            for i, s in enumerate(range(r - before, r + after + 1)):
                if a <= s < b:
                    y[r, i] = x[s]
    return y.reshape(len(x), (before + 1 + after) * x.shape[1])


def _window_grad(dy, offsets, before, after):
    rows = before + 1 + after
    dx = np.zeros((len(dy), dy.shape[1] // rows))
    dy = dy.reshape(len(dy), rows, -1)
    for a, b in pairwise(offsets):
        for r in range(a, b):
            for i, s in enumerate(range(r - before, r + after + 1)):
                if a <= s < b:
                    dx[s] += dy[r, i]
    return dx


def _bad_offsets(attrs=None):
    """What every operator says to offsets that do not cut 9 rows."""
    x = normal(9, 2)
    return [
        Bad([x, np.array(o)], AttributeValueError, match, attrs or {})
        for o, match in (
            ([1, 9], r"offsets\[0\] is 1 but the first sequence starts at row 0"),
            ([0, 5, 4, 9], r"offsets\[2\] is 4 after 5; offsets must not fall"),
            ([0, 4], "offsets ends at 4 but there are 9 rows; the last offset is the number of rows"),
            ([0, 10, 9], r"offsets\[2\] is 9 after 10"),
        )
    ] + [
        Bad([x, np.array([0.0, 9.0])], DTypeError, "offsets is float32 but must be int32 or int64", attrs or {}),
        Bad([x, np.zeros(0, int)], ShapeError, r"offsets is empty but must be \[B \+ 1\]", attrs or {}),
        Bad([x, np.zeros((1, 2), int)], ShapeError, "offsets has 2 axes", attrs or {}),
    ]


for _name, _reduce in (("segment_sum", np.sum), ("segment_mean", lambda p, axis: p.sum(axis) / max(1, len(p)))):
    spec(
        _name,
        reference=lambda x, offsets, reduce=_reduce: np.array([reduce(p, axis=0) for p in _pieces(x, offsets)]).reshape(
            -1, *x.shape[1:]
        ),
        samples=[
            Sample([normal(9, 3), OFFSETS]),
            Sample([normal(9), FULL]),
            Sample([normal(9, 2, 300), OFFSETS]),
            Sample([normal(0, 3), NONE]),
        ],
        roundings=8,  # at most five terms and a division
        errors=_bad_offsets(),
    )
spec(
    "segment_max",
    reference=_segment_max,
    exact=True,
    samples=[Sample([normal(9, 3), FULL]), Sample([normal(9), FULL]), Sample([normal(9, 2, 300), FULL])],
    errors=[
        *_bad_offsets(),
        Bad(
            [normal(9, 2), OFFSETS],
            AttributeValueError,
            r"sequence 1 is empty \(offsets\[1\] and offsets\[2\] are both 3\), so it has no maximum",
        ),
    ],
)
spec(
    "segment_spread",
    reference=lambda x, offsets, like: np.repeat(x, np.diff(offsets), axis=0),
    exact=True,
    samples=[
        Sample([normal(4, 3), OFFSETS, normal(9, 1)]),
        Sample([normal(3), FULL, normal(9, 3)]),
        Sample([normal(0, 3), NONE, normal(0)]),
    ],
    errors=[
        Bad([normal(3, 2), OFFSETS, normal(9)], ShapeError, r"x \[3, 2\] has 3 rows but offsets \[5\] cut 4 sequences"),
        Bad([normal(4, 2), OFFSETS, normal(8)], AttributeValueError, "offsets ends at 9 but there are 8 rows"),
    ],
)
for _name, _numbers in (
    ("ragged_positions", lambda n: np.concatenate([np.arange(k) for k in n]) if len(n) else np.zeros(0)),
    ("ragged_segments", lambda n: np.repeat(np.arange(len(n)), n)),
):
    spec(
        _name,
        reference=lambda offsets, like, numbers=_numbers: numbers(np.diff(offsets)),
        exact=True,
        gradient=False,
        samples=[
            Sample([OFFSETS, normal(9, 2)]),
            Sample([FULL, integers(0, 5, 9)]),
            Sample([NONE, normal(0)]),
            Sample([np.array([0, 1000, 60000, 60010]), np.zeros(60010, np.uint8)]),
        ],
        errors=[Bad([OFFSETS, normal(8)], AttributeValueError, "offsets ends at 9 but there are 8 rows")],
    )
spec(
    "ragged_window",
    reference=_window,
    exact=True,
    samples=[
        Sample([normal(9, 3), OFFSETS], {"before": 1, "after": 1}),
        Sample([normal(9, 2), FULL], {"before": 0, "after": 6}),
        Sample([normal(9, 1), OFFSETS], {"before": 2, "after": 0}),
        Sample([normal(0, 3), NONE], {"before": 1, "after": 1}),
    ],
    errors=[
        *_bad_offsets(attrs={"before": 1, "after": 1}),
        Bad([normal(9, 2), OFFSETS], AttributeValueError, "before is -1 and after is 1", {"before": -1, "after": 1}),
        Bad([normal(9), OFFSETS], ShapeError, "x has 1 axes", {"before": 1, "after": 1}),
    ],
)
spec(
    "ragged_window_grad",
    reference=_window_grad,
    samples=[
        Sample([normal(9, 6), OFFSETS], {"before": 1, "after": 1}),
        Sample([normal(9, 14), FULL], {"before": 0, "after": 6}),
        Sample([normal(9, 3), OFFSETS], {"before": 2, "after": 0}),
    ],
    errors=[
        Bad(
            [normal(9, 7), OFFSETS],
            ShapeError,
            r"dy \[9, 7\] has 7 columns, which are not 3 rows side by side",
            {"before": 1, "after": 1},
        )
    ],
)
