"""framework/native/ops/ragged_product.cc"""

from itertools import pairwise

import numpy as np

from framework.errors import DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec
from tests.framework.ops.specs.ragged import FULL, NONE, OFFSETS


def _outer(x, z, offsets):
    return np.array([x[a:b].T @ z[a:b] for a, b in pairwise(offsets)]).reshape(-1, x.shape[1], z.shape[1])


def _product(x, m, offsets, transpose_m=False):
    m = m.transpose(0, 2, 1) if transpose_m else m
    parts = [x[a:b] @ matrix for (a, b), matrix in zip(pairwise(offsets), m, strict=True)]
    return np.concatenate([np.zeros((0, m.shape[2])), *parts])


spec(
    "segment_outer",
    reference=_outer,
    samples=[
        Sample([normal(9, 3), normal(9, 5), OFFSETS]),
        Sample([normal(9, 1), normal(9, 20), FULL]),
        Sample([normal(300, 40), normal(300, 33), np.array([0, 120, 300])]),
        Sample([normal(0, 3), normal(0, 2), NONE]),
    ],
    roundings=300,
    errors=[
        Bad([normal(9, 3), normal(8, 5), OFFSETS], ShapeError, r"z \[8, 5\] and x \[9, 3\] must have as many rows"),
        Bad([normal(9, 3), normal(9, 5).astype(np.float16), OFFSETS], DTypeError, "x is float32 but z is float16"),
        Bad([normal(9), normal(9, 5), OFFSETS], ShapeError, "x has 1 axes"),
        Bad([normal(9, 3), normal(9, 5), np.array([0, 4])], Exception, "offsets ends at 4 but there are 9 rows"),
    ],
)
spec(
    "segment_product",
    reference=_product,
    samples=[
        Sample([normal(9, 3), normal(4, 3, 5), OFFSETS]),
        Sample([normal(9, 3), normal(4, 5, 3), OFFSETS], {"transpose_m": True}),
        Sample([normal(300, 40), normal(2, 40, 33), np.array([0, 120, 300])]),
        Sample([normal(0, 3), normal(0, 3, 2), NONE]),
    ],
    roundings=40,
    errors=[
        Bad([normal(9, 3), normal(3, 3, 5), OFFSETS], ShapeError, r"m \[3, 3, 5\] has 3 matrices but .* cut 4 seq"),
        Bad([normal(9, 3), normal(4, 2, 5), OFFSETS], ShapeError, r"x \[9, 3\] has 3 columns .* takes 2"),
        Bad([normal(9, 3), normal(4, 3, 5).astype(np.float16), OFFSETS], DTypeError, "x is float32 but m is float16"),
    ],
)
