"""Tables of rows: what of them runs on the device. Look-ups and steps run on the host, see `framework.xla.cut`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from framework.xla.lower import Array, Call, rule


@rule("table_sum_of_squares")
def _sum_of_squares(call: Call, *parts: Array, **_: Any) -> Array:
    """Of keys [...], gradients [..., D] and clicks of each look-up: gradients of equal keys are summed first."""
    keys = jnp.concatenate([jnp.ravel(k) for k in parts[::3]])
    if not keys.size:
        return jnp.zeros((), jnp.float32)
    grads = jnp.concatenate([jnp.reshape(g, (-1, g.shape[-1])) for g in parts[1::3]])
    order = jnp.argsort(keys)
    new = jnp.diff(keys[order]) != 0
    number = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(new, dtype=jnp.int32)])
    sums = jax.ops.segment_sum(grads[order], number, num_segments=keys.size, indices_are_sorted=True)
    return jnp.sum(jnp.square(sums))
