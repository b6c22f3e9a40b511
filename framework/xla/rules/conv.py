"""Convolutions, products of matrices and pooling: what a network spends its time in.

Gradients of linear operators are taken by `jax.linear_transpose`, whose forms XLA knows as backward convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from framework.xla.lower import Array, Call, linear_transpose, rule, wide
from framework.xla.rules.elementwise import activated

Pair = tuple[int, int]


def _pair(numbers: Sequence[int]) -> Pair:
    return (numbers[0], numbers[-1])


def _borders(padding: Sequence[int]) -> list[Pair]:
    """Rows above and below, columns left and right."""
    if len(padding) == 4:
        return [(padding[0], padding[1]), (padding[2], padding[3])]
    height, width = _pair(padding)
    return [(height, height), (width, width)]


def convolve(
    call: Call,
    x: Array,
    weight: Array,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """The sums of conv2d.  x: [N, H, W, C]; weight: [K, R, S, C/groups]; y: [N, P, Q, K]."""
    pixels, taps = call.lowering.factor(x), call.lowering.factor(weight)
    if call.lowering.platform in ("cpu", "gpu") and groups == x.shape[3] > 1 and x.size:
        sums = _depthwise(wide(pixels), wide(taps), _pair(stride), _borders(padding), _pair(dilation))
        return sums.astype(x.dtype)
    return plain_sums(pixels, taps, stride=stride, padding=padding, dilation=dilation, groups=groups).astype(x.dtype)


def plain_sums(
    x: Array,
    weight: Array,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """`convolve` of numbers as they are, whole ones too, by XLA's own operation."""
    return lax.conv_general_dilated(
        x,
        weight,
        _pair(stride),
        _borders(padding),
        rhs_dilation=_pair(dilation),
        dimension_numbers=("NHWC", "OHWI", "NHWC"),
        feature_group_count=groups,
    )


