"""py_func: arbitrary NumPy code as an operator, eagerly and as an instruction of a Program.

The plan of a Program calls back into Python, holding the interpreter's lock, so such a step is slow: it is meant for
what has no operator, for looking at values, and for trying things out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from framework import _core
from framework.autograd import tape
from framework.context import context
from framework.errors import AttributeValueError, DTypeError, ShapeError
from framework.extend.user_code import calling, name_of, place_of
from framework.ops import dispatch, registry
from framework.tensors import DTYPES, Tensor, numpy_of, tensor


class TensorType(NamedTuple):
    """What is known of a tensor before it is computed."""

    shape: tuple[int, ...]
    dtype: str


Types: TypeAlias = TensorType | Sequence[TensorType]


def py_func(
    function: Callable[..., Any], inputs: Sequence[Any], outputs: Types | Callable[..., Types]
) -> Tensor | tuple[Tensor, ...]:
    """Runs NumPy code on tensors; in a Program it runs at each run of the Program, in its place.

    >>> y = py_func(np.sort, [x], lambda x: x)  # y has the shape and type of x

    It has no gradient; call it in the `forward` and `backward` of a `Function` to give it one.

    Args:
        function: takes an array for each input and returns one for each output (None for no output). The arrays are
            read-only and lie in the Program's memory: copy what is to be kept. bfloat16 is `ml_dtypes.bfloat16`.
        inputs: tensors, arrays or numbers.
        outputs: the shape and type of each output: a `TensorType`, a sequence of them, or a function that makes either
            from the inputs' types, which is asked again for other shapes.

    Returns:
        A tensor, or a tuple where `outputs` is or gives a sequence.

    Raises:
        UserFunctionError: the function raised an error, which is the cause.
        ShapeError, DTypeError: it returned something else than `outputs` says.
    """
    tensors = [x if isinstance(x, Tensor) else tensor(x) for x in inputs]
    native = _PythonOp(function, outputs, [_type_of(t) for t in tensors])
    info = registry.OpInfo(native, pure=False)
    trace = context.trace
    if trace is None:
        out = dispatch.apply(info, tensors, ())
    else:  # also where no input is traced: it runs at each run
        out = trace.record(info, tensors, ())
        if context.grad_enabled and any(t.requires_grad for t in tensors):
            tape.remember(info, tensors, (), out)
    return (out,) if native.gives_tuple and not isinstance(out, tuple) else out


def _type_of(t: Tensor) -> TensorType:
    value = t._value
    return TensorType(value.shape if value is not None else t._data.shape, t.dtype)


class _PythonOp(_core.PythonOp):
    """The operator as the native side calls it."""

    def __init__(
        self, function: Callable[..., Any], outputs: Types | Callable[..., Types], inputs: list[TensorType]
    ) -> None:
        self._function = function
        self._rule = outputs
        self._who = f"py_func: {name_of(function)}"
        types, self.gives_tuple = self._types(inputs)
        names = [", ".join(f"{letter}{i}" for i in range(n)) for letter, n in (("x", len(inputs)), ("y", len(types)))]
        super().__init__(f"py_func.{name_of(function)}", " -> ".join(names))

    def output_types(self, inputs: list[tuple[tuple[int, ...], str]]) -> list[TensorType]:
        """The shape rule; called by the plan, with the GIL."""
        return self._types([TensorType(*t) for t in inputs])[0]

    def compute(self, inputs: list[Any], outputs: list[Any]) -> None:
        """The kernel; called by the plan, with the GIL."""
        arrays = [numpy_of(x) for x in inputs]
        for a in arrays:
            a.flags.writeable = False
        with calling(self._who, self._function):
            result = self._function(*arrays)
        for i, (y, out) in enumerate(zip(self._as_list(result, len(outputs)), outputs, strict=True)):
            target = numpy_of(out)
            target[...] = self._checked(i, np.asarray(y), target, out.dtype)

    def _types(self, inputs: list[TensorType]) -> tuple[list[TensorType], bool]:
        """The type of each output, and whether the rule gave a sequence."""
        rule = self._rule
        if callable(rule):
            with calling(f"{self._who}: its rule of output types", rule):
                rule = rule(*inputs)
        gives_tuple = isinstance(rule, Sequence) and not isinstance(rule, TensorType)
        return [self._checked_type(t) for t in (rule if gives_tuple else [rule])], gives_tuple

    def _checked_type(self, t: Any) -> TensorType:
        try:
            shape, dtype = t
            shape = tuple(int(d) for d in shape)
        except (TypeError, ValueError):
            raise AttributeValueError(
                f"{self._who}: {t!r} is no type of an output; give TensorType(shape, dtype), several of them, or a "
                "function of the inputs' types that returns them"
            ) from None
        if dtype not in DTYPES or min(shape, default=0) < 0:
            raise AttributeValueError(
                f"{self._who}: an output cannot be {dtype}{list(shape)}; extents are at least 0 and types are "
                f"{', '.join(DTYPES)}"
            )
        return TensorType(shape, dtype)

    def _as_list(self, result: Any, count: int) -> list[Any]:
        results = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        if len(results) != count:
            raise ShapeError(f"{self._named()} returned {len(results)} arrays; its output types name {count}")
        return results

    def _checked(self, i: int, y: np.ndarray, target: np.ndarray, dtype: str) -> np.ndarray:
        if y.dtype != target.dtype:
            raise DTypeError(
                f"{self._named()} returned {y.dtype}{list(y.shape)} as output {i}, which was declared "
                f"{dtype}{list(target.shape)}; convert it with astype, or declare what it is"
            )
        if y.shape != target.shape:
            raise ShapeError(
                f"{self._named()} returned shape {list(y.shape)} as output {i}, which was declared "
                f"{dtype}{list(target.shape)}; return that shape, or declare what it is"
            )
        return y

    def _named(self) -> str:
        return self._who + place_of(self._function)
