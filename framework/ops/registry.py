"""The operators there are: what the native registry says of each, as Python reads it."""

from __future__ import annotations

from typing import Any

from framework import _core
from framework.errors import AttributeValueError


class OpInfo:
    """An operator's description, read once from the native side.

    Attributes:
        library: the file it was loaded from; "" for an operator of the registry.
        own_rule: the gradient of an operator from outside of the registry, a framework.autograd.rule_table.Rule.
        retention: what the tape keeps of its inputs and outputs, which the tape fills in at first use.
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
        self.takes_half: bool = native.takes_half
        self.widens: bool = bool(self.outputs) and self.outputs[0]["wide"]  # float32 from half inputs
        self.retention: Any = None
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


OPS: dict[str, OpInfo] = {op.name: OpInfo(op) for op in _core.ops()}
CUSTOM: dict[str, OpInfo] = {}  # operators of the user's libraries; see framework.extend


def find(name: str) -> OpInfo | None:
    """The operator called `name`, of the registry or of a library that was loaded."""
    return OPS.get(name) or CUSTOM.get(name)
