"""Attention that knows how far a key stands from its query (Shaw et al. 2018), over ragged sequences.

Letters: T queries, S keys, H heads, E width of a head, K distance, L places.
"""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.nn.layer import Layer
from framework.tensors import Tensor, tensor


class RelativePositions(Layer):
    """Vectors of clipped distances, added to keys and values; the same ones for all heads (Shaw et al. 2018, 3.2).

    score(i, j) = q_i (k_j + a[clip(j - i)]), y_i = sum_j weight(i, j) (v_j + b[clip(j - i)]), clip to -K ... K

    Heads get L columns more: a query's score of each place, a key's and a value's place as one number of L that is 1.
    So the fused kernel gives sums of weights by place, and no matrix of all queries against all keys is made.

    Args:
        head_size: E.
        distance: K; keys farther off count as so far off.
        length: L, places of a sequence at most.

    Example:
        >>> rows, offsets = tensor(np.ones((5, 8), np.float32)), tensor([0, 2, 5])  # sequences of 2 and 3 rows
        >>> places = tensor([0, 1, 0, 1, 2])
        >>> layer = nn.RelativePositions(4, distance=2, length=16)
        >>> layer.attend(*[rows] * 3, *[offsets] * 2, *[places] * 2, heads=2, scale=0.5, causal=True).shape
        (5, 8)
    """

    keys: Tensor
    values: Tensor

    def __init__(self, head_size: int, distance: int, length: int) -> None:
        super().__init__()
        if min(head_size, distance, length) < 1:
            raise AttributeValueError(
                f"RelativePositions: head_size is {head_size}, distance {distance} and length {length}; all must be "
                "above 0"
            )
        self.head_size, self.distance, self.length = head_size, distance, length
        for name in ("keys", "values"):
            self.add_parameter(name, (2 * distance + 1, head_size), init.Normal(head_size**-0.5))
        self._span = tensor(np.arange(length, dtype=np.int64)[None])

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        offsets: Tensor,
        k_offsets: Tensor,
        places: Tensor,
        k_places: Tensor,
        key: Tensor | None = None,
        *,
        heads: int,
        scale: float,
        causal: bool,
        p: float = 0.0,
    ) -> Tensor:
        """Attention as `ops.ragged_attention` computes it, with the distances.

        Args:
            q: [T, H E].
            k, v: [S, H E].
            offsets, k_offsets: integer [B + 1], of queries and of keys.
            places, k_places: int64 [T] and [S], where each stands in its sequence, below L.
            key, heads, scale, causal, p: see `ops.ragged_attention`.

        Returns:
            y: [T, H E].
        """
        d = self.head_size
        queries, own_keys, own_values = (ops.reshape(x, shape=(0, heads, d)) for x in (q, k, v))
        far = self._span - ops.expand_dims(places, axis=1)  # [T, L]
        near = ops.maximum(ops.minimum(far, self.distance), -self.distance) + self.distance
        every = tensor(np.zeros((heads, 1), np.int64))
        index = ops.expand_dims(near, axis=1) + every  # [T, H, L]
        by_distance = ops.matmul(queries, self.keys, transpose_b=True)  # [T, H, 2 K + 1]
        scores = ops.cast(ops.take_along_axis(by_distance, index, axis=2), dtype=q.dtype)
        spot = ops.expand_dims(ops.one_hot(k_places, depth=self.length), axis=1)
        spots = ops.cast(spot + ops.cast(every, dtype="float32"), dtype=q.dtype)  # [S, H, L]
        wide_q, wide_k, wide_v = (
            ops.flatten(ops.concat(parts, axis=2), start=1, end=2)
            for parts in ((queries, scores), (own_keys, spots), (own_values, spots))
        )
        y, _ = ops.ragged_attention(
            wide_q, wide_k, wide_v, offsets, k_offsets, key, heads=heads, scale=scale, causal=causal, p=p
        )
        found, seen = ops.split(ops.reshape(y, shape=(0, heads, d + self.length)), axis=2, sizes=[d, self.length])
        weights = ops.put_along_axis_add(ops.full_like(by_distance, value=0.0), index, seen, axis=2)
        return ops.flatten(found + ops.matmul(weights, self.values), start=1, end=2)
