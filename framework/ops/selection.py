"""What is found in data: as much as there is where it runs eagerly, a given number in a Program.

A Program knows all shapes before it runs, so there a size is given, as in JAX: results are cut or filled to it.
"""

from __future__ import annotations

import numpy as np

from framework.context import context
from framework.errors import NotSupportedError
from framework.ops.internal import nonzero_sized, unique_sized
from framework.tensors import Tensor


def nonzero(x: Tensor, size: int | None = None, fill: int = 0) -> Tensor:
    """Where x is not 0, in row-major order; NaN is not 0.

    Args:
        x: any shape and type.
        size: number of rows of the result: the first so many places, or all and then rows of `fill`. Needed in a
            Program; None takes all.
        fill: what rows without a place hold.

    Returns:
        int64 [places, or size; axes of x].

    Raises:
        NotSupportedError: a Program is traced and no size is given.
        AttributeValueError: the size is negative.
    """
    if size is None:
        _expect_data("nonzero", x)
        size = int(np.count_nonzero(x.numpy()))
    return nonzero_sized(x, size=size, fill=fill)


def unique(x: Tensor, size: int | None = None, fill: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements of x in rising order, which of them each element is, and how often each occurs.

    All NaNs are one value, the largest; -0 and 0 are one.

    Args:
        x: any shape and type.
        size: number of values: the first so many, or all and then `fill`, of which there are 0. Needed in a Program;
            None takes all. An element whose value was cut has inverse `size`, which no gather accepts.
        fill: what places without a value hold; None for the smallest value.

    Returns:
        values [M], inverse int64 of x's shape with values[inverse] = x, counts int64 [M]; M is `size` if given.

    Raises:
        NotSupportedError: a Program is traced and no size is given.
        AttributeValueError: the size is negative.
    """
    filled = () if fill is None else (fill,)
    if size is not None:
        return unique_sized(x, size=size, fill=filled)
    _expect_data("unique", x)
    values, inverse, counts = unique_sized(x, size=x.size, fill=filled)
    found = int(np.count_nonzero(counts.numpy()))
    return values[:found], inverse, counts[:found]


def _expect_data(who: str, x: Tensor) -> None:
    if x.is_traced or (x.persistable and context.trace is not None):
        raise NotSupportedError(
            f"{who}: how much there is depends on the data, and a Program knows all shapes before it runs; give size="
        )
