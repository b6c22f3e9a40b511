"""framework/native/ops/conv.cc"""

import numpy as np

from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec
from tests.framework.ops.specs.matmul import activate


def _pair(v):
    return (v, v) if np.isscalar(v) else tuple(v)


def _sides(padding):
    """(top, bottom, left, right)"""
    p = (padding,) if np.isscalar(padding) else tuple(padding)
    return {1: p * 4, 2: (p[0], p[0], p[-1], p[-1]), 4: p}[len(p)]


def _taps(image, weight, stride, padding, dilation, groups):
    """For each tap and group: the image's window, as (images, rows, columns, channels) of the padded image."""
    (sh, sw), (dh, dw), (top, bottom, left, right) = _pair(stride), _pair(dilation), _sides(padding)
    height, width = image[1] + top + bottom, image[2] + left + right
    p = (height - dh * (weight[1] - 1) - 1) // sh + 1
    q = (width - dw * (weight[2] - 1) - 1) // sw + 1
    c, k = weight[3], weight[0] // groups
    for r, s, g in np.ndindex(weight[1], weight[2], groups):
        window = np.s_[:, r * dh : r * dh + sh * p : sh, s * dw : s * dw + sw * q : sw, g * c : (g + 1) * c]
        yield window, np.s_[g * k : (g + 1) * k, r, s], np.s_[..., g * k : (g + 1) * k], (p, q)


def _padded_shape(image, padding):
    top, bottom, left, right = _sides(padding)
    return (image[0], image[1] + top + bottom, image[2] + left + right, image[3])


def _inner(image, padding):
    top, _, left, _ = _sides(padding)
    return np.s_[:, top : top + image[1], left : left + image[2]]


def _window(stride=1, padding=0, dilation=1, groups=1, algorithm="auto"):
    return stride, padding, dilation, groups


def _conv2d(x, weight, bias=None, residual=None, activation="none", slope=0.01, residual_last=False, **attrs):
    window = _window(**attrs)
    padded = np.zeros(_padded_shape(x.shape, window[1]))
    padded[_inner(x.shape, window[1])] = x
    y = 0.0
    for pixels, tap, channels, (p, q) in _taps(x.shape, weight.shape, *window):
        if np.isscalar(y):
            y = np.zeros((x.shape[0], p, q, weight.shape[0]))
        y[channels] += padded[pixels] @ weight[tap].T
    y = y if bias is None else y + bias
    residual = 0.0 if residual is None else residual
    return activate(y, activation, slope) + residual if residual_last else activate(y + residual, activation, slope)


def _grad_input(dy, weight, like, **attrs):
    window = _window(**attrs)
    dx = np.zeros(_padded_shape(like.shape, window[1]))
    for pixels, tap, channels, _ in _taps(like.shape, weight.shape, *window):
        dx[pixels] += dy[channels] @ weight[tap]
    return dx[_inner(like.shape, window[1])]


def _grad_weight(x, dy, like, **attrs):
    window = _window(**attrs)
    padded = np.zeros(_padded_shape(x.shape, window[1]))
    padded[_inner(x.shape, window[1])] = x
    dw = np.zeros(like.shape)
    for pixels, tap, channels, _ in _taps(x.shape, like.shape, *window):
        dw[tap] += np.einsum("npqk,npqc->kc", dy[channels], padded[pixels])
    return dw


def _transpose(x, weight, bias=None, output_padding=0, **attrs):
    stride, padding, dilation, groups = _window(**attrs)
    top, bottom, left, right = _sides(padding)
    out = [
        (x.shape[1 + i] - 1) * _pair(stride)[i] + _pair(dilation)[i] * (weight.shape[1 + i] - 1) + 1
        - ((top + bottom), (left + right))[i] + _pair(output_padding)[i]
        for i in (0, 1)
    ]  # fmt: skip
    y = _grad_input(x, weight, np.empty((x.shape[0], *out, weight.shape[3] * groups)), **attrs)
    return y if bias is None else y + bias


