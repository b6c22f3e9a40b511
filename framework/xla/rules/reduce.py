"""Reductions and running sums. float32 is added in float32, in the tree that XLA chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, jnp_type, rule, wide


def _axes(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a % x.ndim for a in axes) if axes else tuple(range(x.ndim))


def _declare(name: str, function: Callable[..., Array]) -> None:
    @rule(name)
    def apply(call: Call, x: Array, *, axes: tuple[int, ...], keepdims: bool, **attrs: Any) -> Array:
        return function(wide(x), _axes(x, axes), keepdims, **attrs)


def _whole(x: Array) -> Array:
    """What sums and products of whole numbers are computed in."""
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.int64)


def _extreme(least: bool) -> Callable[..., Array]:
    def reduce(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        return (jnp.min if least else jnp.max)(x, axis=axes, keepdims=keepdims)

    return reduce


def _logsumexp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    top = jnp.max(x, axis=axes, keepdims=True, initial=-jnp.inf)
    safe = jnp.where(jnp.isfinite(top), top, 0)
    total = jnp.log(jnp.sum(jnp.exp(x - safe), axis=axes, keepdims=True)) + safe
    return total if keepdims else jnp.squeeze(total, axes)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def _var(x: Array, axes: tuple[int, ...], keepdims: bool, correction: float) -> Array:
    far = x - jnp.mean(x, axis=axes, keepdims=True)
    return jnp.sum(far * far, axis=axes, keepdims=keepdims) / jnp.asarray(_count(x, axes) - correction, x.dtype)


_declare("sum", lambda x, axes, keepdims: jnp.sum(_whole(x), axis=axes, keepdims=keepdims))
_declare(
    "mean", lambda x, axes, keepdims: jnp.sum(x, axis=axes, keepdims=keepdims) / jnp.asarray(_count(x, axes), x.dtype)
)
_declare("prod", lambda x, axes, keepdims: jnp.prod(_whole(x), axis=axes, keepdims=keepdims))
_declare("max", _extreme(False))
_declare("min", _extreme(True))
_declare("any", lambda x, axes, keepdims: jnp.any(x != 0, axis=axes, keepdims=keepdims))
_declare("all", lambda x, axes, keepdims: jnp.all(x != 0, axis=axes, keepdims=keepdims))
_declare("logsumexp", _logsumexp)
_declare("var", _var)
_declare("std", lambda x, axes, keepdims, correction: jnp.sqrt(_var(x, axes, keepdims, correction)))


def _expanded(dy: Array, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return dy if keepdims else jnp.expand_dims(dy, axes)


@rule("var_grad")
def _var_grad(call: Call, dy: Array, x: Array, *, axes: tuple[int, ...], keepdims: bool, correction: float) -> Array:
    dy, x, over = wide(dy), wide(x), _axes(x, axes)
    far = x - jnp.mean(x, axis=over, keepdims=True)
    return 2 * _expanded(dy, x, over, keepdims) * far / jnp.asarray(_count(x, over) - correction, x.dtype)


@rule("unreduce")
def _unreduce(call: Call, x: Array, like: Array, *, axes: tuple[int, ...], keepdims: bool, average: bool) -> Array:
    over = _axes(like, axes)
    spread = jnp.broadcast_to(_expanded(wide(x), like, over, keepdims), like.shape)
    return spread / jnp.asarray(_count(like, over), spread.dtype) if average else spread


@rule("argmax")
def _argmax(call: Call, x: Array, *, axis: int, keepdims: bool) -> Array:
    return jnp.argmax(x, axis=axis, keepdims=keepdims)


@rule("argmin")
def _argmin(call: Call, x: Array, *, axis: int, keepdims: bool) -> Array:
    return jnp.argmin(x, axis=axis, keepdims=keepdims)


def _running(x: Array) -> Array:
    """What running sums and products are kept in: float32 in float64."""
    return x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.int64)


@rule("cumsum")
def _cumsum(call: Call, x: Array, *, axis: int, reverse: bool) -> Array:
    return lax.cumsum(_running(x), axis % x.ndim, reverse)


@rule("cumprod")
def _cumprod(call: Call, x: Array, *, axis: int, reverse: bool) -> Array:
    return lax.cumprod(_running(x), axis % x.ndim, reverse)


@rule("linear_scan")
def _linear_scan(call: Call, a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """Two stretches of the recurrence, y -> a y + b each, are one of a2 a1 and a2 b1 + b2."""

    def join(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * then[0], then[0] * first[1] + then[1]

    return lax.associative_scan(join, (_running(a), _running(b)), reverse=reverse, axis=axis % a.ndim)[1]


@rule("cumprod_grad")
def _cumprod_grad(call: Call, dy: Array, x: Array, *, axis: int, reverse: bool) -> Array:
    x, dy = (jnp.moveaxis(_running(a), axis, 0) for a in (x, dy))
    if reverse:
        x, dy = x[::-1], dy[::-1]
    one = jnp.ones_like(x[:1])
    before = jnp.concatenate([one, lax.cumprod(x, 0)[:-1]])
    following = jnp.concatenate([x[1:], jnp.zeros_like(one)])

    def join(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        """s = d + f * s of the later element, as pairs (f, d) of affine maps."""
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    _, suffix = lax.associative_scan(join, (following, dy), reverse=True)
    dx = before * suffix
    return jnp.moveaxis(dx[::-1] if reverse else dx, 0, axis)


@rule("softmax")
def _softmax(call: Call, x: Array, *, axis: int) -> Array:
    return jax.nn.softmax(wide(x), axis) if x.size else x


@rule("log_softmax")
def _log_softmax(call: Call, x: Array, *, axis: int) -> Array:
    return jax.nn.log_softmax(wide(x), axis) if x.size else x


def log_probabilities(x: Array) -> Array:
    """log_softmax over the last axis."""
    return jax.nn.log_softmax(wide(x), -1)


_NOTHING_IGNORED = -(2**63)


def _rows(call: Call, logits: Array, labels: Array, ignore_index: int, from_end: bool) -> tuple[Array, Array]:
    """The class of each row, in range, and which rows count; the run fails where a label is out of range."""
    labels = labels.astype(jnp.int64)
    classes = logits.shape[-1]
    counts = jnp.ones(labels.shape, bool) if ignore_index == _NOTHING_IGNORED else labels != ignore_index
    low = -classes if from_end else 0
    call.refuse_where(
        counts & ((labels < low) | (labels >= classes)), labels, f"label {{}} is outside of [{low}, {classes})"
    )
    found = jnp.where(labels < 0, labels + classes, labels) if from_end else labels
    return jnp.clip(jnp.where(counts, found, 0), 0, classes - 1), counts


@rule("cross_entropy")
def _cross_entropy(
    call: Call, logits: Array, labels: Array, *, ignore_index: int, label_smoothing: float, from_end: bool
) -> Array:
    found, counts = _rows(call, logits, labels, ignore_index, from_end)
    logs = log_probabilities(logits)
    loss = -jnp.take_along_axis(logs, found[..., None], -1)[..., 0]
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * jnp.mean(logs, -1)
    return jnp.where(counts, loss, 0)


@rule("cross_entropy_grad")
def _cross_entropy_grad(
    call: Call,
    dloss: Array,
    logits: Array,
    labels: Array,
    *,
    ignore_index: int,
    label_smoothing: float,
    from_end: bool,
) -> Array:
    found, counts = _rows(call, logits, labels, ignore_index, from_end)
    classes = logits.shape[-1]
    x = wide(logits)
    target = jax.nn.one_hot(found, classes, dtype=x.dtype) * (1 - label_smoothing) + label_smoothing / classes
    grad = (jax.nn.softmax(x, -1) - target) * wide(dloss)[..., None]
    return jnp.where(counts[..., None], grad, 0).astype(jnp_type(call.dtype))


@rule("soft_cross_entropy")
def _soft_cross_entropy(call: Call, logits: Array, targets: Array) -> Array:
    products = jnp.where(targets == 0, 0, wide(targets) * log_probabilities(logits))
    return -jnp.sum(products, -1)


@rule("sigmoid_cross_entropy")
def _sigmoid_cross_entropy(call: Call, logits: Array, targets: Array) -> Array:
    x, t = wide(logits), wide(targets)
    return jnp.maximum(x, 0) - x * t + jnp.log1p(jnp.exp(-jnp.abs(x)))
