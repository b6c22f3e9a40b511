"""How a call of an operator reaches its kernel, the tape and the trace.

Each operator of the native registry becomes a Python function with its signature and documentation. A call runs at
once (eager) or, while a Program is traced, adds one operation to it; either way the tape remembers it when a gradient
may be asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framework import _core
from framework.autograd import tape
from framework.errors import AttributeValueError, TraceError
from framework.ops import algorithm

if TYPE_CHECKING:
    from framework.autograd.rule_table import Rule
    from framework.graph.trace import Trace
    from framework.tensor import Tensor


class OpInfo:
    """An operator's description, read once from the native side.

    Attributes:
        library: the file it was loaded from; "" for an operator of the registry.
        own_rule: the gradient of an operator from outside of the registry.
        pure: whether equal calls give equal results and a call that nobody reads may be left out.
    """

    __slots__ = (
        "attrs",
        "composition",
        "doc",
        "family",
        "in_place",
        "inputs",
        "is_elementwise",
        "is_view",
        "is_view_when_equal",
        "library",
        "many_outputs",
        "name",
        "native",
        "outputs",
        "own_rule",
        "pure",
        "retention",
        "takes_half",
        "widens",
    )

    def __init__(self, native: Any, *, library: str = "", pure: bool = True) -> None:
        self.native = native
        self.library = library
        self.pure = pure
        self.own_rule: Rule | None = None
        self.name: str = native.name
        self.family: str = native.family
        self.doc: str = native.doc
        self.inputs: list[dict[str, Any]] = native.inputs
        self.outputs: list[dict[str, Any]] = native.outputs
        self.attrs: list[dict[str, Any]] = native.attrs
        self.in_place: list[tuple[int, int]] = native.in_place
        self.is_view: bool = native.is_view
        self.is_view_when_equal: bool = native.is_view_when_equal
        self.composition: str = native.composition  # a function of framework.ops.compositions, "" for none
        self.is_elementwise: bool = native.is_elementwise
        self.takes_half: bool = native.takes_half
        self.widens: bool = bool(self.outputs) and self.outputs[0]["wide"]  # float32 from half inputs
        self.retention: tape.Retention | None = None  # filled by the tape at first use
        self.many_outputs = len(self.outputs) != 1 or bool(self.outputs[0]["variadic"])

    def attr_values(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """Attributes in signature order, defaults filled in.

        Raises:
            AttributeValueError: an attribute is unknown, or missing and required.
        """
        names = [a["name"] for a in self.attrs]
        for name in given:
            if name not in names:
                raise AttributeValueError(
                    f"{self.name}: takes no attribute '{name}'; it takes {', '.join(names) or 'none'}"
                )
        for a in self.attrs:
            if a["required"] and a["name"] not in given:
                raise AttributeValueError(f"{self.name}: attribute '{a['name']}' is missing: {a['doc']}")
        return tuple(given.get(a["name"], a["default"]) for a in self.attrs)


class _State(threading.local):
    """What the current thread does with operators: the trace that records them, and casts of inputs, if any.

    `precision` and `cast` belong to framework.precision.
    """

    trace: Trace | None = None
    precision: str = "float32"
    cast: Callable[[OpInfo, Sequence[Any]], Sequence[Any]] | None = None


state = _State()
OPS: dict[str, OpInfo] = {op.name: OpInfo(op) for op in _core.ops()}
CUSTOM: dict[str, OpInfo] = {}  # operators of the user's libraries; see framework.extend
_call = _core.call


def apply(info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...]) -> Any:
    """Runs or records one operator; `inputs` are Tensors, numbers, arrays or None in signature order."""
    wants_grad = traced = lift = False
    for x in inputs:
        if x.__class__ is Tensor:
            if x.requires_grad:
                wants_grad = True
            if x._value is not None or x.persistable:
                traced = True
        elif x is not None:
            lift = True
    if lift:
        inputs = _lift(inputs)
    if state.cast is not None:
        inputs = state.cast(info, inputs)
    if traced and state.trace is not None:
        out = state.trace.record(info, inputs, attrs)
    else:
        if traced:
            _refuse_leaked(info, inputs)
        data = _call(info.native, tuple([None if x is None else x._data for x in inputs]), attrs)
        out = tuple([Tensor(d) for d in data]) if info.many_outputs else Tensor(data)
    if wants_grad and tape.state.enabled:
        tape.remember(info, inputs, attrs, out)
    return out


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


def find(name: str) -> OpInfo | None:
    """The operator called `name`, of the registry or of a library that was loaded."""
    return OPS.get(name) or CUSTOM.get(name)


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
    inputs = "".join(a + ", " for a in arguments)
    attrs = "".join(("_chosen(algorithm)" if a["name"] == "algorithm" else a["name"]) + ", " for a in info.attrs)
    source = f"def {info.name}({', '.join(parameters)}):\n    return _apply(_info, ({inputs}), ({attrs}))\n"
    scope: dict[str, Any] = {"_apply": apply, "_info": info, "_chosen": algorithm.chosen, **values}
    exec(compile(source, f"<operator {info.name}>", "exec"), scope)
    function = scope[info.name]
    function.__doc__ = _documentation(info)
    function.__module__ = module
    return function


def _documentation(info: OpInfo) -> str:
    lines = [info.doc]
    if info.attrs:
        lines += ["", "Args:"]
        lines += [f"    {a['name']}: {a['doc']}" for a in info.attrs]
    return "\n".join(lines)


from framework.tensor import Tensor, scalar_like, tensor  # noqa: E402  (Tensor's methods call operators)