# x's shape, weight's shape, attributes: plain, strided, one-sided padding, dilated, grouped, depthwise, pointwise.
CASES = [
    ((2, 5, 6, 3), (4, 3, 3, 3), {"padding": 1}),
    ((1, 7, 8, 2), (3, 3, 2, 2), {"stride": 2, "padding": (1, 0)}),
    ((2, 6, 5, 2), (2, 3, 3, 2), {"stride": (2, 1), "padding": (0, 1, 2, 1)}),
    ((1, 8, 8, 2), (3, 3, 3, 2), {"dilation": (2, 1), "padding": 2}),
    ((2, 5, 5, 4), (6, 3, 3, 2), {"groups": 2, "padding": 1}),
    ((2, 6, 6, 5), (5, 3, 3, 1), {"groups": 5, "padding": 1, "stride": 2}),
    ((2, 5, 5, 5), (10, 3, 3, 1), {"groups": 5, "padding": 1}),
    ((2, 4, 3, 7), (5, 1, 1, 7), {}),
    ((2, 5, 5, 3), (4, 1, 1, 3), {"stride": 2}),
    ((1, 9, 9, 8), (8, 3, 3, 8), {"padding": 1, "algorithm": "direct"}),
    ((1, 9, 10, 8), (6, 3, 3, 8), {"padding": (1, 0), "algorithm": "winograd"}),
    ((1, 3, 3, 2), (3, 3, 3, 2), {"padding": 1, "stride": 3}),
    ((0, 3, 3, 2), (3, 3, 3, 2), {"padding": 1}),
    ((2, 4, 4, 0), (3, 3, 3, 0), {"padding": 1}),
    ((2, 4, 4, 0), (3, 1, 1, 0), {"stride": 2}),
    ((1, 9, 9, 0), (3, 3, 3, 0), {"algorithm": "winograd"}),
    ((2, 4, 4, 2), (0, 3, 3, 2), {"padding": 1}),
    ((2, 4, 4, 2), (0, 1, 1, 2), {"stride": 2}),
]
LONGEST = 200  # terms of a sum: 9 * 8 taps forward, up to 2 * 6 * 5 pixels or 9 * 8 taps backward, with room
ROUNDINGS = 4 * LONGEST  # of terms up to 4 times the largest input; above Winograd's 1e-5 too


def _dy(x, weight, attrs, seed=5):
    return normal(*_conv2d(np.zeros(x), np.zeros(weight), **attrs).shape, seed=seed)


_IMAGE_48 = [normal(8, 56, 56, 48), normal(64, 3, 3, 32)]

