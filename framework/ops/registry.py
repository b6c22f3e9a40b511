"""The operators there are: what the native registry says of each, as Python reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework import _core
from framework.errors import AttributeValueError

Shape = tuple[int, ...]


class OpInfo:
    """An operator's description, read once from the native side.

    Attributes:
        library: the file it was loaded from; "" for an operator of the registry.
        own_rule: the gradient of an operator from outside of the registry, a framework.autograd.rule_table.Rule.
        retention: what the tape keeps of its inputs and outputs, which the tape fills in at first use.
        pure: whether equal calls give equal results and a call that nobody reads may be left out.

    The facts that its block declares (docs/explanation/operator_facts.md), each with a default that is safe:
        has_epilogue: whether it adds a bias and a residual and ends in an activation, on the way to memory.
        reads_table, writes_table: whether it gives rows of a table, or steps them.
        internal: called by gradients, optimizers, passes and layers; not among the functions of framework.ops.
        is_elementwise, spreads: whether the kernel of `chain` computes it, or repeats its value.
        takes_half, moves: whether it computes half types, or moves elements of any type.
        precision: what autocast makes of it, "float32", "half" (inputs with "narrow" are cast) or "follows".
        recompute: None, or which operator makes its first output again cheaply, and the names of what that takes.
        heavy: whether most of a step's time is spent in such operators; `flops` counts what a call of it does.
        along: the attribute that names the axes that it works along; "" where it has none, or treats axes unlike.
        derivative_of: the operator of one input whose derivative it is, times dy; "" for none.
        rows_step: None, or the step of some rows with the same numbers, and the attribute that must be 0 for that.
    """

    __slots__ = (
        "along",
        "attrs",
        "composition",
        "derivative_of",
        "doc",
        "family",
        "has_epilogue",
        "heavy",
        "in_place",
        "inputs",
        "internal",
        "is_elementwise",
        "is_view",
        "is_view_when_equal",
        "library",
        "many_outputs",
        "moves",
        "name",
        "native",
        "outputs",
        "own_rule",
        "picks",
        "precision",
        "pure",
        "reads_table",
        "recompute",
        "retention",
        "rows_step",
        "spreads",
        "takes_half",
        "widens",
        "writes_table",
    )

    def __init__(self, native: Any, *, library: str = "", pure: bool = True) -> None:
        self.native = native
        self.library = library
        self.pure = pure
        self.own_rule: Any = None
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
        self.internal: bool = native.is_internal
        self.spreads: bool = native.spreads
        self.has_epilogue: bool = native.has_epilogue
        self.reads_table: bool = native.reads_table
        self.writes_table: bool = native.writes_table
        self.takes_half: bool = native.takes_half
        self.moves: bool = native.moves
        self.picks: bool = native.picks
        self.precision: str = native.precision
        self.recompute: tuple[str, tuple[str, ...]] | None = native.recompute
        self.heavy: bool = native.is_heavy
        self.along: str = native.along
        self.derivative_of: str = native.derivative_of
        self.rows_step: tuple[str, str] | None = native.rows_step
        self.widens: bool = bool(self.outputs) and self.outputs[0]["wide"]  # float32 from half inputs
        self.retention: Any = None
        self.many_outputs = len(self.outputs) != 1 or bool(self.outputs[0]["variadic"])

    def choices(self, attr: str) -> tuple[str, ...]:
        """The names that attribute `attr` takes; none where it takes anything, or there is no such attribute."""
        return next((tuple(a["choices"]) for a in self.attrs if a["name"] == attr), ())

    def flops(self, inputs: Sequence[tuple[Shape, str] | None], attrs: Sequence[Any]) -> int:
        """Floating point operations of a call by its definition; `inputs` are (shape, dtype) or None where absent.

        A multiply-add counts as two, whatever the implementation saves. 0 where the block declares no formula.
        """
        if not self.heavy:
            return 0
        shapes = [None if t is None else t[0] for t in inputs]
        dtypes = [None if t is None else t[1] for t in inputs]
        return int(_core.flops(self.native, shapes, dtypes, tuple(attrs)))

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


OPS: dict[str, OpInfo] = {op.name: OpInfo(op) for op in _core.ops()}
CUSTOM: dict[str, OpInfo] = {}  # operators of the user's libraries; see framework.extend


def find(name: str) -> OpInfo | None:
    """The operator called `name`, of the registry or of a library that was loaded."""
    return OPS.get(name) or CUSTOM.get(name)
