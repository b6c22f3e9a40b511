"""The table of gradient rules, and how a rule is called.

A rule is one line of `framework/autograd/rules/`: `rule("exp", x=lambda dy, y: dy * y)`. The names of a lambda's
parameters say what it needs: `d` + an output's name is that output's gradient, an input's, output's or attribute's
name is that. What no lambda of a rule names is not kept in memory until the backward pass. An output that nothing
depends on has a gradient of zeros, or None where the parameter's default is None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framework.errors import GradientError

if TYPE_CHECKING:
    from framework.autograd.tape import Node
    from framework.ops.dispatch import OpInfo
    from framework.tensor import Tensor

Formula = Callable[..., Any]


class Rule:
    """Formulas of one operator: which inputs each yields, and which names it reads."""

    def __init__(self) -> None:
        self.formulas: list[tuple[tuple[str, ...], Formula, tuple[str, ...]]] = []
        self.names: set[str] = set()
        self.may_be_none: set[str] = set()
        self.through_composition = False

    def add(self, inputs: tuple[str, ...], formula: Formula, needs: tuple[str, ...] | None = None) -> None:
        """Declares a formula for `inputs`; `needs` are the names it reads, by default those of its parameters."""
        if needs is None:
            parameters = inspect.signature(formula).parameters
            needs = tuple(parameters)
            self.may_be_none.update(name for name, p in parameters.items() if p.default is None)
        self.formulas.append((inputs, formula, needs))
        self.names.update(needs)


class RuleTable:
    """All gradient rules by operator name."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        self.without_gradient: dict[str, str] = {}  # operator -> why
        self.first_order_only: dict[str, str] = {}  # an operator's gradient that has none itself -> why
        self.flat: dict[tuple[str, str], str] = {}  # operator and float input without a formula -> why
        self.held: dict[tuple[str, str], str] = {}  # operator and float input that counts as a constant -> why

    def __contains__(self, name: str) -> bool:
        return name in self.rules

    def of(self, info: OpInfo) -> Rule | None:
        """The operator's rule, if it has one."""
        return info.own_rule or self.rules.get(info.name)

    def saves(self, info: OpInfo) -> set[str]:
        """Names of inputs and outputs that the operator's rule reads."""
        found = self.of(info)
        if found and found.through_composition:
            return {a["name"] for a in info.inputs}
        return found.names if found else set()

    def run(self, node: Node, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of a node's inputs, None where none is wanted or the rule gives none."""
        info = node.info
        found = self.of(info)
        if info.name in self.first_order_only:
            raise GradientError(
                f"{info.name}: there is no gradient of this gradient: {self.first_order_only[info.name]}"
            )
        if found is None:
            raise GradientError(
                f"{info.name}: it has no gradient; detach() its input, "
                + ("give it one with framework.operator_gradient" if info.library else "or wrap it in a Function")
            )
        if found.through_composition:
            return _composed_gradients(node, dys)
        grads: list[Tensor | None] = [None] * len(node.edges)
        for inputs, formula, needs in found.formulas:
            slots = [[i for i, s in enumerate(node.input_slots) if info.inputs[s]["name"] == name] for name in inputs]
            if all(node.edges[i] is None for group in slots for i in group):
                continue
            result = formula(*[_argument(name, node, dys, name in found.may_be_none) for name in needs])
            results = result if len(inputs) > 1 else (result,)
            for group, value in zip(slots, results, strict=True):
                values = value if isinstance(value, (list, tuple)) else [value] * len(group)  # none: it was left out
                for i, g in zip(group, values, strict=True):
                    grads[i] = g if node.edges[i] is not None else None
        return grads


def _argument(name: str, node: Node, dys: Sequence[Tensor | None], may_be_none: bool) -> Any:
    """What a formula's parameter stands for."""
    from framework.autograd import tape

    info = node.info
    for i, arg in enumerate(info.inputs):
        if arg["name"] == name:
            values = [tape.kept(x) for x, s in zip(node.saved, node.input_slots, strict=True) if s == i]
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


def _or_zeros(dy: Tensor | None, node: Node, i: int) -> Tensor:
    from framework import ops

    return dy if dy is not None else ops.full_like(node.output(i).detach(), value=0.0)


def _composed_gradients(node: Node, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients of the composition that the operator stands for, which runs again for this."""
    from framework import ops
    from framework.autograd import tape
    from framework.ops.compositions import composition_of

    keeps_history = tape.state.enabled
    attrs = {spec["name"]: value for spec, value in zip(node.info.attrs, node.attrs, strict=True)}
    with tape.recording(True):
        # A view of each input, at which the walk stops: an input given twice has two of them.
        views = [None if x is None else ops.reshape_like(x, x) for x in map(tape.kept, node.saved)]
        out = composition_of(node.info)(*views, **attrs)
    outs = out if isinstance(out, tuple) else (out,)
    roots = [(o, dy) for o, dy in zip(outs, dys, strict=True) if dy is not None and o.requires_grad]
    wanted = [v for v, edge in zip(views, node.edges, strict=True) if v is not None and edge is not None]
    found = tape.gradients([o for o, _ in roots], wanted, [dy for _, dy in roots], create_graph=keeps_history)
    given = iter(found)
    return [next(given) if v is not None and e is not None else None for v, e in zip(views, node.edges, strict=True)]


RULES = RuleTable()


def rule(name: str, **formulas: Formula) -> None:
    """Declares the gradient of operator `name`: one formula for each input that has one."""
    entry = RULES.rules.setdefault(name, Rule())
    for input_name, formula in formulas.items():
        entry.add((input_name,), formula)


def joint_rule(name: str, inputs: str, formula: Formula) -> None:
    """Declares one formula that gives the gradients of several inputs (`inputs`, separated by spaces) at once."""
    RULES.rules.setdefault(name, Rule()).add(tuple(inputs.split()), formula)


def no_gradient(reason: str, *names: str) -> None:
    """Declares that operators have no gradient, and why."""
    for name in names:
        RULES.without_gradient[name] = reason


def first_order_only(reason: str, *names: str) -> None:
    """Declares that operators, which are gradients themselves, have none, and why.

    Unlike `no_gradient` this does not mean that nothing flows back: asking for it is an error.
    """
    for name in names:
        RULES.first_order_only[name] = reason


def flat(name: str, **reasons: str) -> None:
    """Declares that the gradient of operator `name` by a float input is 0 wherever it exists, and why."""
    for input_name, reason in reasons.items():
        RULES.flat[name, input_name] = reason


def held(name: str, **reasons: str) -> None:
    """Declares that the gradient of operator `name` treats a float input as a constant, and why.

    Unlike with `flat` its result does depend on that input.
    """
    for input_name, reason in reasons.items():
        RULES.held[name, input_name] = reason


def through_composition(*names: str) -> None:
    """Declares that fused operators have the gradients of what they stand for (framework.ops.compositions).

    Exact to any order, and slower than a rule of their own: for operators whose gradient is rarely wanted.
    """
    for name in names:
        RULES.rules.setdefault(name, Rule()).through_composition = True
