"""Slots: what may stand at a place of a config, one class per kind of type hint.

Plain values are here, components in `suites.engine.config.schema.components`, the way from type hints in
`typehints`.
"""

# ruff: noqa: D102 (Slot documents the methods that its kinds define)

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from framework.outside import expanded
from suites.engine.config.tree.nodes import Node, Problem, describe_value
from suites.engine.config.tree.paths import Item, Path, Step
from suites.engine.names import did_you_mean


class Slot(ABC):
    """A place in a config and what fits there."""

    @abstractmethod
    def describe(self) -> str:
        """What fits, for error messages and help, e.g. ``list of int``."""

    @abstractmethod
    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        """All that is wrong with the value `node` at `path`."""

    def build(self, node: Node, path: Path) -> Any:
        """The Python value; `node` must have no problems."""
        return node.plain()

    def child(self, node: Node, step: Step) -> Slot:
        """The slot one step below `node`."""
        return Anything()

    def filled(self, node: Node) -> Node:
        """`node` with the defaults of all arguments that it leaves out; `node` must have no problems."""
        return node

    def mismatch(self, node: Node, path: Path, hint: str = "") -> Problem:
        """The problem that the value is of another kind than expected."""
        return Problem(node.origin, path, f"expects {self.describe()}, found {describe_value(node)}{hint}")


class Anything(Slot):
    """Any plain value; for parameters without a type hint or of type `Any`."""

    def describe(self) -> str:
        return "any value"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        yield from ()


class Unsettable(Slot):
    """A type that no YAML value can give, such as an array: only code can supply it."""

    def __init__(self, hint: Any) -> None:
        self._name = getattr(hint, "__name__", None) or str(hint)

    def describe(self) -> str:
        return f"{self._name} (from code only)"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        yield Problem(node.origin, path, f"cannot be set from a file, because it takes {self._name}; remove it")


