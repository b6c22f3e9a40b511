"""framework/native/ops/rotary.cc, by a rotation matrix for each pair of columns."""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _rotary(x, cos, sin, heads, interleaved=False):
    width, pairs = x.shape[-1] // heads, cos.shape[-1]
    cos, sin = (np.broadcast_to(t, (*x.shape[:-1], pairs)) for t in (cos, sin))
    y = x.copy()
    for h in range(heads):
        for i in range(pairs):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + pairs)
            a, b = h * width + a, h * width + b
            y[..., a] = x[..., a] * cos[..., i] - x[..., b] * sin[..., i]
            y[..., b] = x[..., a] * sin[..., i] + x[..., b] * cos[..., i]
    return y


def _tables(*shape, seed=0):
    angles = normal(*shape, seed=seed)
    return [np.cos(angles), np.sin(angles)]


spec(
    "rotary_embedding",
    reference=_rotary,
    roundings=4,
    samples=[
        Sample([normal(2, 5, 8), *_tables(5, 2)], {"heads": 2}),
        Sample([normal(2, 5, 8), *_tables(5, 2)], {"heads": 2, "interleaved": True}),
        Sample([normal(2, 3, 15), *_tables(2, 3, 2)], {"heads": 3}),  # the fifth column of a head stays
        Sample([normal(7, 64), *_tables(7, 16)], {"heads": 2}),
        Sample([np.zeros((2, 0, 8)), *_tables(0, 2)], {"heads": 2}),
    ],
    errors=[
        Bad([normal(5, 8), *_tables(5, 2)], AttributeValueError, "heads is 3 but must divide D", {"heads": 3}),
        Bad([normal(5, 8), *_tables(5, 3)], ShapeError, r"cos \[5, 3\] turns 3 pairs .* has 4 columns", {"heads": 2}),
        Bad([normal(5, 8), *_tables(4, 2)], ShapeError, r"cos \[4, 2\] must have the axes of x", {"heads": 2}),
        Bad([normal(5, 8), *_tables(2, 5, 2)], ShapeError, r"cos \[2, 5, 2\] must have the axes", {"heads": 2}),
        Bad([normal(5, 8), normal(5, 2), normal(5, 1)], ShapeError, r"sin has shape \[5, 1\]", {"heads": 2}),
        Bad([normal(8), *_tables(5, 2)], ShapeError, "x has 1 axes", {"heads": 2}),
        Bad([normal(5, 8).astype(int), *_tables(5, 2)], DTypeError, "x is int64", {"heads": 2}),
    ],
)
