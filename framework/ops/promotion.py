"""Which type an element-wise operator computes in where its inputs differ: one table.

| inputs | result |
| --- | --- |
| a type with itself | that type |
| integers of two types | the smallest integer type that holds both, as in NumPy 2 |
| bool with a number's type | the number's type |
| an integer with a float type | the float type, whatever the sizes: float32 does not grow to float64 |
| float16 with bfloat16 | float32; other floats: the larger one |
| integers where an operator of two inputs gives floats only (`/`, `**`, `atan2`) | float32 |
| a Python int | the tensor's type; int64 beside bools |
| a Python float | the tensor's float type; float32 beside integers and bools |

An operator that has no kernel for 8-bit integers computes in int32 and gives the 8 bits back, so that it wraps as NumPy
does. Bools have no arithmetic among themselves, and functions of one input (`exp` ...) take floats: cast. Operators
that take what they are given never come here, so that equal types cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from framework import _core
from framework.errors import DTypeError
from framework.ops.registry import OPS, OpInfo

_FLOATS = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}
_SMALL = ("int8", "uint8")
_CONDITION = "cond"  # an input of this name chooses and is not computed with


def result_type(*dtypes: str) -> str:
    """The type in which tensors of these types meet; see the module's table.

    >>> result_type("int64", "float32"), result_type("uint8", "int8"), result_type("float16", "bfloat16")
    ('float32', 'int32', 'float32')
    """
    floats = {t for t in dtypes if t in _FLOATS}
    if floats:
        largest = max(floats, key=lambda t: _FLOATS[t])
        return "float32" if floats == {"float16", "bfloat16"} else largest
    integers = [t for t in dtypes if t != "bool"]
    if not integers:
        return "bool"
    exact = str(np.result_type(*integers))
    return "int32" if exact == "int16" else exact  # which the core has not


def retried(
    apply: Callable[..., Any], info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...], refusal: DTypeError
) -> Any:
    """What an operator gives that refused the types of its inputs: after casts, by the table.

    Args:
        apply: `dispatch.apply`.
        refusal: what the operator said, which is raised again where no cast helps.
    """
    if not info.is_elementwise:
        raise refusal
    meeting = [i for i, x in enumerate(inputs) if x is not None and info.inputs[i]["name"] != _CONDITION]
    if len(meeting) < 2:
        raise refusal
    met = result_type(*(inputs[i].dtype for i in meeting))
    for dtype in _candidates(met):
        if _takes(info, inputs, meeting, dtype, attrs):
            given = [_cast(apply, x, dtype) if i in meeting else x for i, x in enumerate(inputs)]
            out = apply(info, given, attrs)
            return _cast(apply, out, met) if out.dtype == "int32" and met in _SMALL else out
    raise refusal


def _takes(info: OpInfo, inputs: Sequence[Any], meeting: Sequence[int], dtype: str, attrs: tuple[Any, ...]) -> bool:
    """Whether the operator takes these inputs once those that meet have one type."""
    shapes = [None if x is None else (x._value or x._data).shape for x in inputs]
    dtypes = [None if x is None else dtype if i in meeting else x.dtype for i, x in enumerate(inputs)]
    try:
        _core.infer(info.native, shapes, dtypes, attrs)
    except DTypeError:
        return False
    return True


def _candidates(met: str) -> Iterator[str]:
    if met == "bool":
        return
    yield met
    if met in _SMALL:
        yield "int32"
    if met not in _FLOATS:
        yield "float32"


def _cast(apply: Callable[..., Any], x: Any, dtype: str) -> Any:
    if x.dtype == dtype:
        return x
    info = OPS["cast"]
    return apply(info, (x,), info.attr_values({"dtype": dtype}))
