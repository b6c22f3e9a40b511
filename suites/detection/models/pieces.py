"""A part of a network that looks at some rows of a batch at a time, and not at all where none of them is there.

Detectors give a fixed number of rows an image, most of them empty. Letters: N batch, D rows of an image, P of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from framework import ops, tensor
from framework.control import cond, scan
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models.base import Detections
from suites.engine.pieces import are_whole

TOGETHER = 10  # detections of an image that a head looks at in one go


def in_pieces(
    part: Callable[..., Sequence[Tensor]],
    shapes: Sequence[tuple[int, ...]],
    columns: Sequence[Tensor],
    there: Tensor,
    rows: int,
    together: int,
) -> list[Tensor]:
    """What a part of a network says of rows, `together` of an image at a time. It has no gradient.

    Args:
        part: each of `columns` [N, P, width] and which rows are there, bool [N, P], to results of N * P rows.
        shapes: of each result behind its rows.
        columns: [N, D, width] each, such as boxes.
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

    def seen(*given: Tensor) -> tuple[Tensor, ...]:
        *piece, real = given
        found = [ops.cast(x, dtype="float32") for x in part(*piece, ops.squeeze(real > 0, axis=2))]
        return tuple(ops.reshape(x, shape=(-1, together, *shape)) for x, shape in zip(found, shapes, strict=True))

    def nothing(*given: Tensor) -> tuple[Tensor, ...]:
        none = ops.cast(given[-1] * 0, dtype="float32")
        return tuple(
            ops.reshape(none, shape=(0, 0, *(1 for _ in shape))) * tensor(np.zeros(shape, np.float32))
            for shape in shapes
        )

    def step(_: tuple[Tensor, ...], given: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return (), cond(ops.any(given[-1] > 0), seen, nothing, *given)

    real = ops.expand_dims(ops.cast(there, dtype="int64"), axis=2)
    _, found = scan(step, (), tuple(divided(x) for x in (*columns, real)))
    return [_joined(x, shape, pieces * together)[:, :rows] for x, shape in zip(found, shapes, strict=True)]


def of_detections(
    look: Callable[[Tensor, Tensor, Tensor], Tensor],
    shape: tuple[int, ...],
    found: Detections,
    rows: int,
    together: int | None,
) -> Tensor:
    """What a head says of detections, `together` of an image at a time; pieces behind the last one cost nothing.

    Args:
        look: boxes [N, P, 4], classes int64 [N, P] and how many rows of an image are there, int [N], to N * P rows.
        shape: of the result behind its rows.
        found: the detections.
        rows: D.
        together: P; None for all at once, without control flow, as under `engine.pieces.whole`.

    Returns:
        float32 [N, D, *shape]; zeros in pieces that were not looked at.
    """
    classes = ops.maximum(found.classes, 0)
    if together is None or are_whole():
        return ops.reshape(look(found.boxes, classes, found.counts), shape=(-1, rows, *shape))

    def looked(boxes: Tensor, classes: Tensor, there: Tensor) -> list[Tensor]:
        counts = ops.sum(ops.cast(there, "int32"), axes=(1,))  # those that are there stand first
        return [look(boxes, ops.squeeze(classes, axis=2), counts)]

    there = ops.positions(found.scores, axis=1) < ops.expand_dims(ops.cast(found.counts, "int64"), axis=1)
    columns = found.boxes, ops.expand_dims(classes, axis=2)
    (result,) = in_pieces(looked, [shape], columns, there, rows, min(together, rows))
    return result


def expect_together(who: str, together: int | None) -> None:
    """Raises AttributeValueError for a number of detections that a head cannot look at."""
    if together is not None and together < 1:
        raise AttributeValueError(f"{who}: together is {together}; it must be 1 or more, or null for all")


def _joined(x: Tensor, shape: tuple[int, ...], rows: int) -> Tensor:
    """Results [pieces, N, P, *shape] as [N, rows, *shape]."""
    order = (1, 0, *range(2, 3 + len(shape)))
    return ops.reshape(ops.transpose(x, perm=order), shape=(0, rows, *shape))
