"""What is written between and behind tensors, such as `a + b`, `x[1:]` and `x.sum()`: short names for framework.ops.

The functions stand above the tensor, so these methods call them through `framework.context`.
"""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np

from framework.context import operators as ops

Scalar: TypeAlias = int | float | bool


class TensorOperators:
    """The operators and methods of `Tensor` that call a function of `framework.ops`."""

    __slots__ = ()

    def __neg__(self) -> Self:
        return ops.neg(self)

    def __abs__(self) -> Self:
        return ops.abs(self)

    def __add__(self, other: Self | Scalar) -> Self:
        return ops.add(self, other)

    def __radd__(self, other: Scalar) -> Self:
        return ops.add(other, self)

    def __sub__(self, other: Self | Scalar) -> Self:
        return ops.sub(self, other)

    def __rsub__(self, other: Scalar) -> Self:
        return ops.sub(other, self)

    def __mul__(self, other: Self | Scalar) -> Self:
        return ops.mul(self, other)

    def __rmul__(self, other: Scalar) -> Self:
        return ops.mul(other, self)

    def __truediv__(self, other: Self | Scalar) -> Self:
        return ops.div(self, other)

    def __rtruediv__(self, other: Scalar) -> Self:
        return ops.div(other, self)

    def __floordiv__(self, other: Self | Scalar) -> Self:
        return ops.floor_div(self, other)

    def __rfloordiv__(self, other: Scalar) -> Self:
        return ops.floor_div(other, self)

    def __mod__(self, other: Self | Scalar) -> Self:
        return ops.mod(self, other)

    def __rmod__(self, other: Scalar) -> Self:
        return ops.mod(other, self)

    def __pow__(self, other: Self | Scalar) -> Self:
        return ops.pow(self, other)

    def __rpow__(self, other: Scalar) -> Self:
        return ops.pow(other, self)

    def __matmul__(self, other: Self) -> Self:
        return ops.matmul(self, other)

    def __eq__(self, other: Any) -> Any:
        return ops.equal(self, other) if isinstance(other, _COMPARED) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return ops.not_equal(self, other) if isinstance(other, _COMPARED) else NotImplemented

    __hash__ = object.__hash__

    def __lt__(self, other: Self | Scalar) -> Self:
        return ops.less(self, other)

    def __le__(self, other: Self | Scalar) -> Self:
        return ops.less_equal(self, other)

    def __gt__(self, other: Self | Scalar) -> Self:
        return ops.greater(self, other)

    def __ge__(self, other: Self | Scalar) -> Self:
        return ops.greater_equal(self, other)

    def __and__(self, other: Self | Scalar) -> Self:
        return ops.logical_and(self, other)

    def __or__(self, other: Self | Scalar) -> Self:
        return ops.logical_or(self, other)

    def __xor__(self, other: Self | Scalar) -> Self:
        return ops.logical_xor(self, other)

    def __invert__(self) -> Self:
        return ops.logical_not(self)

    def __setitem__(self, index: Any, value: Self | Scalar) -> None:
        ops.assign(self, index, value)

    def __getitem__(self, index: Any) -> Self:
        return ops.getitem(self, index)

    def reshape(self, *shape: Any) -> Self:
        """See `ops.reshape`; takes the extents one by one or as one sequence."""
        return ops.reshape(self, shape=shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *perm: int) -> Self:
        """See `ops.transpose`."""
        return ops.transpose(self, perm=perm)

    def sum(self, axes: Any = (), keepdims: bool = False, *, axis: Any = None) -> Self:
        """See `ops.sum`."""
        return ops.sum(self, axes=axes, keepdims=keepdims, axis=axis)

    def mean(self, axes: Any = (), keepdims: bool = False, *, axis: Any = None) -> Self:
        """See `ops.mean`."""
        return ops.mean(self, axes=axes, keepdims=keepdims, axis=axis)

    def max(self, axes: Any = (), keepdims: bool = False, *, axis: Any = None) -> Self:
        """See `ops.max`."""
        return ops.max(self, axes=axes, keepdims=keepdims, axis=axis)

    def min(self, axes: Any = (), keepdims: bool = False, *, axis: Any = None) -> Self:
        """See `ops.min`."""
        return ops.min(self, axes=axes, keepdims=keepdims, axis=axis)

    def astype(self, dtype: str) -> Self:
        """See `ops.cast`."""
        return ops.cast(self, dtype=dtype)


_COMPARED = (TensorOperators, int, float, bool, np.generic, np.ndarray)  # element by element, others by identity
