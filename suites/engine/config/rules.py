"""Rules across fields: the one list of checks that look at several places of a config at once.

A suite adds its rules when its parts are loaded, e.g. that labels fit `num_classes` or anchors fit the
strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suites.engine.config.nodes import Problem

if TYPE_CHECKING:
    from suites.engine.config.config import Config

Check = Callable[["Config"], Iterable[tuple[str, str]]]


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

    def applies(self, config: Config) -> bool:
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

    def problems(self, config: Config) -> Iterator[Problem]:
        """What the rules find wrong with a config whose single values are right."""
        for rule in self._rules:
            if rule.applies(config):
                for path, text in rule.check(config):
                    yield config.problem(path, text)


RULES = Rules()
rule = RULES.rule
