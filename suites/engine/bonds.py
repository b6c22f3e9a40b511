"""Arguments of one component or section of which one makes another do nothing: declared where that is defined.

A config that gives both, or one without what it needs, is refused with the places of both; so is a call from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Section = TypeVar("Section", bound=type)
Needed = str | tuple[str, Any]  # an argument, or an argument with the value that it must have


@dataclass(frozen=True)
class Bonds:
    """What the arguments of one component say about each other. Giving an argument its default is not giving it.

    Attributes:
        exclusive: groups of arguments of which the first makes each other do nothing.
        needs: what an argument does nothing without.
    """

    exclusive: tuple[tuple[str, ...], ...] = ()
    needs: Mapping[str, Needed] | None = None

    def pairs(self) -> set[frozenset[str]]:
        """The pairs of arguments that are declared, in whichever way."""
        apart = {frozenset((first, other)) for first, *others in self.exclusive for other in others}
        together = {frozenset((name, _needed(need)[0])) for name, need in (self.needs or {}).items()}
        return apart | together

    def names(self) -> set[str]:
        """All arguments that are named."""
        return {name for pair in self.pairs() for name in pair}

    def broken(self, given: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
        """What is wrong: an argument, the other that it is about, and the sentence about both.

        Args:
            given: the arguments that are given and are not their defaults.
            values: all arguments by name, where they are known.
        """
        for first, *others in self.exclusive:
            for other in others:
                if first in given and other in given:
                    yield other, first, f"does nothing beside '{first}'; give one of them, or leave it at its default"
        for name, need in (self.needs or {}).items():
            wanted, value = _needed(need)
            if name not in given:
                continue
            if value is None and wanted not in given:
                yield name, wanted, f"does nothing without '{wanted}'; give that too, or take it away"
            elif value is not None and wanted in values and values[wanted] not in _choices(value):
                yield name, wanted, f"does nothing where '{wanted}' is {values[wanted]!r}; it is for {_listed(value)}"


NONE = Bonds()
_declared: dict[Callable[..., Any], Bonds] = {}


def declare(target: Callable[..., Any], bonds: Bonds) -> None:
    """Remember the bonds of a class or function."""
    if bonds != NONE:
        _declared[target] = bonds


def bound(
    *, exclusive: tuple[tuple[str, ...], ...] = (), needs: Mapping[str, Needed] | None = None
) -> Callable[[Section], Section]:
    """Declare the bonds of a section of configs, a dataclass that is not registered; see `Bonds`."""

    def wrap(section: Section) -> Section:
        declare(section, Bonds(exclusive, needs))
        return section

    return wrap


def bonds_of(target: Callable[..., Any]) -> Bonds:
    """The bonds that were declared for exactly this class or function."""
    return _declared.get(target, NONE)


def _needed(need: Needed) -> tuple[str, Any]:
    return (need, None) if isinstance(need, str) else need


def _choices(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _listed(value: Any) -> str:
    return " and ".join(repr(choice) for choice in _choices(value))
