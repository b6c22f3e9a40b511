"""A part of a network that looks at some rows of a batch at a time, and not at all where none of them is there.

Detectors give a fixed number of rows an image, most of them empty. Letters: N batch, D rows of an image, P of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from framework import ops, tensor
from framework.control import cond, scan
from framework.tensors import Tensor


def in_pieces(
    part: Callable[[Tensor, Tensor], Sequence[Tensor]],
    shapes: Sequence[tuple[int, ...]],
    boxes: Tensor,
    there: Tensor,
    rows: int,
    together: int,
) -> list[Tensor]:
    """What a part of a network says of boxes, `together` of an image at a time. It has no gradient.

    Args:
        part: boxes [N, P, 4] and which of them are there, bool [N, P], to results of N * P rows.
        shapes: of each result behind its rows.
        boxes: [N, D, 4].
        there: bool [N, D]. A piece without a row that is there is not looked at.
        rows: D.
        together: P.

    Returns:
        Results float32 [N, D, *shape]; zeros in pieces that were not looked at.
    """
    pieces = -(-rows // together)
    pads = (0, 0, 0, pieces * together - rows, 0, 0)

    def divided(x: Tensor) -> Tensor:  # [pieces, N, P, width]
        return ops.transpose(ops.reshape(ops.pad(x, pads=pads), shape=(0, pieces, together, -1)), perm=(1, 0, 2, 3))

    def seen(piece: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        given = [ops.cast(x, dtype="float32") for x in part(piece, ops.squeeze(real > 0, axis=2))]
        return tuple(ops.reshape(x, shape=(-1, together, *shape)) for x, shape in zip(given, shapes, strict=True))

    def nothing(piece: Tensor, real: Tensor) -> tuple[Tensor, ...]:
        none = ops.cast(real * 0, dtype="float32")
        return tuple(
            ops.reshape(none, shape=(0, 0, *(1 for _ in shape))) * tensor(np.zeros(shape, np.float32))
            for shape in shapes
        )

    def step(_: tuple[Tensor, ...], given: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return (), cond(ops.any(given[1] > 0), seen, nothing, *given)

    columns = divided(boxes), divided(ops.expand_dims(ops.cast(there, dtype="int64"), axis=2))
    _, found = scan(step, (), columns)
    return [_joined(x, shape, pieces * together)[:, :rows] for x, shape in zip(found, shapes, strict=True)]


def _joined(x: Tensor, shape: tuple[int, ...], rows: int) -> Tensor:
    """Results [pieces, N, P, *shape] as [N, rows, *shape]."""
    order = (1, 0, *range(2, 3 + len(shape)))
    return ops.reshape(ops.transpose(x, perm=order), shape=(0, rows, *shape))
