"""The table of gradient rules: data, which framework.autograd.formulas computes with.

A rule is one line of `framework/autograd/rules/`: `rule("exp", x=lambda dy, y: dy * y)`. The names of a lambda's
parameters say what it needs: `d` + an output's name is that output's gradient, an input's, output's or attribute's
name is that. What no lambda of a rule names is not kept in memory until the backward pass. An output that nothing
depends on has a gradient of zeros, or None where the parameter's default is None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framework.ops.registry import OpInfo

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
