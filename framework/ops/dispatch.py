"""How a call of an operator reaches its kernel, the tape and the trace.

Each operator of the native registry becomes a Python function with its signature and documentation. A call runs at
once (eager) or, while a Program is traced, adds one operation to it; either way the tape remembers it when a gradient
may be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from framework import _core
from framework.context import context, gradients
from framework.errors import AttributeValueError, DeviceMemoryError, DTypeError, TraceError
from framework.ops import algorithm, promotion
from framework.ops.registry import CUSTOM, OPS, OpInfo
from framework.tensors import Tensor, scalar_like, tensor

_call = _core.call
_new = object.__new__
casts_begun = False  # framework.precision sets it for good: until then no thread need be asked for its casts


def apply(info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...]) -> Any:
    """Runs or records one operator; `inputs` are Tensors, numbers, arrays or None in signature order."""
    wants_grad = traced = lift = False
    data = []
    for x in inputs:
        if x.__class__ is Tensor:
            if x.requires_grad:
                wants_grad = True
            if x._value is not None or x.persistable:
                traced = True
            data.append(x._data)
        else:
            data.append(None)
            if x is not None:
                lift = True
    cast = context.cast if casts_begun else None
    if lift or cast is not None:
        if lift:
            inputs = _lift(inputs)
        if cast is not None:
            inputs = cast(info, inputs)
        data = [None if x is None else x._data for x in inputs]
    try:
        if traced and context.trace is not None:
            out = context.trace.record(info, inputs, attrs)
        else:
            if traced:
                _refuse_leaked(info, inputs)
            made = _call(info.native, data, attrs)
            if info.many_outputs:
                out = tuple([Tensor(d) for d in made])
            else:  # Tensor(made) without the call of its constructor: a twentieth of a small operator's time
                out = _new(Tensor)
                out._data = made
                out._value = out._grad = out.node = out.name = None
                out.requires_grad = out.persistable = False
    except MemoryError as error:
        raise _no_room(info, data, attrs) from error
    except DTypeError as refusal:
        return promotion.retried(apply, info, inputs, attrs, refusal)
    except (TypeError, RuntimeError):  # the binding takes no data of another device
        if not _bring_home(inputs):
            raise
        return apply(info, inputs, attrs)
    if wants_grad and context.grad_enabled:
        gradients.remember(info, inputs, attrs, out)
    return out


def _no_room(info: OpInfo, data: Sequence[Any], attrs: tuple[Any, ...]) -> DeviceMemoryError:
    """What to say where the results of an operator, or what it computes them with, do not fit into memory."""
    shapes = [None if x is None else tuple(x.shape) for x in data]
    dtypes = [None if x is None else x.dtype for x in data]
    results = _core.infer(info.native, shapes, dtypes, attrs)
    size = sum(math.prod(shape) * _bytes(dtype) for shape, dtype in results)
    made = " and ".join(f"{dtype} {list(shape)}" for shape, dtype in results)
    return DeviceMemoryError(
        f"{info.name}: no memory for its result, {made}, {size / 2**30:,.1f} GB; make its inputs or the batch smaller"
    )


def _bytes(dtype: str) -> int:
    """Of an element: int64 and bfloat16 say their bits, bool is one byte."""
    return int("".join(filter(str.isdigit, dtype)) or 8) // 8


def _bring_home(inputs: Sequence[Any]) -> bool:
    """Whether the data of some inputs was on another device; it is on the host from here on."""
    away = [x for x in inputs if x is not None and x._data is not None and x._data.__class__ is not _core.Array]
    for x in away:
        x.array()
    return bool(away)


def _refuse_leaked(info: OpInfo, inputs: Sequence[Any]) -> None:
    """Refuses values of a trace that is over: they have no data, and would count as inputs left out."""
    for i, x in enumerate(inputs):
        if x is not None and x._data is None:
            name = info.inputs[min(i, len(info.inputs) - 1)]["name"]
            raise TraceError(
                f"{info.name}: {name} is a value of a Program that is no longer traced: it has no data. Return it from "
                "the traced function instead of keeping it"
            )


def _lift(inputs: Sequence[Any]) -> list[Any]:
    """Numbers become 0-d tensors of the other inputs' type, beside half types float32; arrays become tensors."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    lifted = []
    for x in inputs:
        if x is None or isinstance(x, Tensor):
            lifted.append(x)
        elif isinstance(x, (bool, int, float)) and tensors:
            lifted.append(scalar_like(x, tensors[-1]))
        else:
            lifted.append(tensor(x))
    return lifted


def call_by_name(name: str, inputs: Sequence[Any], **attrs: Any) -> Any:
    """Runs the operator called `name`; for code that works with any operator, such as passes and tests."""
    info = OPS.get(name) or CUSTOM[name]
    return apply(info, inputs, info.attr_values(attrs))


def make_function(info: OpInfo, module: str = "framework.ops") -> Callable[..., Any]:
    """The public function of an operator: inputs, then attributes, with the registry's defaults and documentation."""
    parameters: list[str] = []
    arguments: list[str] = []
    for arg in info.inputs:
        none_given = "=()" if arg["variadic"] and any("=" in p for p in parameters) else ""
        parameters.append(arg["name"] + ("=None" if arg["optional"] else none_given))
        arguments.append(("*" if arg["variadic"] else "") + arg["name"])
    values = {}
    # A required attribute after an optional input can only be given by name.
    if any(a["optional"] for a in info.inputs) and any(a["required"] for a in info.attrs):
        parameters.append("*")
    for attr in sorted(info.attrs, key=lambda a: not a["required"]):
        parameters.append(attr["name"] + ("" if attr["required"] else f"=_default_{attr['name']}"))
        values[f"_default_{attr['name']}"] = attr["default"]
    names = [a["name"] for a in info.attrs]
    if "axes" in names and "axis" not in names:
        parameters += ["*", "axis=None"] if "*" not in parameters else ["axis=None"]
    inputs = "".join(a + ", " for a in arguments)
    meaning = {"algorithm": "_chosen(algorithm)", "axes": f"_axes({info.name!r}, axes, axis)"}
    attrs = "".join(meaning.get(name, name) + ", " for name in names)
    source = f"def {info.name}({', '.join(parameters)}):\n    return _apply(_info, ({inputs}), ({attrs}))\n"
    scope: dict[str, Any] = {"_apply": apply, "_info": info, "_chosen": algorithm.chosen, "_axes": _axes, **values}
    exec(compile(source, f"<operator {info.name}>", "exec"), scope)
    function = scope[info.name]
    function.__doc__ = _documentation(info)
    function.__module__ = module
    return function


def _axes(operator: str, axes: Any, axis: Any) -> Any:
    """`axes`, which may be called `axis` as in NumPy."""
    if axis is None:
        return axes
    if axes not in ((), [], None):
        raise AttributeValueError(f"{operator}: axes={axes!r} and axis={axis!r} are both given; they mean the same")
    return axis


def _documentation(info: OpInfo) -> str:
    lines = [info.doc]
    if info.attrs:
        lines += ["", "Args:"]
        lines += [f"    {a['name']}: {a['doc']}" for a in info.attrs]
    return "\n".join(lines)
