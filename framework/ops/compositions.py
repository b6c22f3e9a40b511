"""Functions that are written with other operators: they have their gradients and traces from those."""

from __future__ import annotations

from collections.abc import Sequence

from framework.errors import ShapeError
from framework.ops.dispatch import call_by_name
from framework.tensor import Tensor


def stack(xs: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Joins tensors of one shape along a new axis.

    Args:
        xs: S tensors of shape [...].
        axis: where the new axis, of extent S, stands in the result; negative counts from its end.

    Raises:
        ShapeError: there is nothing to join, or the shapes differ.
    """
    if not xs:
        raise ShapeError("stack: there is nothing to join; give at least one tensor")
    return call_by_name("concat", [call_by_name("expand_dims", [x], axis=axis) for x in xs], axis=axis)


def unstack(x: Tensor, axis: int = 0) -> list[Tensor]:
    """The slices of `x` along an axis, which they lose: what undoes `stack`.

    The number of slices is read from x's shape; inside a trace this ties the Program to that extent.

    Raises:
        ShapeError: x has no axes.
    """
    if x.ndim == 0:
        raise ShapeError("unstack: a tensor without axes has no slices")
    parts = call_by_name("split", [x], axis=axis, sizes=[1] * x.shape[axis]) if x.shape[axis] else ()
    return [call_by_name("squeeze", [part], axis=axis) for part in parts]
