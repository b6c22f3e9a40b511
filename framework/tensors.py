"""The tensor: a contiguous native array while running eagerly, a value of a Program while tracing.

Both kinds are the same class, so that a model's code is written once. `requires_grad` marks what gradients are wanted
for; `grad` holds them after `backward()`.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from framework import _core
from framework.context import context, gradients
from framework.errors import (
    AttributeValueError,
    DTypeError,
    GradientError,
    PaddockError,
    ShapeError,
    TraceError,
)
from framework.tensor_operators import Scalar as Scalar
from framework.tensor_operators import TensorOperators
from framework.value import Value

TensorLike: TypeAlias = "Tensor | Scalar"

_COPY = next(op for op in _core.ops() if op.name == "copy")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")


class UsedUp:
    """What stands in `grad` after an optimizer's step in a Program: the gradient was not kept."""


USED_UP = UsedUp()


def used_up(leaf: Tensor) -> str:
    """The message for a gradient that is asked for after a Program used it up."""
    return (
        f"grad: the gradient of {leaf.name or 'this tensor'} was used up by an optimizer's step in a Program and not "
        "kept; call zero_grad() before the next backward(), or return the gradient from the Program"
    )


class Tensor(TensorOperators):
    """N-dimensional array with contiguous row-major elements.

    Make one with `tensor`, `from_numpy` or `from_dlpack`; operators of `framework.ops` make the rest.
    While a Program is traced, `_value` stands for the data that does not exist yet.
    """

    __slots__ = ("__weakref__", "_data", "_grad", "_value", "name", "node", "persistable", "requires_grad")
    __array_priority__ = 100  # so that numpy_scalar * tensor calls Tensor.__rmul__

    def __init__(self, data: Any, *, requires_grad: bool = False) -> None:
        self._data: Any = data  # _core.Array, None for a traced value, or an array that another device holds
        self._value: Value | None = None
        self.requires_grad = requires_grad
        self._grad: Tensor | UsedUp | None = None
        # Its history, (node of the tape, number of the output); a leaf where this is an earlier value of that leaf.
        self.node: tuple[Any, int] | Tensor | None = None
        self.persistable = False  # parameters, buffers and optimizer slots: what a Program reads and updates
        self.name: str | None = None

    # -- what it is
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents. Reading a traced value's extents ties the Program to the shapes it was traced with."""
        if self._value is not None:
            return self._value.read_shape()
        return self._data.shape

    @property
    def shape_now(self) -> tuple[int, ...]:
        """Extents, of a traced value those of the trace, without tying the Program to them: for checks that raise."""
        return self._data.shape if self._value is None else tuple(self._value.shape)

    @property
    def ndim(self) -> int:
        """Number of axes; unlike `shape`, safe to read while tracing."""
        return len(self._value.shape) if self._value is not None else self._data.ndim

    @property
    def dtype(self) -> str:
        """Element type by name, one of `DTYPES`."""
        return self._value.dtype if self._value is not None else self._data.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self._value is not None else self._data.size

    @property
    def is_traced(self) -> bool:
        """True for a value of a Program that is being traced: it has no data yet."""
        return self._value is not None

    # -- to and from other libraries
    def array(self) -> Any:
        """The native array, brought to the host where another device holds it; TraceError while tracing."""
        data = self._data
        if data.__class__ is _core.Array:
            return data
        if data is None:
            raise TraceError(
                "tensor: its data was asked for while a Program is traced, when only shapes are known; "
                "move this out of the traced function or use operators such as ops.where"
            )
        self._data = data.host()  # it lay on another device; who reads it may write to it, so it lives here again
        return self._data

    def numpy(self) -> np.ndarray:
        """A NumPy array on the same memory; bfloat16 has the type of that name of `ml_dtypes`."""
        return numpy_of(self.array())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        view = self.numpy()
        return np.array(view, dtype=dtype, copy=True) if copy or (dtype and view.dtype != dtype) else view

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array().dlpack().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        return self.array().item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._plain().tolist()

    def _plain(self) -> np.ndarray:
        """Its values in a type that is NumPy's own: bfloat16 as float32, which holds each of them."""
        return self.numpy().astype(np.float32) if self.dtype == "bfloat16" else self.numpy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A copy of its data, with no history: a leaf where gradients are wanted."""
        copied = Tensor(_core.call(_COPY, (self.array(),), ()), requires_grad=self.requires_grad)
        copied.persistable, copied.name = self.persistable, self.name
        copied._grad = copy.deepcopy(self._grad, memo) if isinstance(self._grad, Tensor) else self._grad
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        raise TypeError("a Tensor cannot be pickled, as what is loaded must not run code; use framework.save and load")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ShapeError("len: a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if self._value is not None:
            return f"Tensor({self._value}: {self.dtype}{list(self._value.shape)}, traced)"
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"Tensor({np.array2string(self._plain(), precision=4, threshold=20)}, dtype={self.dtype}{grad})"

    # -- gradients
    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` left, of this tensor's shape; None where there is none.

        Raises:
            GradientError: an optimizer's step in a Program used it up.
        """
        trace = context.trace
        if trace is not None:
            return trace.grads.get(self)
        if self._grad is USED_UP:
            raise GradientError(used_up(self))
        return self._grad  # type: ignore[return-value]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        trace = context.trace
        if trace is not None:
            trace.grads.set(self, value)
        else:
            self._grad = value

    def backward(
        self, grad: Tensor | None = None, *, create_graph: bool = False, retain_graph: bool | None = None
    ) -> None:
        """Adds d(self)/d(leaf) to `grad` of every leaf that requires it; see `framework.autograd.backward`."""
        gradients.backward(self, grad, create_graph=create_graph, retain_graph=retain_graph)

    def detach(self) -> Tensor:
        """The same data without its history."""
        t = Tensor(self._data)
        trace = context.trace
        t._value = trace.value_of(self) if trace is not None and self.persistable else self._value
        return t

    def set(self, value: Tensor) -> None:
        """Replaces the value, as an optimizer does a parameter's; inside a trace the Program does it at each run.

        Raises:
            ShapeError: `value` has another shape or type.
        """
        same = (value.dtype, value.ndim) == (self.dtype, self.ndim)
        if not same or (self._value is None and value._value is None and value.shape != self.shape):
            raise ShapeError(f"set: a {value.dtype} tensor of {value.ndim} axes cannot replace {self!r}")
        trace = context.trace
        if trace is not None:
            trace.update(self, value)
        else:  # a copy: a Program overwrites its states in place, and nobody else's data
            self._data = _core.call(_COPY, (value.array(),), ())


