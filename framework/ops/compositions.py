"""Functions that are written with other operators: they have their gradients and traces from those.

A fused operator (`fused_from` in its block) keeps here what it stands for, under the name it declares and with its own
inputs and attributes: the tests compare the two, and `through_composition` takes its gradient from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framework.errors import ShapeError
from framework.ops import functions
from framework.ops.activations import activated, before_activation
from framework.ops.attention import (  # noqa: F401  (found by name, see composition_of)
    ragged_attention,
    ragged_attention_grad,
    ragged_self_attention,
    ragged_self_attention_grad,
)
from framework.ops.dense_attention import (  # noqa: F401
    scaled_dot_product_attention,
    scaled_dot_product_attention_grad,
)
from framework.ops.dispatch import call_by_name
from framework.ops.functions import (
    concat,
    conv2d,
    dropout,
    expand_dims,
    flatten,
    layer_norm,
    matmul,
    reshape,
    rsqrt,
    split,
    square,
    squeeze,
)
from framework.ops.internal import batch_norm_grad, layer_norm_grad, unreduce
from framework.ops.tape import parse_tape
from framework.tensors import Tensor

if TYPE_CHECKING:
    from framework.ops.registry import OpInfo


def composition_of(info: OpInfo) -> Callable[..., Any]:
    """The function that a fused operator stands for: takes its inputs by position, its attributes by name."""
    return globals()[info.composition]


def stack(xs: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Joins tensors of one shape along a new axis.

    Args:
        xs: S tensors of shape [...].
        axis: where the new axis, of extent S, stands in the result; negative counts from its end.

    Raises:
        ShapeError: there is nothing to join, or the shapes differ.
    """
    if not xs:
        raise ShapeError("stack: there is nothing to join; give at least one tensor")
    return concat([expand_dims(x, axis=axis) for x in xs], axis=axis)


def unstack(x: Tensor, axis: int = 0) -> list[Tensor]:
    """The slices of `x` along an axis, which they lose: what undoes `stack`.

    The number of slices is read from x's shape; inside a trace this ties the Program to that extent.

    Raises:
        ShapeError: x has no axes.
    """
    if x.ndim == 0:
        raise ShapeError("unstack: a tensor without axes has no slices")
    parts = split(x, axis=axis, sizes=[1] * x.shape[axis]) if x.shape[axis] else ()
    return [squeeze(part, axis=axis) for part in parts]


def _with_residual(x: Tensor, residual: Tensor | None, activation: str, slope: float, residual_last: bool) -> Tensor:
    if residual is None:
        return activated(x, activation, slope)
    if residual_last:
        return activated(x, activation, slope) + residual
    return activated(x + residual, activation, slope)


def separable_conv2d(
    x: Tensor,
    depth_weight: Tensor,
    weight: Tensor,
    depth_bias: Tensor | None = None,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    depth_activation: str,
    depth_slope: float,
    activation: str,
    slope: float,
    residual_last: bool,
    **window: Any,
) -> Tensor:
    """A depthwise and a 1 x 1 convolution.  x: [N, H, W, C]; weight: [K, 1, 1, C]; residual, y: [N, P, Q, K]."""
    depth = conv2d(x, depth_weight, depth_bias, **window)
    y = conv2d(activated(depth, depth_activation, depth_slope), weight, bias)
    return _with_residual(y, residual, activation, slope, residual_last)


def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    residual: Tensor | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
    residual_last: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm, then the residual and the activation.  x, residual, y: [..., C]; the others: [C]."""
    y, mean, var = functions.batch_norm(x, scale, bias, eps=eps)
    return _with_residual(y, residual, activation, slope, residual_last), mean, var


def batch_norm_inference(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    residual: Tensor | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
    residual_last: bool,
) -> Tensor:
    """Batch norm with given statistics, then the residual and the activation.  x, y: [..., C]; the others: [C]."""
    y = functions.batch_norm_inference(x, scale, bias, mean, var, eps=eps)
    return _with_residual(y, residual, activation, slope, residual_last)


def batch_norm_activation_grad(
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    dmean: Tensor | None = None,
    dvar: Tensor | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
) -> tuple[Tensor, ...]:
    """The gradient through the activation, then batch_norm_grad.  dy, x, dx: [..., C]; the others: [C]."""
    normalised = functions.batch_norm_inference(x, scale, bias, mean, var, eps=eps)
    dz = before_activation(dy, normalised, activation, slope)
    return batch_norm_grad(dz, x, scale, mean, var, dmean, dvar, eps=eps)


def batch_norm_residual_grad(
    dy: Tensor,
    y: Tensor,
    x: Tensor,
    scale: Tensor,
    mean: Tensor,
    var: Tensor,
    dmean: Tensor | None = None,
    dvar: Tensor | None = None,
    *,
    eps: float,
    activation: str,
    slope: float,
) -> tuple[Tensor, ...]:
    """The gradient through the activation, which the residual gets, then batch_norm_grad of it."""
    dz = before_activation(dy, y, activation, slope)
    return (*batch_norm_grad(dz, x, scale, mean, var, dmean, dvar, eps=eps), dz)


def residual_layer_norm(
    x: Tensor,
    residual: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    key: Tensor | None = None,
    *,
    p: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Dropout of x, the residual's addition and layer norm.  x, residual, y, sum: [..., D]; scale, bias: [D]."""
    total = (x if key is None else dropout(x, key, p=p)) + residual
    y, mean, rstd = layer_norm(total, scale, bias, eps=eps)
    return y, total, mean, rstd


