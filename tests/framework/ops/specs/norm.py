"""framework/native/ops/norm.cc"""

import numpy as np

import framework
from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, away_from, normal, spec


def _moments(x):
    axes = tuple(range(x.ndim - 1))
    return (x.mean(axes), x.var(axes)) if x.size else (np.zeros(x.shape[-1]), np.zeros(x.shape[-1]))


def _normalized(x, scale, bias, mean, var, eps=1e-5):
    return (x - mean) / np.sqrt(var + eps) * scale + bias


def _activated(y, activation, slope):
    return {
        "none": lambda: y,
        "relu": lambda: np.maximum(y, 0),
        "relu6": lambda: np.clip(y, 0, 6),
        "leaky_relu": lambda: np.where(y > 0, y, slope * y),
    }[activation]()


def _batch_norm_inference(
    x, scale, bias, mean, var, residual=None, eps=1e-5, activation="none", slope=0.01, residual_last=False
):
    y = _normalized(x, scale, bias, mean, var, eps)
    before, after = (0, residual) if residual_last and residual is not None else (residual, 0)
    return _activated(y + (0 if before is None else before), activation, slope) + after


def _batch_norm(x, scale, bias, residual=None, **attrs):
    mean, var = _moments(x)
    return _batch_norm_inference(x, scale, bias, mean, var, residual, **attrs), mean, var


def _batch_norm_grad(dy, x, scale, mean, var, dmean=None, dvar=None, eps=1e-5):
    """Through an explicit Jacobian of the statistics: d mean_c / d x = 1/n, d var_c / d x = 2 (x - mean) / n."""
    axes, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
    rstd, centered = (var + eps) ** -0.5, x - mean
    through_mean = -(dy * scale * rstd).sum(axes) + (0 if dmean is None else dmean)
    through_var = -0.5 * (dy * scale * centered).sum(axes) * rstd**3 + (0 if dvar is None else dvar)
    # d var / d mean is -2 times the mean of (x - mean), which is 0 for the batch's own mean and not taken here.
    dx = dy * scale * rstd + through_mean / n + through_var * 2 * centered / n
    return dx, (dy * centered).sum(axes) * rstd, dy.sum(axes)


def _steepness(y, activation, slope):
    """d activation / d its input where that, or its result, is y: both lie on the same side of each kink."""
    return {
        "none": lambda: np.ones_like(y),
        "relu": lambda: (y > 0).astype(float),
        "relu6": lambda: ((y > 0) & (y < 6)).astype(float),
        "leaky_relu": lambda: np.where(y > 0, 1.0, slope),
    }[activation]()


def _batch_norm_activation_grad(
    dy, x, scale, bias, mean, var, dmean=None, dvar=None, eps=1e-5, activation="none", slope=0.01
):
    dz = dy * _steepness(_normalized(x, scale, bias, mean, var, eps), activation, slope)
    return _batch_norm_grad(dz, x, scale, mean, var, dmean, dvar, eps)


def _batch_norm_residual_grad(
    dy, y, x, scale, mean, var, dmean=None, dvar=None, eps=1e-5, activation="none", slope=0.01
):
    dz = dy * _steepness(y, activation, slope)
    return *_batch_norm_grad(dz, x, scale, mean, var, dmean, dvar, eps), dz


def _batch(*shape, shift=0.0):
    c = shape[-1]
    return [normal(*shape) + shift, normal(c, seed=1) + 1.5, normal(c, seed=2)]


def _with_statistics(*shape):
    x, scale, bias = _batch(*shape)
    return [x, scale, bias, *_moments(x)]


def _backward(*shape):
    x, scale, _ = _batch(*shape)
    return [normal(*shape, seed=3), x, scale, *_moments(x), None, None]


def _activation_backward(*shape):
    """With x chosen so that no normalised value lies at a kink of an activation."""
    x, scale, bias = _batch(*shape)
    mean, var = _moments(x)
    z = away_from([0, 6], _normalized(x, scale, bias, mean, var))
    x = (z - bias) / scale * np.sqrt(var + 1e-5) + mean
    return [normal(*shape, seed=3), x, scale, bias, mean, var, None, None]