def _depthwise(x: Array, weight: Array, stride: Pair, borders: Sequence[Pair], dilation: Pair) -> Array:
    """A depthwise convolution as a sum of shifted images.

    What XLA makes of the other form is far slower on a CPU, and takes minutes to compile on a GPU, where XLA tries
    cuDNN's algorithms for it one after the other.
    """
    padded = jnp.repeat(jnp.pad(x, [(0, 0), *borders, (0, 0)]), weight.shape[0] // x.shape[3], 3)
    _, taps_h, taps_w, _ = weight.shape
    extents = [
        (padded.shape[i + 1] - dilation[i] * (taps - 1) - 1) // stride[i] + 1 for i, taps in enumerate((taps_h, taps_w))
    ]
    out = jnp.zeros((), x.dtype)
    for r in range(taps_h):
        for s in range(taps_w):
            top, left = r * dilation[0], s * dilation[1]
            bottom, right = top + (extents[0] - 1) * stride[0] + 1, left + (extents[1] - 1) * stride[1] + 1
            out = out + padded[:, top : bottom : stride[0], left : right : stride[1]] * weight[:, r, s, 0]
    return out


def finished(
    y: Array,
    residual: Array | None,
    activation: str,
    slope: float,
    residual_last: bool = False,
) -> Array:
    """The residual and the activation, in their order."""
    return ended(y, residual, lambda v: activated(v, activation, slope), residual_last)


def ended(y: Array, residual: Array | None, end: Callable[[Array], Array], residual_last: bool) -> Array:
    """`end` of y, and the residual before it or behind."""
    if residual is None:
        return end(y)
    return end(y) + residual if residual_last else end(y + residual)


def alike(a: Array, b: Array) -> tuple[Array, Array]:
    """Both of one type: where half types meet float32, as a weight's whose cast was left out, both as float32."""
    return (a, b) if a.dtype == b.dtype else (wide(a), wide(b))


@rule("conv2d")
def _conv2d(
    call: Call,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    algorithm: str,
    activation: str,
    slope: float,
    residual_last: bool,
    **window: Any,
) -> Array:
    y = wide(convolve(call, *alike(x, weight), **window))
    y = y if bias is None else y + wide(bias)
    return finished(y, None if residual is None else wide(residual), activation, slope, residual_last)


@rule("conv2d_grad_input")
def _conv2d_grad_input(call: Call, dy: Array, weight: Array, like: Array, *, algorithm: str, **window: Any) -> Array:
    dy, weight = alike(dy, weight)
    return linear_transpose(lambda x: convolve(call, x, weight, **window), like, dy)


@rule("conv2d_grad_weight")
def _conv2d_grad_weight(call: Call, x: Array, dy: Array, like: Array, *, algorithm: str, **window: Any) -> Array:
    x, dy = alike(x, dy)
    return linear_transpose(lambda w: convolve(call, x, w, **window), like, dy)


@rule("conv2d_transpose")
def _conv2d_transpose(
    call: Call,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    algorithm: str,
    output_padding: tuple[int, ...],
    **window: Any,
) -> Array:
    x, weight = alike(x, weight)
    like = jax.ShapeDtypeStruct(call.shape, x.dtype)
    y = linear_transpose(lambda image: convolve(call, image, weight, **window), like, x)
    return wide(y) if bias is None else wide(y) + wide(bias)


def product(call: Call, a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """a b of the last two axes; half types are summed in float32."""
    a, b = call.lowering.factor(a), call.lowering.factor(b)
    a = jnp.swapaxes(a, -1, -2) if transpose_a else a
    b = jnp.swapaxes(b, -1, -2) if transpose_b else b
    return jnp.matmul(a, b, preferred_element_type=wide(jnp.zeros((), a.dtype)).dtype)


@rule("matmul")
def _matmul(
    call: Call,
    a: Array,
    b: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str,
    slope: float,
) -> Array:
    y = product(call, a, b, transpose_a, transpose_b)
    y = y if bias is None else y + wide(bias)
    return finished(y, None if residual is None else wide(residual), activation, slope)


@rule("quantized_matmul")
def _quantized_matmul(
    call: Call,
    x: Array,
    weight: Array,
    weight_scale: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    x_scale: Array | None = None,
    *,
    activation: str,
    slope: float,
    x_most: int,
    algorithm: str,
) -> Array:
    if x_scale is None:
        largest = jnp.max(jnp.abs(x), -1, keepdims=True, initial=0)
        strange = ~jnp.isfinite(largest)
        tiny = largest < x_most * 3e-39
        scale = jnp.where(tiny | strange, 1, largest / x_most).astype(jnp.float32)
        q = jnp.where(tiny | strange, 0, jnp.round(x / scale))
    else:
        scale = x_scale
        strange = jnp.any(jnp.isnan(x), -1, keepdims=True)
        q = jnp.clip(jnp.round(jnp.where(strange, 0, x) / scale), -x_most, x_most)
    whole, factors = (q.astype(jnp.int8), weight) if x_most <= 127 else (q.astype(jnp.int32), weight.astype(jnp.int32))
    sums = jnp.matmul(whole, factors.T, preferred_element_type=jnp.int32)
    y = sums.astype(jnp.float32) * (scale * weight_scale)
    y = jnp.where(strange, jnp.nan, y if bias is None else y + bias)
    return finished(y, residual, activation, slope)


# -- pooling
def _window(x: Any, call_shape: Sequence[int], kernel: Pair, stride: Pair, padding: Sequence[int]) -> list[Pair]:
    """Borders that give as many windows as the shape rule says: with `ceil_mode` the last may leave the image."""
    borders = _borders(padding)
    for i in range(2):
        needed = (call_shape[i + 1] - 1) * stride[i] + kernel[i] - x.shape[i + 1] - borders[i][0]
        borders[i] = (borders[i][0], needed)
    return borders


def _pooled(x: Array, kernel: Pair, stride: Pair, borders: Sequence[Pair], start: float, merge: Any) -> Array:
    wanted = [(0, 0), *((low, max(high, 0)) for low, high in borders), (0, 0)]
    cut = x[:, : x.shape[1] + min(borders[0][1], 0), : x.shape[2] + min(borders[1][1], 0)]
    return lax.reduce_window(cut, np.asarray(start, x.dtype), merge, (1, *kernel, 1), (1, *stride, 1), wanted)


def _max_pool(
    call_shape: Sequence[int], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> Any:
    size, step = _pair(kernel), _pair(stride or kernel)

    def pool(x: Array) -> Array:
        least = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
        return _pooled(x, size, step, _window(x, call_shape, size, step, padding), least, lax.max)

    return pool


def _first_largest(
    call_shape: Sequence[int], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> Any:
    """Max pooling whose derivative goes to the first largest value of a window, NaNs and infinities included."""
    size, step = _pair(kernel), _pair(stride or kernel)
    rows, columns = call_shape[1], call_shape[2]

    def taps(x: Array, fill: Any, borders: Sequence[Pair]) -> list[Array]:
        wide_enough = lax.pad(
            x, jnp.asarray(fill, x.dtype), [(0, 0, 0), *((low, high, 0) for low, high in borders), (0, 0, 0)]
        )
        return [
            wide_enough[:, r : r + (rows - 1) * step[0] + 1 : step[0], s : s + (columns - 1) * step[1] + 1 : step[1]]
            for r in range(size[0])
            for s in range(size[1])
        ]

    def pool(x: Array) -> Array:
        """Compares tap after tap: a device fuses that, and its derivative, where an index would scatter."""
        borders = _window(x, call_shape, size, step, padding)
        values = taps(x, 0, borders)
        inside = taps(jnp.ones(x.shape, bool), False, borders)
        lowest = jnp.finfo(x.dtype).min
        top: Array = jnp.full((), -jnp.inf, x.dtype)
        best: Array = jnp.zeros((), jnp.int32)
        for i, (value, there) in enumerate(zip(values, inside, strict=True)):
            key = jnp.where(there, jnp.maximum(lax.stop_gradient(value), lowest), -jnp.inf)
            better = (key > top) | (jnp.isnan(key) & ~jnp.isnan(top))  # a NaN is the largest
            top, best = jnp.where(better, key, top), jnp.where(better, i, best)
        return sum((jnp.where(best == i, value, 0) for i, value in enumerate(values)), start=jnp.zeros((), x.dtype))

    return pool


def _declare_max_pool(name: str, pool_of: Callable[..., Any], gradient_of: Callable[..., Any]) -> None:
    @rule(name)
    def forward(call: Call, x: Array, **attrs: Any) -> Array:
        attrs.pop("ceil_mode", None)
        return pool_of(call.shape, **attrs)(x)

    @rule(f"{name}_grad")
    def gradient(call: Call, dy: Array, x: Array, **attrs: Any) -> Array:
        attrs.pop("ceil_mode", None)
        _, back = jax.vjp(gradient_of(dy.shape, **attrs), wide(x))
        return back(wide(dy))[0]

    @rule(f"{name}_pick")
    def pick(call: Call, v: Array, x: Array, **attrs: Any) -> Array:
        attrs.pop("ceil_mode", None)
        return jax.jvp(gradient_of(call.shape, **attrs), (wide(x),), (wide(v),))[1]


_declare_max_pool("max_pool2d", _max_pool, _first_largest)


def _averages(
    shape: Sequence[int],
    extents: Sequence[int],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
    dtype: Any,
) -> tuple[Pair, Pair, np.ndarray]:
    """The window, its step, and by how many pixels each window's sum is divided, [P, Q, 1]."""
    size, step, borders = _pair(kernel), _pair(stride or kernel), _borders(padding)
    counts = []
    for i in range(2):
        start = np.arange(shape[i + 1]) * step[i] - borders[i][0]
        end = np.minimum(start + size[i], extents[i] + borders[i][1])
        counts.append(end - start if count_include_pad else np.minimum(end, extents[i]) - np.maximum(start, 0))
    return size, step, (counts[0][:, None] * counts[1][None, :])[..., None].astype(dtype)


def _avg_pool(
    shape: Sequence[int],
    extents: Sequence[int],
    dtype: Any,
    *,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Any:
    size, step, counts = _averages(shape, extents, kernel, stride, padding, count_include_pad, dtype)

    def pool(x: Array) -> Array:
        return _pooled(x, size, step, _window(x, shape, size, step, padding), 0, lax.add) / counts

    return pool


@rule("avg_pool2d")
def _avg_pool2d(call: Call, x: Array, **attrs: Any) -> Array:
    x = wide(x)
    return _avg_pool(call.shape, x.shape[1:3], x.dtype, **attrs)(x)


@rule("avg_pool2d_grad")
def _avg_pool2d_grad(call: Call, dy: Array, like: Array, **attrs: Any) -> Array:
    dy = wide(dy)
    return linear_transpose(_avg_pool(dy.shape, like.shape[1:3], dy.dtype, **attrs), like, dy)


def _bins(extent: int, count: int) -> list[Pair]:
    """First and last row of each of PyTorch's adaptive windows."""
    return [(p * extent // count, -(-(p + 1) * extent // count)) for p in range(count)]


def _mean_matrix(extent: int, count: int, dtype: Any) -> np.ndarray:
    """[count, extent]: each row averages a window."""
    out = np.zeros((count, extent))
    for p, (first, last) in enumerate(_bins(extent, count)):
        out[p, first:last] = 1 / (last - first)
    return out.astype(dtype)


def along_rows_and_columns(x: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Mixes rows, then columns, by constant matrices.  x: [N, H, W, C]; rows: [P, H]; columns: [Q, W]."""
    mixed = jnp.einsum("ph,nhwc->npwc", rows, x, precision=lax.Precision.HIGHEST)
    return jnp.einsum("qw,npwc->npqc", columns, mixed, precision=lax.Precision.HIGHEST)


@rule("adaptive_avg_pool2d")
def _adaptive_avg_pool2d(call: Call, x: Array, *, size: tuple[int, ...]) -> Array:
    x = wide(x)
    rows, columns = (_mean_matrix(x.shape[i], call.shape[i], x.dtype) for i in (1, 2))
    return along_rows_and_columns(x, rows, columns)


@rule("adaptive_avg_pool2d_grad")
def _adaptive_avg_pool2d_grad(call: Call, dy: Array, like: Array, *, size: tuple[int, ...]) -> Array:
    dy = wide(dy)
    rows, columns = (_mean_matrix(like.shape[i], dy.shape[i], dy.dtype) for i in (1, 2))
    return along_rows_and_columns(dy, rows.T, columns.T)


def _adaptive_max(call_shape: Sequence[int], *, size: tuple[int, ...]) -> Any:
    def pool(x: Array) -> Array:
        rows = []
        for top, bottom in _bins(x.shape[1], call_shape[1]):
            row = []
            for left, right in _bins(x.shape[2], call_shape[2]):
                pixels = (bottom - top) * (right - left)
                window = x[:, top:bottom, left:right].reshape(x.shape[0], pixels, x.shape[3])
                best = jnp.argmax(lax.stop_gradient(window), 1, keepdims=True)
                row.append(jnp.take_along_axis(window, best, 1))
            rows.append(jnp.concatenate(row, 1))
        return jnp.stack(rows, 1)

    return pool


_declare_max_pool("adaptive_max_pool2d", _adaptive_max, _adaptive_max)