def tensor(data: Any, dtype: str | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data` (numbers, nested sequences or an array).

    Python floats and float64 NumPy scalars made from them become float32 unless `dtype` says otherwise; NumPy arrays
    keep their type; Python ints become int64.
    """
    if isinstance(data, Tensor):
        data = data.numpy()
    array = np.asarray(data)
    if dtype is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        dtype = "float32"
    if dtype is not None and dtype not in DTYPES:
        raise DTypeError(f"tensor: '{dtype}' is not a type of the core; it has {', '.join(DTYPES)}")
    if dtype == "bfloat16":
        array, dtype = array.astype(bfloat16_type()), None
    array = np.require(array, dtype=dtype, requirements=("C", "W")).reshape(array.shape)
    if requires_grad and array.dtype.kind in "iub":
        raise DTypeError(f"tensor: a tensor of {array.dtype} has no gradient; requires_grad needs a float type")
    return Tensor(_core.copy_of(*_native(array)), requires_grad=requires_grad)


def bfloat16_type() -> np.dtype:
    """NumPy's bfloat16, which is of `ml_dtypes`; that takes 30 ms to import, so who does not need it does not wait."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def numpy_of(array: Any) -> np.ndarray:
    """A native array as NumPy's, on the same memory."""
    bits = array.numpy()
    return bits.view(bfloat16_type()) if array.dtype == "bfloat16" else bits


def _native(array: np.ndarray) -> tuple[np.ndarray, str]:
    """The array as the core reads it, and the type whose bits it holds where NumPy cannot export that."""
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        return array.view(np.uint16), "bfloat16"
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"tensor: NumPy type {array.dtype} is not a type of the core; it has {', '.join(DTYPES)}")
    return array, ""


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the memory of a C-contiguous, aligned, writable array; anything else is copied."""
    array, bits_of = _native(array)
    if not (array.flags.c_contiguous and array.flags.writeable):
        return Tensor(_core.copy_of(np.array(array, order="C"), bits_of))
    return Tensor(_core.wrap(array, bits_of))


def from_dlpack(array: Any) -> Tensor:
    """A tensor on the memory of a C-contiguous, aligned, writable CPU array of any library with `__dlpack__`.

    Of an array with strides, or one that is read only, it is a copy.

    Raises:
        DTypeError: the core has no such type.
        AttributeValueError: the array is of another device, or of no library with `__dlpack__`.
    """
    if isinstance(array, np.ndarray):
        return from_numpy(array)
    with contextlib.suppress(TypeError, BufferError):
        return Tensor(_core.wrap(array))
    try:
        return from_numpy(np.from_dlpack(array))
    except (TypeError, AttributeError, BufferError, RuntimeError, ValueError) as e:
        if isinstance(e, DTypeError):
            raise
        raise AttributeValueError(
            f"from_dlpack: a {type(array).__name__} cannot be taken as it is ({e}); hand over a contiguous array "
            "of the CPU"
        ) from None


def scalar_like(value: Scalar, like: Tensor) -> Tensor:
    """A 0-d tensor of `like`'s type: how a Python number takes part in an operator without changing its type.

    Beside a half type it is float32, as half types are computed: 0.1 is not rounded to half first. A float beside
    integers or bools is float32, an int beside bools int64: `framework.ops.promotion` says what they meet in.

    Raises:
        DTypeError: an int that the integers' type cannot hold.
    """
    dtype = like.dtype
    if dtype in ("float16", "bfloat16"):
        dtype = "float32"
    if dtype in ("float32", "float64"):
        return Tensor(_scalar(float(value), dtype, math.copysign(1.0, value) < 0))
    if isinstance(value, float):
        return Tensor(_scalar(value, "float32", math.copysign(1.0, value) < 0))
    if dtype == "bool":
        return Tensor(_scalar(value, "bool" if isinstance(value, bool) else "int64", False))
    least, most = _INT_RANGES[dtype]
    if not least <= value <= most:
        raise DTypeError(f"the Python int {value} does not fit a tensor of {dtype}; cast the tensor to a wider type")
    return Tensor(_scalar(int(value), dtype, False))


_INT_RANGES = {t: (int(np.iinfo(t).min), int(np.iinfo(t).max)) for t in ("int8", "uint8", "int32", "int64")}


@lru_cache(maxsize=1024)
def _scalar(value: Scalar, dtype: str, negative: bool) -> Any:
    """Kept, as training loops use the same few numbers again and again; `negative` keeps 0.0 and -0.0 apart."""
    return _core.copy_of(np.array(value, dtype))


__all__ = [
    "DTYPES",
    "AttributeValueError",
    "GradientError",
    "PaddockError",
    "Scalar",
    "Tensor",
    "TensorLike",
    "from_dlpack",
    "from_numpy",
    "scalar_like",
    "tensor",
]
