"""Gradients of one operator by the formulas of its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from framework.autograd.rule_table import RULES, Rule
from framework.autograd.saved import kept
from framework.errors import GradientError
from framework.ops.functions import full_like
from framework.ops.registry import OpInfo
from framework.tensors import Tensor


class Applied(Protocol):
    """One application of an operator, as the tape remembers it."""

    info: OpInfo
    attrs: tuple[Any, ...]
    input_slots: list[int]
    edges: list[Any]
    saved: list[Any]
    outputs: list[Any]

    def output(self, i: int) -> Tensor:
        """The i-th output."""


def rule_of(info: OpInfo) -> Rule:
    """The operator's rule.

    Raises:
        GradientError: it has none.
    """
    found = RULES.of(info)
    if info.name in RULES.first_order_only:
        raise GradientError(f"{info.name}: there is no gradient of this gradient: {RULES.first_order_only[info.name]}")
    if found is None:
        raise GradientError(
            f"{info.name}: it has no gradient; detach() its input, "
            + ("give it one with framework.operator_gradient" if info.library else "or wrap it in a Function")
        )
    return found


def evaluate(rule: Rule, node: Applied, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients of an operator's inputs by the formulas of its rule, None where none is wanted or there is no formula.

    Args:
        rule: the operator's.
        node: its application.
        dys: gradients of its outputs, None for one that nothing depends on.
    """
    info = node.info
    grads: list[Tensor | None] = [None] * len(node.edges)
    for inputs, formula, needs in rule.formulas:
        slots = [[i for i, s in enumerate(node.input_slots) if info.inputs[s]["name"] == name] for name in inputs]
        if all(node.edges[i] is None for group in slots for i in group):
            continue
        result = formula(*[_argument(name, node, dys, name in rule.may_be_none) for name in needs])
        results = result if len(inputs) > 1 else (result,)
        for group, value in zip(slots, results, strict=True):
            values = value if isinstance(value, (list, tuple)) else [value] * len(group)  # none: it was left out
            for i, g in zip(group, values, strict=True):
                grads[i] = g if node.edges[i] is not None else None
    return grads


def _argument(name: str, node: Applied, dys: Sequence[Tensor | None], may_be_none: bool) -> Any:
    """What a formula's parameter stands for."""
    info = node.info
    for i, arg in enumerate(info.inputs):
        if arg["name"] == name:
            values = [kept(x) for x, s in zip(node.saved, node.input_slots, strict=True) if s == i]
            return values if arg["variadic"] else (values[0] if values else None)
    for i, out in enumerate(info.outputs):
        if out["name"] == name:
            return [node.output(k) for k in range(i, len(node.outputs))] if out["variadic"] else node.output(i)
        if "d" + out["name"] == name:
            if out["variadic"]:
                return [_or_zeros(dys[k], node, k) for k in range(i, len(dys))]
            return dys[i] if may_be_none else _or_zeros(dys[i], node, i)
    for value, attr in zip(node.attrs, info.attrs, strict=True):
        if attr["name"] == name:
            return value
    raise GradientError(f"{info.name}: its rule asks for '{name}', which is no input, output, attribute or d<output>")


def _or_zeros(dy: Tensor | None, node: Applied, i: int) -> Tensor:
    return dy if dy is not None else full_like(node.output(i).detach(), value=0.0)
