"""Rules across fields: checks that look at several places of a config at once.

A component owns the rules about itself: its class has `config_rules(part)`, a class method that yields the problems
of one use of it, e.g. that anchors fit the strides. What belongs to no component, e.g. that labels fit `num_classes`,
stands in the one list that suites add to when their parts are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from suites.engine.config.tree.nodes import Problem


class Whole(Protocol):
    """A config, as rules look at it."""

    def __getitem__(self, path: str) -> Any:
        """The value at a key path."""

    def get(self, path: str, default: Any = None) -> Any:
        """The same, or `default` where there is none."""

    def has(self, path: str) -> bool:
        """Whether there is a value."""

    def problem(self, path: str, text: str) -> Problem:
        """What is wrong there, with its file and line."""

    def parts(self) -> Iterable[Part]:
        """Every component that is named."""


Check = Callable[[Any], Iterable[tuple[str, str]]]


@dataclass(frozen=True)
class Part:
    """One component where a config names it.

    Attributes:
        config: the whole config.
        path: its place there.
        target: the class or function.
    """

    config: Whole
    path: str
    target: Callable[..., Any]

    def __getitem__(self, key: str) -> Any:
        """The value of one of its arguments, or of an argument's, such as "backbone.out_strides"."""
        return self.config[self.at(key)]

    def get(self, key: str, default: Any = None) -> Any:
        """The same, or `default` where there is none."""
        return self.config.get(self.at(key), default)

    def at(self, key: str) -> str:
        """The place of one of its arguments in the config."""
        return f"{self.path}.{key}" if self.path else key

    def problem(self, key: str, text: str) -> Problem:
        """What is wrong with one of its arguments."""
        return self.config.problem(self.at(key), text)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        check: Yields (key path, what is wrong there) for a config; its docstring states the rule.
        needs: Key paths that must have a value (written or default); the rule is skipped where one has none.
        suite: The suite whose configs it is for; None for all.
    """

    check: Check
    needs: tuple[str, ...] = ()
    suite: str | None = None

    def applies(self, config: Whole) -> bool:
        """Whether the config is of the rule's suite and has all that it needs."""
        if self.suite is not None and config.get("suite") != self.suite:
            return False
        return all(config.has(path) for path in self.needs)


class Rules:
    """A list of rules. Programs use the one instance `RULES`; tests make their own."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def rule(self, *needs: str, suite: str | None = None) -> Callable[[Check], Check]:
        """Decorate a function so that every checked config must satisfy it.

        Args:
            needs: Key paths without which the rule has nothing to say.
            suite: The suite whose configs it is for; None for all.

        Example:
            >>> @rule("data.num_classes", "model.head.num_classes", suite="detection")   # doctest: +SKIP
            ... def head_predicts_the_classes_of_the_data(config):
            ...     if config.get("model.head.num_classes") != config.get("data.num_classes"):
            ...         yield "model.head.num_classes", "differs from data.num_classes; write
            ${data.num_classes}"
        """

        def decorate(check: Check) -> Check:
            self._rules.append(Rule(check, needs, suite))
            return check

        return decorate

    def problems(self, config: Whole) -> Iterator[Problem]:
        """What the rules find wrong with a config whose single values are right."""
        for rule in self._rules:
            if rule.applies(config):
                for path, text in rule.check(config):
                    yield config.problem(path, text)
        for part in config.parts():
            own: Callable[[Part], Iterable[Problem]] | None = getattr(part.target, "config_rules", None)
            if own is not None:
                yield from own(part)


RULES = Rules()
rule = RULES.rule
