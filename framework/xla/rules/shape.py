"""Operators that change an array's shape, and those that make arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from framework.xla.lower import Array, Call, jnp_type, rule


@rule("reshape", "reshape_like", "flatten", "unflatten_like", "expand_dims", "squeeze")
def _reshaped(call: Call, x: Array, *like: Array, **attrs: Any) -> Array:
    return x.reshape(call.shape)


@rule("full")
def _full(call: Call, *, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    return jnp.full(call.shape, jnp.asarray(value, jnp_type(dtype)))


@rule("full_like")
def _full_like(call: Call, like: Array, *, value: float) -> Array:
    return jnp.full(call.shape, jnp.asarray(value, jnp_type(call.dtype)))


@rule("extent")
def _extent(call: Call, x: Array, *, axis: int) -> Array:
    return jnp.asarray(x.shape[axis], jnp.int64)


@rule("positions")
def _positions(call: Call, x: Array, *, axis: int) -> Array:
    return jnp.arange(call.shape[0], dtype=jnp.int64)


@rule("copy")
def _copy(call: Call, x: Array) -> Array:
    return x


@rule("arange")
def _arange(call: Call, *, start: float, stop: float, step: float, dtype: str) -> Array:
    return (start + step * jnp.arange(call.shape[0], dtype=jnp.float64)).astype(jnp_type(dtype))
