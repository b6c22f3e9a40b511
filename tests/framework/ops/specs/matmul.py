"""framework/native/ops/matmul.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def activate(z, activation, slope):
    """What a fused activation does, from its definition."""
    if activation == "relu":
        return np.maximum(z, 0)
    if activation == "relu6":
        return np.clip(z, 0, 6)
    return np.where(z > 0, z, slope * z) if activation == "leaky_relu" else z


def _matmul(a, b, bias=None, residual=None, transpose_a=False, transpose_b=False, activation="none", slope=0.01):
    a, b = (np.swapaxes(m, -1, -2) if t else m for m, t in ((a, transpose_a), (b, transpose_b)))
    z = np.einsum("...mk,...kn->...mn", a, b)
    z = z if bias is None else z + bias
    return activate(z if residual is None else z + residual, activation, slope)


DEPTH = 40  # of the longest sum below

spec(
    "matmul",
    reference=_matmul,
    roundings=4 * DEPTH,  # DEPTH products and sums, of terms up to 4 times the largest input
    samples=[
        Sample([normal(5, DEPTH), normal(DEPTH, 7), normal(7)], {"activation": "relu"}),
        Sample([normal(7, 3), normal(5, 7), None], {"transpose_a": True, "transpose_b": True}),
        Sample([normal(2, 3, 4, 5), normal(5, 6), normal(6)], {"activation": "leaky_relu", "slope": 0.2}),
        Sample([normal(2, 3, 5), normal(6, 5), None], {"transpose_b": True}),
        Sample([normal(3, 4, 5), normal(3, 4, 2), None], {"transpose_a": True}),
        Sample([normal(2, 1, 4, 5), normal(3, 5, 2), None]),
        Sample([normal(4, 5), normal(3, 5, 2), normal(2, scale=8)], {"activation": "relu6"}),
        Sample([normal(5, 4), normal(2, 5, 3), None], {"transpose_a": True}),
        Sample([normal(4, 0), normal(0, 3), normal(3)]),
        Sample([normal(0, 4), normal(4, 3), None]),
        Sample([normal(5, 6), normal(6, 7), normal(7), normal(5, 7)], {"activation": "relu"}),
        Sample([normal(2, 1, 4, 5), normal(3, 5, 2), None, normal(2, 3, 4, 2)]),
        Sample([normal(3, 5, 4), normal(3, 5, 6), None, normal(3, 4, 6)], {"transpose_a": True}),
        Sample([normal(4, 0), normal(0, 3), None, normal(4, 3)]),
    ],
    errors=[
        Bad(
            [normal(2, 3), normal(4, 5), None],
            ShapeError,
            r"a has 3 columns \(axis -1 of \[2, 3\]\) but b has 4 rows \(axis -2 of \[4, 5\]\)",
        ),
        Bad([normal(3), normal(3, 5), None], ShapeError, "a has 1 axes .* needs at least 2"),
        Bad([normal(2, 4, 3), normal(3, 3, 5), None], ShapeError, r"do not broadcast: 2 against 3"),
        Bad([normal(2, 3), normal(3, 5), normal(4)], ShapeError, r"bias has shape \[4\] but must have \[5\]"),
        Bad(
            [normal(2, 3), normal(3, 5), None, normal(5)],
            ShapeError,
            r"residual has shape \[5\] but must have \[2, 5\]",
        ),
        Bad([normal(2, 3), integers(0, 9, 3, 5), None], DTypeError, "b is int64 but a is float32"),
        Bad([normal(2, 3), normal(3, 5), None], AttributeValueError, "'gelu'; takes 'none'", {"activation": "gelu"}),
        Bad(
            [normal(2, 3), normal(3, 5), None],
            AttributeValueError,
            "slope is -1 but must be at least 0",
            {"activation": "leaky_relu", "slope": -1.0},
        ),
    ],
)
