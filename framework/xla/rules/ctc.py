"""Connectionist temporal classification: the forward algorithm, all sequences a step at a time, padded."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, rule
from framework.xla.rules.ragged import checked, longest, to_padded

_NEVER = -1e30  # of states that no path has reached: finite, so that no difference of two is NaN


def _losses(logits: Array, at: Array, labels: Array, ends: Array, blank: int, bounds: tuple[int, int]) -> Array:
    """[B], infinite where the labels do not fit; labels are in range."""
    rows, there = to_padded(jnp.maximum(jax.nn.log_softmax(logits), _NEVER), at, bounds[0])
    count = ends[1:] - ends[:-1]
    sequences, states = rows.shape[0], 2 * bounds[1] + 1
    classes = jnp.full((sequences, states), blank, jnp.int64)
    over = jnp.full((sequences, states), _NEVER, rows.dtype)
    if bounds[1]:
        found = to_padded(labels, ends, bounds[1])[0]
        classes = classes.at[:, 1::2].set(found)
        over = over.at[:, 3::2].set(jnp.where(found[:, 1:] != found[:, :-1], 0, _NEVER))
    scores = jnp.take_along_axis(rows, jnp.broadcast_to(classes[:, None], (*rows.shape[:2], states)), 2)
    behind = jnp.arange(states) > 2 * count[:, None]  # of shorter labels

    def one(alpha: Array, row: Any) -> Any:
        score, on = row
        before = jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=_NEVER)
        following = jax.nn.logsumexp(jnp.stack([alpha, before[:, 1:-1], before[:, :-2] + over]), axis=0) + score
        return jnp.where(on[:, None], jnp.where(behind, _NEVER, following), alpha), None

    first = jnp.where((jnp.arange(states) < 2) & ~behind, scores[:, 0], _NEVER)
    alpha, _ = lax.scan(one, first, (jnp.swapaxes(scores[:, 1:], 0, 1), there[:, 1:].T))
    last = jnp.take_along_axis(alpha, (2 * count)[:, None], 1)[:, 0]
    label = jnp.take_along_axis(alpha, jnp.maximum(2 * count - 1, 0)[:, None], 1)[:, 0]
    total = jnp.where(count > 0, jnp.logaddexp(last, label), last)
    total = jnp.where(at[1:] > at[:-1], total, jnp.where(count > 0, _NEVER, 0))
    return jnp.where(total > _NEVER / 2, -total, jnp.inf)


def _given(call: Call, logits: Array, offsets: Array, labels: Array, label_offsets: Array) -> Any:
    """Checked offsets, labels, label offsets, and the bounds of both lengths."""
    rows, classes = logits.shape
    at, ends = checked(call, offsets, rows), checked(call, label_offsets, labels.shape[0], "label_offsets")
    found = labels.astype(jnp.int64)
    call.refuse_where((found < 0) | (found >= classes), found, f"labels holds {{}} but there are {classes} classes")
    bounds = longest(call, offsets, rows), longest(call, label_offsets, labels.shape[0]) if labels.shape[0] else 0
    return at, jnp.clip(found, 0, classes - 1), ends, bounds


@rule("ctc_loss")
def _ctc_loss(
    call: Call,
    logits: Array,
    offsets: Array,
    labels: Array,
    label_offsets: Array,
    *,
    blank: int,
    zero_infinity: bool,
) -> Array:
    at, found, ends, bounds = _given(call, logits, offsets, labels, label_offsets)
    if not logits.shape[0]:
        loss = jnp.where(ends[1:] > ends[:-1], jnp.inf, 0).astype(logits.dtype)
    else:
        loss = _losses(logits, at, found, ends, blank, bounds)
    return jnp.where(jnp.isinf(loss), 0, loss) if zero_infinity else loss


@rule("ctc_loss_grad")
def _ctc_loss_grad(
    call: Call,
    dloss: Array,
    logits: Array,
    offsets: Array,
    labels: Array,
    label_offsets: Array,
    *,
    blank: int,
    zero_infinity: bool,
) -> Array:
    at, found, ends, bounds = _given(call, logits, offsets, labels, label_offsets)
    if not logits.shape[0]:
        return jnp.zeros_like(logits)
    losses, back = jax.vjp(lambda x: _losses(x, at, found, ends, blank, bounds), logits)
    (grad,) = back(dloss)
    lost = jnp.repeat(jnp.isinf(losses), at[1:] - at[:-1], total_repeat_length=logits.shape[0])[:, None]
    return jnp.where(lost, 0 if zero_infinity else jnp.nan, grad)
