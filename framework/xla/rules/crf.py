"""Conditional random fields: the forward algorithm and Viterbi, all sequences a step at a time, padded."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, rule
from framework.xla.rules.ragged import checked, from_padded, longest, to_padded


def _losses(
    emissions: Array, transitions: Array, start: Array, stop: Array, tags: Array, offsets: Array, bound: int
) -> Array:
    """[B]; tags are in range."""
    rows, there = to_padded(emissions, offsets, bound)
    found = to_padded(tags, offsets, bound)[0]
    lengths = offsets[1:] - offsets[:-1]
    taken = jnp.sum(jnp.where(there, jnp.take_along_axis(rows, found[..., None], 2)[..., 0], 0), 1)
    if bound > 1:
        taken += jnp.sum(jnp.where(there[:, 1:], transitions[found[:, :-1], found[:, 1:]], 0), 1)
    last = jnp.take_along_axis(found, jnp.maximum(lengths - 1, 0)[:, None], 1)[:, 0]
    score = taken + start[found[:, 0]] + stop[last]

    def one(alpha: Array, row: Any) -> Any:
        emission, on = row
        following = emission + _log_sum(alpha[:, :, None] + transitions[None], 1)
        return jnp.where(on[:, None], following, alpha), None

    alpha, _ = lax.scan(one, start + rows[:, 0], (jnp.swapaxes(rows[:, 1:], 0, 1), there[:, 1:].T))
    return jnp.where(lengths > 0, _log_sum(alpha + stop, 1) - score, 0)


def _log_sum(x: Array, axis: int) -> Array:
    """log(sum(exp(x))), -inf where all are, with a gradient that is 0 and not NaN there."""
    top = lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    never = jnp.isneginf(top)
    total = jnp.sum(jnp.exp(x - jnp.where(never, 0, top)), axis)
    dead = jnp.squeeze(never, axis)
    return jnp.where(dead, -jnp.inf, jnp.log(jnp.where(dead, 1, total)) + jnp.squeeze(jnp.where(never, 0, top), axis))


def _checked_tags(call: Call, tags: Array, count: int) -> Array:
    found = tags.astype(jnp.int64)
    call.refuse_where((found < 0) | (found >= count), found, f"tags holds {{}} but there are {count} tags")
    return jnp.clip(found, 0, max(count - 1, 0))


@rule("crf_loss")
def _crf_loss(
    call: Call, emissions: Array, transitions: Array, start: Array, stop: Array, tags: Array, offsets: Array
) -> Array:
    rows = emissions.shape[0]
    at, found = checked(call, offsets, rows), _checked_tags(call, tags, emissions.shape[1])
    if not rows:
        return jnp.zeros(call.shape, emissions.dtype)
    return _losses(emissions, transitions, start, stop, found, at, longest(call, offsets, rows))


@rule("crf_loss_grad")
def _crf_loss_grad(
    call: Call,
    dloss: Array,
    emissions: Array,
    transitions: Array,
    start: Array,
    stop: Array,
    tags: Array,
    offsets: Array,
) -> tuple[Array, ...]:
    rows = emissions.shape[0]
    at, found = checked(call, offsets, rows), _checked_tags(call, tags, emissions.shape[1])
    given = (emissions, transitions, start, stop)
    if not rows:
        return tuple(jnp.zeros_like(x) for x in given)
    bound = longest(call, offsets, rows)
    _, back = jax.vjp(lambda e, m, a, b: _losses(e, m, a, b, found, at, bound), *given)
    return back(dloss)


@rule("crf_decode")
def _crf_decode(
    call: Call, emissions: Array, transitions: Array, start: Array, stop: Array, offsets: Array
) -> tuple[Array, Array]:
    total = emissions.shape[0]
    at = checked(call, offsets, total)
    if not total:
        return jnp.zeros(call.types[0][0], jnp.int64), jnp.zeros(call.types[1][0], emissions.dtype)
    rows, there = to_padded(emissions, at, longest(call, offsets, total))
    lengths = at[1:] - at[:-1]

    def forward(best: Array, row: Any) -> Any:
        emission, on = row
        scores = best[:, :, None] + transitions[None]
        following = jnp.where(on[:, None], emission + jnp.max(scores, 1), best)
        return following, jnp.where(on[:, None], jnp.argmax(scores, 1), jnp.arange(best.shape[1]))

    best, came_from = lax.scan(forward, start + rows[:, 0], (jnp.swapaxes(rows[:, 1:], 0, 1), there[:, 1:].T))
    ends = best + stop
    last = jnp.argmax(ends, 1)

    def backward(tag: Array, pointers: Array) -> Any:
        earlier = jnp.take_along_axis(pointers, tag[:, None], 1)[:, 0]
        return earlier, tag

    first, later = lax.scan(backward, last, came_from, reverse=True)
    path = jnp.concatenate([first[None], later]).T
    score = jnp.where(lengths > 0, jnp.max(ends, 1), 0)
    tags, scores = from_padded(path, at, total), score
    return (tags, scores) if call.types[0][1] == "int64" else (scores, tags)
