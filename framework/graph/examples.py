"""Tensors to trace a model with that was read from another tool's file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError, ShapeError
from framework.limits import current, how_to_raise
from framework.tensors import Tensor, tensor


def example(
    source: str,
    name: str,
    stated: Sequence[int | str | None] | None,
    dtype: str,
    shape: Sequence[int] | None,
    *,
    binding: bool,
) -> Tensor:
    """Zeros for an input; a batch that is not stated is 1.

    Args:
        source: the kind of file, which begins a message.
        name: of the input.
        stated: its shape in the file, None where that gives no rank; an extent that is no number is open.
        dtype: its type.
        shape: what the caller wants, None for the stated one.
        binding: whether the stated extents must be kept; the rank must in any case.

    Raises:
        AttributeValueError: the shape is open and none is given.
        ShapeError: the given one does not fit, or is larger than the limit.
    """
    if shape is None:
        if stated is None or any(not isinstance(d, int) for d in stated[1:]):
            raise AttributeValueError(
                f"{source}: input '{name}' has the open shape {list(stated) if stated is not None else '?'}; "
                f"give one to trace with: shapes={{'{name}': (...)}}"
            )
        shape = [d if isinstance(d, int) else 1 for d in stated]
    elif stated is not None and (
        len(stated) != len(shape)
        or (binding and any(isinstance(d, int) and d != n for d, n in zip(stated, shape, strict=True)))
    ):
        raise ShapeError(f"{source}: input '{name}' takes {list(stated)}, not {list(shape)}")
    if int(np.prod([int(d) for d in shape], dtype=object)) > current().elements:
        raise ShapeError(
            f"{source}: input '{name}' of shape {list(shape)} has more than {current().elements} elements. "
            f"{how_to_raise('elements')}"
        )
    return tensor(np.zeros(tuple(shape), np.float32)).astype(dtype)