spec(
    "conv2d",
    reference=_conv2d,
    roundings=ROUNDINGS,
    samples=[
        *(Sample([normal(*x), normal(*w, seed=1), None], attrs) for x, w, attrs in CASES),
        Sample([normal(2, 5, 6, 3), normal(4, 3, 3, 3), normal(4)], {"activation": "relu", "padding": 1}),
        Sample([normal(1, 5, 6, 3), normal(4, 1, 1, 3), normal(4, scale=4)], {"activation": "relu6"}),
        Sample(
            [normal(1, 5, 6, 3), normal(3, 3, 3, 1), normal(3)],
            {"activation": "leaky_relu", "slope": 0.1, "groups": 3},
        ),
        Sample(
            [normal(2, 5, 6, 3), normal(4, 3, 3, 3), normal(4), normal(2, 3, 3, 4)],
            {"activation": "relu", "padding": 1, "stride": 2},
        ),
        Sample([normal(1, 5, 6, 3), normal(4, 1, 1, 3), None, normal(1, 5, 6, 4, scale=4)], {"activation": "relu6"}),
        Sample([normal(1, 9, 10, 8), normal(6, 3, 3, 8), normal(6), normal(1, 7, 8, 6)], {"algorithm": "winograd"}),
        Sample([normal(1, 5, 6, 3), normal(3, 3, 3, 1), None, normal(1, 3, 4, 3)], {"groups": 3}),
        Sample(
            [normal(2, 5, 6, 3), normal(4, 3, 3, 3), normal(4), normal(2, 3, 3, 4, seed=6)],
            {"activation": "leaky_relu", "slope": 0.1, "padding": 1, "stride": 2, "residual_last": True},
        ),
        Sample(
            [normal(1, 9, 10, 8), normal(6, 3, 3, 8), normal(6), normal(1, 7, 8, 6, seed=6)],
            {"algorithm": "winograd", "activation": "relu", "residual_last": True},
        ),
        Sample(
            [normal(1, 5, 6, 3), normal(3, 3, 3, 1), None, normal(1, 3, 4, 3, seed=6)],
            {"groups": 3, "activation": "relu6", "residual_last": True},
        ),
        Sample([normal(1, 5, 6, 3), normal(4, 1, 1, 3), None, None], {"activation": "relu", "residual_last": True}),
    ],
    errors=[
        Bad(
            [*_IMAGE_48, None],
            ShapeError,
            r"^conv2d: x has 48 channels \(axis -1 of \[8, 56, 56, 48\]\) but weight \[64, 3, 3, 32\] expects 32$",
        ),
        Bad([*_IMAGE_48, None], ShapeError, r"expects 96 \(3 groups of 32\)", {"groups": 3}),
        Bad([normal(1, 4, 4, 4), normal(3, 1, 1, 2), None], ShapeError, "2 groups do not divide", {"groups": 2}),
        Bad([normal(4, 4, 4), normal(3, 1, 1, 4), None], ShapeError, r"x has 3 axes .* must have 4"),
        Bad([normal(1, 4, 4, 2), normal(3, 3, 3, 2), normal(4)], ShapeError, r"bias has shape \[4\]"),
        Bad(
            [normal(1, 4, 4, 2), normal(3, 3, 3, 2), None, normal(1, 1, 1, 3)],
            ShapeError,
            r"residual has shape \[1, 1, 1, 3\] but must have \[1, 2, 2, 3\]",
        ),
        Bad(
            [normal(1, 4, 9, 2), normal(3, 3, 3, 2), None],
            ShapeError,
            r"height 4, which with padding \(0, 0\) is less than the kernel's reach 5 \(3 taps, dilation 2\)",
            {"dilation": 2},
        ),
        Bad([normal(1, 4, 4, 2), normal(3, 3, 3, 2), None], AttributeValueError, "stride is 0", {"stride": 0}),
        Bad(
            [normal(1, 4, 4, 2), normal(3, 3, 3, 2), None],
            AttributeValueError,
            r"padding has 3 numbers; takes one, two",
            {"padding": (1, 2, 3)},
        ),
        Bad([normal(1, 4, 4, 2), normal(3, 3, 3, 2), None], AttributeValueError, "groups is 0", {"groups": 0}),
        Bad([normal(1, 4, 4, 2), normal(3, 3, 3, 2), None], AttributeValueError, "takes 'auto'", {"algorithm": "fft"}),
        Bad(
            [normal(1, 4, 4, 2), normal(3, 3, 3, 2), None],
            AttributeValueError,
            r"'winograd' takes 3 x 3 kernels .* stride 2 x 1, .* use 'auto'",
            {"algorithm": "winograd", "stride": (2, 1)},
        ),
        Bad(
            [normal(1, 8, 8, 2), normal(3, 3, 3, 2), None],
            AttributeValueError,
            r"'winograd' takes .* dilation where padding keeps the image's size, .* dilation 2 x 2, .* use 'auto'",
            {"algorithm": "winograd", "dilation": 2, "padding": 1},
        ),
    ],
)


def _separable(
    x, depth_weight, weight, depth_bias=None, bias=None, residual=None,
    depth_activation="none", depth_slope=0.01, activation="none", slope=0.01, residual_last=False, **window,
):  # fmt: skip
    depth = _conv2d(x, depth_weight, depth_bias, None, depth_activation, depth_slope, **window)
    return _conv2d(depth, weight, bias, residual, activation, slope, residual_last)


_SEPARABLE = [normal(1, 5, 6, 3), normal(3, 3, 3, 1, seed=1), normal(4, 1, 1, 3, seed=2)]