def residual_layer_norm_grad(
    dy: Tensor,
    sum: Tensor,
    mean: Tensor,
    rstd: Tensor,
    key: Tensor,
    scale: Tensor | None = None,
    dsum: Tensor | None = None,
    dmean: Tensor | None = None,
    drstd: Tensor | None = None,
    *,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """layer_norm_grad, the sum's own gradient added to it, and the dropout of that.  dx, dresidual: [..., D]."""
    dresidual, dscale, dbias = layer_norm_grad(dy, sum, mean, rstd, scale, dmean, drstd)
    dresidual = dresidual if dsum is None else dresidual + dsum
    return dropout(dresidual, key, p=p), dresidual, dscale, dbias


def rms_norm(x: Tensor, scale: Tensor | None = None, *, eps: float) -> tuple[Tensor, Tensor]:
    """x over the root of its mean square, times scale.  x, y: [..., D]; scale: [D]; rstd: [...]."""
    rstd = rsqrt(functions.mean(square(x), axes=(-1,)) + eps)
    y = x * expand_dims(rstd, axis=-1)
    return y if scale is None else y * scale, rstd


def rms_norm_grad(
    dy: Tensor, x: Tensor, rstd: Tensor, scale: Tensor | None = None, drstd: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gradients of rms_norm.  dy, x, dx: [..., D]; rstd, drstd: [...]; scale, dscale: [D]."""

    def column(t: Tensor) -> Tensor:
        return expand_dims(t, axis=-1)

    rate = column(rstd)
    g = dy if scale is None else dy * scale
    products = functions.mean(g * x, axes=(-1,), keepdims=True)
    if drstd is not None:  # drstd / D, in every column
        products = products + unreduce(column(drstd), x, axes=(-1,), keepdims=True, average=True)
    dx = g * rate - x * rate * rate * rate * products
    dscale = functions.sum(dy * x * rate, axes=tuple(range(x.ndim - 1))) if x.ndim > 1 else dy * x * rate
    return dx, dscale


def pairs_of(x: Tensor, cos: Tensor, heads: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    """The two columns of each pair that rotary_embedding turns.  x: [..., T, D]; both: [..., T, heads, R / 2]."""
    turned, _ = _turned_and_rest(x, cos, heads)
    lead = (0,) * x.ndim
    parts = reshape(turned, shape=(*lead, -1, 2) if interleaved else (*lead, 2, -1))
    axis = -1 if interleaved else -2
    a, b = split(parts, axis=axis, sizes=(1, 1))
    return squeeze(a, axis=axis), squeeze(b, axis=axis)


def _turned_and_rest(x: Tensor, cos: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """The columns of each head that are turned and those that stay.  x: [..., T, D]; both: [..., T, heads, _]."""
    by_head = reshape(x, shape=(*(0,) * (x.ndim - 1), heads, -1))
    columns = 2 * cos.shape[-1]
    return by_head[..., :columns], by_head[..., columns:]


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, *, heads: int, interleaved: bool) -> Tensor:
    """Every pair (a, b) of a head's columns as (a cos - b sin, a sin + b cos).  x, y: [..., T, D]; cos: [T, R / 2]."""
    a, b = pairs_of(x, cos, heads, interleaved)
    _, rest = _turned_and_rest(x, cos, heads)
    u, v = (expand_dims(t, axis=-2) for t in (cos, sin))
    axis = -1 if interleaved else -2
    halves = [expand_dims(t, axis=axis) for t in (a * u - b * v, a * v + b * u)]
    turned = flatten(concat(halves, axis=axis), start=-2, end=-1)
    return flatten(concat([turned, rest], axis=-1), start=-2, end=-1)


def chain(like: Tensor | None, *xs: Tensor, tape: str) -> Tensor:
    """The statements of a tape, one operator after another.

    Args:
        like: gives the shape where the tape reads `like`.
        xs: the inputs x0, x1, ... of the tape.
        tape: the statements; see `framework.ops.tape`.
    """
    values: dict[str, Tensor | None] = {"like": like} | {f"x{i}": x for i, x in enumerate(xs)}
    result: Tensor | None = None
    for i, statement in enumerate(parse_tape(tape)):
        inputs = [values[name] for name in statement.arguments]
        result = values[f"t{i}"] = call_by_name(statement.operator, inputs, **statement.attrs)
    assert result is not None
    return result


def matmul_activation_grad(
    a: Tensor, b: Tensor, at: Tensor, *, transpose_a: bool, transpose_b: bool, activation: str, slope: float
) -> Tensor:
    """The product, then the gradient through the activation.  at, dz: [..., M, K]."""
    dy = matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return before_activation(dy, at, activation, slope)