class ScalarOf(Slot):
    """`int`, `float`, `bool`, `str`, `None` or a file path. An int is a float too; a bool is not an int."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def describe(self) -> str:
        names = {type(None): "null", FilePath: "a file path", bool: "true or false"}
        return names.get(self.kind, self.kind.__name__)

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not self._fits(node.value):
            yield self.mismatch(node, path, self._hint(node.value))

    def build(self, node: Node, path: Path) -> Any:
        if self.kind is float:
            return float(node.value)  # type: ignore[arg-type]
        return expanded(str(node.value)) if self.kind is FilePath else node.value

    def _fits(self, value: object) -> bool:
        if self.kind is float:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return type(value) is (str if self.kind is FilePath else self.kind)

    def _hint(self, value: object) -> str:
        if self.kind is bool and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off"):
            return f"; write {'true' if value.lower() in ('yes', 'on') else 'false'}"
        if self.kind is str and isinstance(value, (bool, int, float)):
            return "; put it in quotes"
        if self.kind is int and isinstance(value, float) and value.is_integer():
            return f"; write {int(value)}"
        return ""


class Choice(Slot):
    """One of a few values: a `Literal`, or an `Enum` by its text value, else by its member name."""

    def __init__(self, values: dict[Any, Any]) -> None:
        self._values = values

    @classmethod
    def of_enum(cls, kind: type[enum.Enum]) -> Choice:
        """The members of an Enum class."""
        return cls({m.value if isinstance(m.value, str) else m.name: m for m in kind})

    def describe(self) -> str:
        return "one of " + ", ".join(repr(value) for value in self._values)

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not any(type(node.value) is type(v) and node.value == v for v in self._values):
            texts = [v for v in self._values if isinstance(v, str)]
            yield self.mismatch(node, path, did_you_mean(node.value, texts) if isinstance(node.value, str) else "")

    def build(self, node: Node, path: Path) -> Any:
        return self._values[node.value]


class ListOf(Slot):
    """Any number of values of one kind, built as a list or tuple."""

    def __init__(self, item: Slot, make: Callable[[list[Any]], Any] = list) -> None:
        self.item = item
        self._make = make

    def describe(self) -> str:
        return "a list" if isinstance(self.item, Anything) else f"a list of {self.item.describe()}"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not isinstance(node.value, list):
            hint = "; to change items of an inherited list write {$patch: {<id>: ...}}"
            yield self.mismatch(node, path, hint if isinstance(node.value, dict) else "")
            return
        for child_path, child in node.children(path):
            yield from self.item.problems(child, child_path)

    def build(self, node: Node, path: Path) -> Any:
        return self._make([self.item.build(child, child_path) for child_path, child in node.children(path)])

    def child(self, node: Node, step: Step) -> Slot:
        return self.item

    def filled(self, node: Node) -> Node:
        assert isinstance(node.value, list)
        return replace(node, value=[self.item.filled(child) for child in node.value])


class TupleOf(Slot):
    """A list of fixed length with a kind for each position, built as a tuple."""

    def __init__(self, items: Sequence[Slot]) -> None:
        self._items = tuple(items)

    def describe(self) -> str:
        return f"a list of {len(self._items)}: [{', '.join(item.describe() for item in self._items)}]"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not isinstance(node.value, list) or len(node.value) != len(self._items):
            yield self.mismatch(node, path)
            return
        for item, (child_path, child) in zip(self._items, node.children(path), strict=True):
            yield from item.problems(child, child_path)

    def build(self, node: Node, path: Path) -> Any:
        pairs = zip(self._items, node.children(path), strict=True)
        return tuple(item.build(child, child_path) for item, (child_path, child) in pairs)

    def child(self, node: Node, step: Step) -> Slot:
        assert isinstance(step, Item)
        return self._items[step.index]

    def filled(self, node: Node) -> Node:
        assert isinstance(node.value, list)
        return replace(node, value=[i.filled(c) for i, c in zip(self._items, node.value, strict=True)])


class DictOf(Slot):
    """A mapping from names (or whole numbers) that the user chooses to values of one kind."""

    def __init__(self, key: type, item: Slot) -> None:
        self._key = key
        self.item = item

    def describe(self) -> str:
        key = "whole numbers" if self._key is int else "names"
        return f"a mapping from {key} to {self.item.describe()}"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not isinstance(node.value, dict):
            yield self.mismatch(node, path)
            return
        for key, child in node.value.items():
            if self._key is int and not key.lstrip("-").isdecimal():
                yield Problem(child.origin, (*path, key), f"expects a whole number as key, found '{key}'")
            yield from self.item.problems(child, (*path, key))

    def build(self, node: Node, path: Path) -> Any:
        assert isinstance(node.value, dict)
        return {self._key(key): self.item.build(c, (*path, key)) for key, c in node.value.items()}

    def child(self, node: Node, step: Step) -> Slot:
        return self.item

    def filled(self, node: Node) -> Node:
        assert isinstance(node.value, dict)
        return replace(node, value={key: self.item.filled(child) for key, child in node.value.items()})


class UnionOf(Slot):
    """Any of several kinds; the first that fits, a number's own kind before conversion to float."""

    def __init__(self, options: Sequence[Slot]) -> None:
        self.options = tuple(options)

    def describe(self) -> str:
        return " or ".join(option.describe() for option in self.options)

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if self._fitting(node) is not None:
            return
        alike = [option for option in self.options if _same_shape(option, node)]
        if len(alike) == 1:
            yield from alike[0].problems(node, path)
        else:
            yield self.mismatch(node, path)

    def build(self, node: Node, path: Path) -> Any:
        return self._chosen(node).build(node, path)

    def child(self, node: Node, step: Step) -> Slot:
        return self._chosen(node).child(node, step)

    def filled(self, node: Node) -> Node:
        return self._chosen(node).filled(node)

    def option_for(self, node: Node) -> Slot | None:
        """The option that fits, else the only one of the value's shape, else None."""
        fitting = self._fitting(node)
        if fitting is not None:
            return fitting
        alike = [option for option in self.options if _same_shape(option, node)]
        return alike[0] if len(alike) == 1 else None

    def _chosen(self, node: Node) -> Slot:
        return self.option_for(node) or Anything()

    def _fitting(self, node: Node) -> Slot | None:
        own_kind = (o for o in self.options if isinstance(o, ScalarOf) and o.kind is type(node.value))
        for option in (*own_kind, *self.options):
            if next(option.problems(node, ()), None) is None:
                return option
        return None


def _same_shape(option: Slot, node: Node) -> bool:
    """Whether an option takes a mapping where the value is one, or a list where it is one."""
    if isinstance(node.value, list):
        return isinstance(option, (ListOf, TupleOf))
    is_scalar_slot = isinstance(option, (ScalarOf, Choice, ListOf, TupleOf, Unsettable))
    return isinstance(node.value, dict) and not is_scalar_slot