def _residual_backward(*shape):
    dy, x, scale, mean, var, *rest = _backward(*shape)
    return [dy, away_from([0, 6], normal(*shape, seed=6)), x, scale, mean, var, *rest]


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
        Sample(_batch(3, 5, 5, 6), {"activation": "relu"}),
        Sample([*_batch(3, 5, 5, 6), normal(3, 5, 5, 6, seed=6)], {"activation": "relu6"}),
        Sample([*_batch(40, 130), normal(40, 130, seed=6)], {"activation": "leaky_relu", "slope": 0.2}),
        Sample([*_batch(7, 9, 20), normal(7, 9, 20, seed=6)], {"activation": "leaky_relu", "residual_last": True}),
        Sample([*_batch(7, 9, 5), normal(7, 9, 5, seed=6)]),
    ],
    errors=[
        Bad([*_batch(4, 3), normal(4, 2)], ShapeError, r"residual has shape \[4, 2\] but must have \[4, 3\]"),
        Bad(_batch(4, 3), AttributeValueError, "activation is 'elu'; takes 'none', 'relu'", {"activation": "elu"}),
        Bad(_batch(4, 3), AttributeValueError, "slope is -1", {"activation": "leaky_relu", "slope": -1.0}),
        Bad([normal(4, 3), normal(4), normal(3)], ShapeError, r"scale has shape \[4\] but must have \[3\]"),
        Bad(_batch(1, 1, 1, 3), ShapeError, r"x of shape \[1, 1, 1, 3\] has one value a channel"),
        Bad([normal(), normal(1), normal(1)], ShapeError, r"x has 0 axes .* needs at least 1"),
        Bad([normal(4, 3), normal(3), normal(3)], AttributeValueError, "eps is -1", {"eps": -1.0}),
    ],
)
spec(
    "batch_norm_inference",
    reference=_batch_norm_inference,
    roundings=16,
    samples=[
        Sample(_with_statistics(2, 3, 3, 4)),
        Sample(_with_statistics(6, 5), {"eps": 1e-3}),
        Sample([np.zeros((0, 3)), *(normal(3, seed=s) for s in range(3)), np.ones(3)]),
        Sample(_with_statistics(300, 70)),
        Sample(_with_statistics(30, 7), {"activation": "relu"}),
        Sample([*_with_statistics(30, 7), normal(30, 7, seed=6)], {"activation": "relu"}),
        Sample([*_with_statistics(30, 7), normal(30, 7, seed=6)], {"activation": "relu6", "residual_last": True}),
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
# The order-2 gradient is a composition of operators that have theirs checked.
spec(
    "batch_norm_activation_grad",
    reference=_batch_norm_activation_grad,
    roundings=256,
    samples=[
        Sample(_activation_backward(2, 3, 3, 4), {"activation": "relu"}),
        Sample([*_activation_backward(6, 5)[:6], normal(5, seed=4), normal(5, seed=5)],
               {"activation": "leaky_relu", "slope": 0.3, "eps": 1e-3}),
        Sample(_activation_backward(40, 130), {"activation": "relu6"}),
        Sample(_activation_backward(3, 17, 17, 48), {"activation": "leaky_relu"}),
        Sample(_activation_backward(9, 6)),
    ],
    errors=[
        Bad([*_activation_backward(4, 3)[:3], normal(2), *[normal(3)] * 2], ShapeError, r"bias has shape \[2\]"),
        Bad(_activation_backward(4, 3), AttributeValueError, "activation is 'tanh'", {"activation": "tanh"}),
    ],
)  # fmt: skip
spec(
    "batch_norm_residual_grad",
    reference=_batch_norm_residual_grad,
    roundings=256,
    samples=[
        Sample(_residual_backward(2, 3, 3, 4), {"activation": "relu"}),
        Sample([*_residual_backward(6, 5)[:6], normal(5, seed=4), normal(5, seed=5)],
               {"activation": "leaky_relu", "slope": 0.3, "eps": 1e-3}),
        Sample(_residual_backward(40, 130), {"activation": "relu6"}),
        Sample(_residual_backward(3, 17, 17, 48), {"activation": "relu"}),
    ],
    errors=[Bad([normal(4, 3), normal(4, 2), normal(4, 3), *[normal(3)] * 3], ShapeError, r"y has shape \[4, 2\]")],
)  # fmt: skip


def _moments_over(x, axes):
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def _layer_norm(x, scale=None, bias=None, eps=1e-5):
    mean, var = _moments_over(x, -1)
    rstd = 1 / np.sqrt(var + eps)
    y = (x - mean) * rstd * (1 if scale is None else scale) + (0 if bias is None else bias)
    return y, mean[..., 0], rstd[..., 0]


def _projected(dy, x, scale, mean, rstd, dmean, drstd, axes):
    """dx and dy * xhat by the chain rule through mean and rstd: d rstd / d x = -rstd^3 (x - mean) / n."""
    n = np.prod([x.shape[a] for a in axes])
    g, centered = dy * scale, x - mean
    to_rstd = (g * centered).sum(axes, keepdims=True) + drstd
    to_mean = -(g * rstd).sum(axes, keepdims=True) + dmean
    return g * rstd + to_mean / n - to_rstd * rstd**3 * centered / n, dy * centered * rstd


def _layer_norm_grad(dy, x, mean, rstd, scale=None, dmean=None, drstd=None):
    statistics = [np.zeros(x.shape[:-1]) if t is None else t for t in (mean, rstd, dmean, drstd)]
    mean, rstd, dmean, drstd = (t[..., None] for t in statistics)
    dx, scaled = _projected(dy, x, 1.0 if scale is None else scale, mean, rstd, dmean, drstd, (x.ndim - 1,))
    axes = tuple(range(x.ndim - 1))
    return dx, scaled.sum(axes), dy.sum(axes)


def _grouped(t, groups):
    return t.reshape(t.shape[0], int(np.prod(t.shape[1:-1])), groups, t.shape[-1] // groups)


def _group_norm(x, scale, bias, groups, eps=1e-5):
    grouped = _grouped(x, groups)
    mean, var = _moments_over(grouped, (1, 3))
    rstd = 1 / np.sqrt(var + eps)
    y = ((grouped - mean) * rstd).reshape(x.shape) * scale + bias
    return y, mean[:, 0, :, 0], rstd[:, 0, :, 0]


def _group_norm_grad(dy, x, scale, mean, rstd, dmean=None, drstd=None, *, groups):
    statistics = [np.zeros((x.shape[0], groups)) if t is None else t for t in (mean, rstd, dmean, drstd)]
    mean, rstd, dmean, drstd = (t[:, None, :, None] for t in statistics)
    dx, scaled = _projected(
        _grouped(dy, groups), _grouped(x, groups), scale.reshape(groups, -1), mean, rstd, dmean, drstd, (1, 3)
    )
    axes = tuple(range(x.ndim - 1))
    return dx.reshape(x.shape), scaled.reshape(x.shape).sum(axes), dy.sum(axes)


def _layer_backward(*shape, scale=True, through_statistics=False):
    x, s, _ = _batch(*shape)
    _, mean, rstd = _layer_norm(x)
    extra = [normal(*shape[:-1], seed=k) for k in (4, 5)] if through_statistics else [None, None]
    return [normal(*shape, seed=3), x, mean, rstd, s if scale else None, *extra]


def _group_backward(groups, *shape, through_statistics=False):
    x, scale, bias = _batch(*shape)
    _, mean, rstd = _group_norm(x, scale, bias, groups)
    extra = [normal(shape[0], groups, seed=k) for k in (4, 5)] if through_statistics else [None, None]
    return [normal(*shape, seed=3), x, scale, mean, rstd, *extra]


spec(
    "layer_norm",
    reference=_layer_norm,
    roundings=64,
    samples=[
        Sample(_batch(3, 5)),
        Sample([*_batch(2, 3, 17)[:2], None], {"eps": 1e-3}),
        Sample([normal(4, 70), None, None]),
        Sample([normal(4, 9), None, normal(9)]),
        Sample(_batch(130, 131, shift=3.0)),
        Sample(_batch(0, 8)),
    ],
    errors=[
        Bad([normal(4, 3), normal(4), None], ShapeError, r"scale has shape \[4\] but must have \[3\]"),
        Bad([normal(), None, None], ShapeError, "x has 0 axes"),
    ],
)
spec(
    "layer_norm_grad",
    reference=_layer_norm_grad,
    roundings=256,
    samples=[
        Sample(_layer_backward(3, 5)),
        Sample(_layer_backward(2, 3, 17, scale=False)),
        Sample(_layer_backward(2, 3, 9, through_statistics=True)),
        Sample(_layer_backward(2, 5, scale=False, through_statistics=True)),
        Sample(_layer_backward(130, 70)),
        Sample(_layer_backward(0, 8)),
    ],
    errors=[Bad([normal(4, 3), normal(4, 3), normal(3), normal(4), None], ShapeError, r"mean has shape \[3\]")],
)
spec(
    "group_norm",
    reference=_group_norm,
    roundings=64,
    samples=[
        Sample(_batch(2, 3, 3, 4), {"groups": 2}),
        Sample(_batch(3, 6), {"groups": 3, "eps": 1e-3}),
        Sample(_batch(1, 5, 7, 4), {"groups": 4}),
        Sample(_batch(2, 40, 130, shift=3.0), {"groups": 13}),
        Sample(_batch(0, 3, 3, 4), {"groups": 1}),
    ],
    errors=[
        Bad([normal(2, 3, 4), normal(4), normal(4)], AttributeValueError, "groups is 3 but must divide the 4 channels",
            {"groups": 3}),
        Bad([normal(4), normal(4), normal(4)], ShapeError, "x has 1 axes .* needs at least 2", {"groups": 1}),
    ],
)  # fmt: skip
spec(
    "group_norm_grad",
    reference=_group_norm_grad,
    roundings=256,
    samples=[
        Sample(_group_backward(2, 2, 3, 3, 4), {"groups": 2}),
        Sample(_group_backward(3, 3, 6), {"groups": 3}),
        Sample(_group_backward(2, 2, 5, 4, through_statistics=True), {"groups": 2}),
        Sample(_group_backward(13, 2, 40, 130), {"groups": 13}),
    ],
    errors=[
        Bad([normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(2, 1), normal(2, 2)], ShapeError,
            r"mean has shape \[2, 1\] but must have \[2, 2\]", {"groups": 2}),
    ],
)  # fmt: skip


KEY = np.array([7, 3], np.int64)


def _dropped(x, key, p):
    """Dropout by the operator's own mask, which test_random.py and its spec hold to the definition."""
    return x if key is None else x * framework.ops.dropout(framework.tensor(np.ones(x.shape)), key, p=p).numpy()


def _residual_layer_norm(x, residual, scale=None, bias=None, key=None, p=0.0, eps=1e-5):
    total = _dropped(x, key, p) + residual
    y, mean, rstd = _layer_norm(total, scale, bias, eps)
    return y, total, mean, rstd


def _residual_layer_norm_grad(dy, total, mean, rstd, key, scale=None, dsum=None, dmean=None, drstd=None, *, p):
    dresidual, dscale, dbias = _layer_norm_grad(dy, total, mean, rstd, scale, dmean, drstd)
    dresidual = dresidual + (0 if dsum is None else dsum)
    return _dropped(dresidual, key, p), dresidual, dscale, dbias


def _residual_backward_of_rows(*shape, scale=True, dsum=True, through_statistics=False):
    dy, x, mean, rstd, s, *extra = _layer_backward(*shape, scale=scale, through_statistics=through_statistics)
    return [dy, x, mean, rstd, KEY, s, normal(*shape, seed=8) if dsum else None, *extra]


spec(
    "residual_layer_norm",
    reference=_residual_layer_norm,
    roundings=64,
    samples=[
        Sample([normal(3, 5), normal(3, 5, seed=1), normal(5), normal(5, seed=2), None]),
        Sample([normal(2, 3, 17), normal(2, 3, 17, seed=1), None, None, KEY], {"p": 0.3, "eps": 1e-3}),
        Sample([normal(4, 70), normal(4, 70, seed=1), normal(70), None, KEY], {"p": 0.5}),
        Sample([normal(130, 131), normal(130, 131, seed=1), normal(131), normal(131, seed=2), KEY], {"p": 0.1}),
        Sample([normal(0, 8), normal(0, 8), normal(8), normal(8), KEY], {"p": 0.1}),
    ],
    errors=[
        Bad(
            [normal(3, 5), normal(5), None, None, None], ShapeError, r"residual has shape \[5\] but must have \[3, 5\]"
        ),
        Bad([normal(3, 5), normal(3, 5), normal(4)], ShapeError, r"scale has shape \[4\] but must have \[5\]"),
        Bad([normal(3, 5), normal(3, 5)], AttributeValueError, "p is 0.5 but there is no key", {"p": 0.5}),
        Bad([normal(3, 5), normal(3, 5), None, None, KEY], AttributeValueError, r"p is 1 but must lie in", {"p": 1.0}),
        Bad([normal(3, 5), normal(3, 5), None, None, normal(2)], DTypeError, "key is float32", {"p": 0.5}),
    ],
)
spec(
    "residual_layer_norm_grad",
    reference=_residual_layer_norm_grad,
    roundings=256,
    samples=[
        Sample(_residual_backward_of_rows(3, 5, dsum=False), {"p": 0.3}),
        Sample(_residual_backward_of_rows(2, 3, 17, scale=False), {"p": 0.5}),
        Sample(_residual_backward_of_rows(2, 5, through_statistics=True), {"p": 0.3}),
        Sample(_residual_backward_of_rows(130, 70), {"p": 0.1}),
        Sample(_residual_backward_of_rows(0, 8), {"p": 0.1}),
    ],
    errors=[
        Bad([normal(4, 3), normal(4, 3), normal(3), normal(4), KEY], ShapeError, r"mean has shape \[3\]", {"p": 0.1}),
        Bad([normal(4, 3), normal(4, 3), normal(4), normal(4), KEY], AttributeValueError, "p is -1", {"p": -1.0}),
    ],
)


def _rms_norm(x, scale=None, eps=1e-5):
    rstd = ((x**2).mean(-1) + eps) ** -0.5
    y = x * rstd[..., None]
    return (y if scale is None else y * scale), rstd


def _rms_norm_grad(dy, x, rstd, scale=None, drstd=None):
    """Through an explicit Jacobian of rstd: d rstd / d x_i = -rstd^3 x_i / D."""
    g = dy if scale is None else dy * scale
    through_rstd = (g * x).sum(-1) + (0 if drstd is None else drstd)
    dx = g * rstd[..., None] - (through_rstd * rstd**3)[..., None] * x / x.shape[-1]
    return dx, (dy * x * rstd[..., None]).reshape(-1, x.shape[-1]).sum(0)


def _rms_backward(*shape, scale=True, drstd=False):
    x = normal(*shape)
    return [
        normal(*shape, seed=1),
        x,
        ((x**2).mean(-1) + 1e-5) ** -0.5,
        normal(shape[-1], seed=2) if scale else None,
        normal(*shape[:-1], seed=3) if drstd else None,
    ]


spec(
    "rms_norm",
    reference=_rms_norm,
    roundings=64,
    samples=[
        Sample([normal(3, 5), normal(5, seed=1)]),
        Sample([normal(2, 3, 17), None], {"eps": 1e-3}),
        Sample([normal(130, 131), normal(131)]),
        Sample([normal(70), normal(70)]),
        Sample([np.zeros((0, 8)), normal(8)]),
    ],
    errors=[
        Bad([normal(4, 3), normal(4)], ShapeError, r"scale has shape \[4\] but must have \[3\]"),
        Bad([normal(), None], ShapeError, "x has 0 axes"),
        Bad([normal(3), None], AttributeValueError, "eps is -1 but must be 0 or more", {"eps": -1.0}),
    ],
)
spec(
    "rms_norm_grad",
    reference=_rms_norm_grad,
    roundings=256,
    samples=[
        Sample(_rms_backward(3, 5)),
        Sample(_rms_backward(2, 3, 17, scale=False)),
        Sample(_rms_backward(2, 3, 9, drstd=True)),
        Sample(_rms_backward(130, 70)),
        Sample(_rms_backward(6)),
    ],
    errors=[Bad([normal(3), normal(4), normal(), None, None], ShapeError, r"dy has shape \[3\] but must have \[4\]")],
)