spec(
    "separable_conv2d",
    reference=_separable,
    roundings=ROUNDINGS,
    samples=[
        Sample([*_SEPARABLE, None, None, None], {"groups": 3, "padding": 1}),
        Sample(
            [normal(2, 7, 6, 5), normal(5, 3, 3, 1, seed=1), normal(6, 1, 1, 5, seed=2), normal(5), normal(6), None],
            {"groups": 5, "padding": 1, "stride": 2, "depth_activation": "relu6", "activation": "relu"},
        ),
        Sample(
            [*_SEPARABLE, normal(3), None, normal(1, 5, 6, 4, seed=3)],
            {"groups": 3, "padding": 2, "dilation": 2, "depth_activation": "leaky_relu", "depth_slope": 0.1},
        ),
        Sample(
            [*_SEPARABLE, None, normal(4), normal(1, 3, 4, 4, seed=3)],
            {"groups": 3, "activation": "leaky_relu", "slope": 0.2, "residual_last": True, "depth_activation": "relu"},
        ),
        Sample([normal(0, 3, 3, 2), normal(2, 3, 3, 1), normal(4, 1, 1, 2), None, None, None], {"groups": 2}),
    ],
    errors=[
        Bad(
            [normal(1, 5, 6, 4), normal(4, 3, 3, 2), normal(4, 1, 1, 4), None, None, None],
            ShapeError,
            r"depth_weight \[4, 3, 3, 2\] with 2 groups is not depthwise .* must be \[4, R, S, 1\] with 4 groups",
            {"groups": 2},
        ),
        Bad(
            [*_SEPARABLE[:2], normal(4, 3, 3, 3), None, None, None],
            ShapeError,
            r"weight has shape \[4, 3, 3, 3\] but must have \[4, 1, 1, 3\]",
            {"groups": 3},
        ),
        Bad([*_SEPARABLE, normal(4), None, None], ShapeError, r"depth_bias has shape \[4\]", {"groups": 3}),
        Bad([*_SEPARABLE, None, normal(3), None], ShapeError, r"bias has shape \[3\]", {"groups": 3}),
        Bad([*_SEPARABLE, None, None, normal(1, 1, 1, 4)], ShapeError, r"residual has shape", {"groups": 3}),
        Bad(
            [*_SEPARABLE, None, None, None],
            AttributeValueError,
            r"depth_activation is 'elu'; takes 'none'",
            {"groups": 3, "depth_activation": "elu"},
        ),
        Bad(
            [*_SEPARABLE, None, None, None],
            AttributeValueError,
            r"depth_slope is -1 but must be at least 0",
            {"groups": 3, "depth_activation": "leaky_relu", "depth_slope": -1.0},
        ),
    ],
)
spec(
    "conv2d_grad_input",
    reference=_grad_input,
    roundings=ROUNDINGS,
    samples=[Sample([_dy(x, w, a), normal(*w, seed=1), normal(*x)], a) for x, w, a in CASES],
    errors=[
        Bad(
            [normal(1, 4, 4, 3), normal(3, 3, 3, 2), normal(1, 4, 4, 2)],
            ShapeError,
            r"dy has shape \[1, 4, 4, 3\] but must have \[1, 2, 2, 3\]",
        )
    ],
)
spec(
    "conv2d_grad_weight",
    reference=_grad_weight,
    roundings=ROUNDINGS,
    samples=[Sample([normal(*x), _dy(x, w, a), normal(*w, seed=1)], a) for x, w, a in CASES],
    errors=[
        Bad(
            [normal(1, 4, 4, 2), normal(1, 4, 4, 3), normal(3, 3, 3, 2)],
            ShapeError,
            r"dy has shape \[1, 4, 4, 3\] but must have \[1, 2, 2, 3\]",
        )
    ],
)
spec(
    "conv2d_transpose",
    reference=_transpose,
    roundings=ROUNDINGS,
    samples=[
        Sample([normal(2, 3, 4, 3), normal(3, 2, 2, 5), normal(5)], {"stride": 2}),
        Sample([normal(1, 4, 3, 4), normal(4, 3, 3, 2), None], {"stride": 2, "padding": 1, "output_padding": 1}),
        Sample([normal(1, 4, 3, 4), normal(4, 3, 3, 2), normal(4)], {"groups": 2, "padding": (0, 1, 1, 0)}),
        Sample([normal(1, 4, 3, 2), normal(2, 3, 2, 2), None], {"dilation": 2, "stride": (3, 1)}),
        Sample([normal(1, 5, 6, 3), normal(3, 3, 3, 4), None], {"padding": 1, "algorithm": "direct"}),
        Sample([normal(1, 5, 6, 0), normal(0, 3, 3, 4), normal(4)], {"padding": 1}),
    ],
    errors=[
        Bad([normal(1, 4, 4, 3), normal(2, 3, 3, 5), None], ShapeError, r"x has 3 channels .* expects 2"),
        Bad(
            [normal(1, 4, 4, 2), normal(2, 3, 3, 5), None],
            AttributeValueError,
            r"output_padding is 2 but must lie in \[0, 1\]",
            {"stride": 2, "output_padding": 2},
        ),
        Bad([normal(1, 1, 4, 2), normal(2, 1, 1, 5), None], ShapeError, "leaves nothing", {"padding": 1}),
    ],
)
