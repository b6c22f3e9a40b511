"""framework/native/ops/norm.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _moments(x):
    axes = tuple(range(x.ndim - 1))
    return (x.mean(axes), x.var(axes)) if x.size else (np.zeros(x.shape[-1]), np.zeros(x.shape[-1]))


def _normalized(x, scale, bias, mean, var, eps=1e-5):
    return (x - mean) / np.sqrt(var + eps) * scale + bias


def _batch_norm(x, scale, bias, eps=1e-5):
    mean, var = _moments(x)
    return _normalized(x, scale, bias, mean, var, eps), mean, var


def _batch_norm_grad(dy, x, scale, mean, var, dmean=None, dvar=None, eps=1e-5):
    """Through an explicit Jacobian of the statistics: d mean_c / d x = 1/n, d var_c / d x = 2 (x - mean) / n."""
    axes, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
    rstd, centered = (var + eps) ** -0.5, x - mean
    through_mean = -(dy * scale * rstd).sum(axes) + (0 if dmean is None else dmean)
    through_var = -0.5 * (dy * scale * centered).sum(axes) * rstd**3 + (0 if dvar is None else dvar)
    # d var / d mean is -2 times the mean of (x - mean), which is 0 for the batch's own mean and not taken here.
    dx = dy * scale * rstd + through_mean / n + through_var * 2 * centered / n
    return dx, (dy * centered).sum(axes) * rstd, dy.sum(axes)


def _batch(*shape, shift=0.0):
    c = shape[-1]
    return [normal(*shape) + shift, normal(c, seed=1) + 1.5, normal(c, seed=2)]


def _with_statistics(*shape):
    x, scale, bias = _batch(*shape)
    return [x, scale, bias, *_moments(x)]


def _backward(*shape):
    x, scale, _ = _batch(*shape)
    return [normal(*shape, seed=3), x, scale, *_moments(x), None, None]


# A sum of n terms by chunks and vector lanes rounds far less than n times; 64 covers the largest sample here.
spec(
    "batch_norm",
    reference=_batch_norm,
    roundings=64,
    samples=[
        Sample(_batch(2, 3, 3, 4)),
        Sample(_batch(6, 5), {"eps": 1e-3}),
        Sample(_batch(7, 1)),
        Sample(_batch(40, 130)),
        Sample(_batch(5, 9, 9, 3)),
        Sample(_batch(3, 17, 17, 48)),
        Sample(_batch(1100, 80, shift=3.0)),
    ],
    errors=[
        Bad([normal(4, 3), normal(4), normal(3)], ShapeError, r"scale has shape \[4\] but must have \[3\]"),
        Bad([normal(), normal(1), normal(1)], ShapeError, r"x has 0 axes .* needs at least 1"),
        Bad([normal(4, 3), normal(3), normal(3)], AttributeValueError, "eps is -1", {"eps": -1.0}),
    ],
)
spec(
    "batch_norm_inference",
    reference=_normalized,
    roundings=16,
    samples=[
        Sample(_with_statistics(2, 3, 3, 4)),
        Sample(_with_statistics(6, 5), {"eps": 1e-3}),
        Sample([np.zeros((0, 3)), *(normal(3, seed=s) for s in range(3)), np.ones(3)]),
        Sample(_with_statistics(300, 70)),
    ],
    errors=[
        Bad([normal(4, 3), *[normal(3)] * 3, normal(2)], ShapeError, r"var has shape \[2\] but must have \[3\]"),
        Bad([normal(4, 3).astype("int32"), *[normal(3)] * 4], DTypeError, "x is int32 but must be float32 or float64"),
    ],
)
spec(
    "batch_norm_grad",
    reference=_batch_norm_grad,
    roundings=256,
    samples=[
        Sample(_backward(2, 3, 3, 4)),
        Sample([*_backward(6, 5)[:5], normal(5, seed=4), normal(5, seed=5)], {"eps": 1e-3}),
        Sample(_backward(40, 130)),
        Sample(_backward(3, 17, 17, 48)),
    ],
    errors=[Bad([normal(4, 2), normal(4, 3), *[normal(3)] * 3], ShapeError, r"dy has shape \[4, 2\] but must have")],
)
