"""framework/native/ops/matmul.cc"""

import numpy as np
from scipy import special

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, away_from, integers, normal, spec


def activate(z, activation, slope):
    """What a fused activation does, from its definition."""
    if activation == "relu":
        return np.maximum(z, 0)
    if activation == "relu6":
        return np.clip(z, 0, 6)
    if activation == "leaky_relu":
        return np.where(z > 0, z, slope * z)
    if activation in ("sigmoid", "silu"):
        return special.expit(z) * (z if activation == "silu" else 1)
    if activation in ("gelu", "gelu_tanh"):
        exact = special.ndtr(z)
        return z * (exact if activation == "gelu" else special.expit(np.sqrt(8 / np.pi) * (z + 0.044715 * z**3)))
    return np.tanh(z) if activation == "tanh" else z


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
        Sample([normal(5, 6), normal(6, 7), normal(7)], {"activation": "sigmoid"}),
        Sample([normal(3, 5, 6), normal(6, 7), normal(7)], {"activation": "tanh"}),
        Sample([normal(5, 6), normal(7, 6), None, normal(5, 7)], {"activation": "silu", "transpose_b": True}),
        Sample([normal(2, 5, 6), normal(2, 6, 7), normal(7)], {"activation": "gelu"}),
        Sample([normal(5, 6), normal(6, 70), normal(70)], {"activation": "gelu_tanh"}),
        # At most four rows and 64 columns or more: products of vectors.
        Sample([normal(1, 7), normal(7, 67), normal(67)], {"activation": "gelu"}),
        Sample([normal(3, DEPTH), normal(66, DEPTH), normal(66), normal(3, 66)], {"transpose_b": True}),
        Sample([normal(7, 4), normal(7, 65)], {"transpose_a": True}),
        Sample([normal(2, DEPTH), normal(DEPTH, 64)]),
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
        Bad([normal(2, 3), normal(3, 5), None], AttributeValueError, "'mish'; takes 'none'", {"activation": "mish"}),
        Bad(
            [normal(2, 3), normal(3, 5), None],
            AttributeValueError,
            "slope is -1 but must be at least 0",
            {"activation": "leaky_relu", "slope": -1.0},
        ),
    ],
)


def _gelu_tanh_slope(x):
    """Of x s(u), u = sqrt(8 / pi) (x + 0.044715 x^3): s + x s (1 - s) u'."""
    root = np.sqrt(8 / np.pi)
    s = special.expit(root * (x + 0.044715 * x**3))
    return s + x * s * (1 - s) * root * (1 + 3 * 0.044715 * x**2)


def _slope(at, activation, slope):
    """An activation's derivative: at its input for silu and gelu, else from its result."""
    return {
        "none": lambda: np.ones_like(at),
        "relu": lambda: (at > 0) * 1.0,
        "relu6": lambda: ((at > 0) & (at < 6)) * 1.0,
        "leaky_relu": lambda: np.where(at > 0, 1, slope),
        "sigmoid": lambda: at * (1 - at),
        "tanh": lambda: 1 - at**2,
        "silu": lambda: special.expit(at) * (1 + at * (1 - special.expit(at))),
        "gelu": lambda: special.ndtr(at) + at * np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi),
        "gelu_tanh": lambda: _gelu_tanh_slope(at),
    }[activation]()


def _matmul_activation_grad(a, b, at, transpose_a=False, transpose_b=False, activation="gelu", slope=0.01):
    return _matmul(a, b, None, None, transpose_a, transpose_b) * _slope(at, activation, slope)


spec(
    "matmul_activation_grad",
    reference=_matmul_activation_grad,
    roundings=4 * DEPTH,
    samples=[
        Sample([normal(5, 6), normal(6, 7), normal(5, 7, seed=1)]),
        Sample([normal(5, 6), normal(7, 6), normal(5, 7, seed=1)], {"transpose_b": True, "activation": "silu"}),
        Sample([normal(2, 5, 6), normal(2, 6, 40), normal(2, 5, 40)], {"activation": "gelu_tanh"}),
        Sample([normal(2, 6), normal(6, 70), normal(2, 70)], {"activation": "gelu"}),
        *(
            Sample([normal(5, 6), normal(6, 7), away_from([0, 6], normal(5, 7, seed=1))], {"activation": name})
            for name in ("none", "relu", "relu6", "sigmoid", "tanh")
        ),
        Sample(
            [normal(6, 5), normal(6, 7), away_from([0], normal(5, 7, seed=1))],
            {"transpose_a": True, "activation": "leaky_relu", "slope": 0.2},
        ),
    ],
    errors=[
        Bad([normal(2, 3), normal(4, 5), normal(2, 5)], ShapeError, "a has 3 columns"),
        Bad([normal(2, 3), normal(3, 5), normal(5)], ShapeError, r"at has shape \[5\] but must have \[2, 5\]"),
        Bad([normal(2, 3), normal(3, 5), normal(2, 5)], AttributeValueError, "takes 'none'", {"activation": "elu"}),
    ],
)
