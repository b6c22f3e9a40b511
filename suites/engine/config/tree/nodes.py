"""A config as a tree whose values remember their file and line, what they replaced, and their reference.

Trees are never changed in place: merging and overriding build new nodes around shared children.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from suites.engine.config.tree.paths import Item, Path, format_path

Scalar = None | bool | int | float | str
Value: TypeAlias = "Scalar | dict[str, Node] | list[Node]"


@dataclass(frozen=True)
class Origin:
    """Where a value was written: a file and line, or (line 0) another source such as ``-o path=value``."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a config, printed as ``file:line: key.path: what``."""

    origin: Origin
    path: Path
    text: str

    def __str__(self) -> str:
        where = format_path(self.path)
        return f"{self.origin}: {where}: {self.text}" if where else f"{self.origin}: {self.text}"


@dataclass(frozen=True)
class Node:
    """One value of a config.

    Attributes:
        value: A scalar, a mapping of nodes or a list of nodes.
        origin: Where it was written; in a mapping, the line of its key.
        overrode: The value of a base file (or earlier override) that this one replaced.
        reference: The text that gave this value, such as ``${data.num_classes}``, if it was not written
            plainly.
        referent: Where the value that `reference` names was written.
        note: What a reader of an error about this mapping should know, e.g. which inherited keys were
            dropped.
    """

    value: Value
    origin: Origin
    overrode: Node | None = field(default=None, compare=False)
    reference: str = ""
    referent: Origin | None = None
    note: str = field(default="", compare=False)

    def plain(self) -> Any:
        """The value as ordinary dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    @property
    def id(self) -> str | None:
        """The name by which a list item can be addressed: the text under its key `id`, if it has one."""
        if isinstance(self.value, dict) and "id" in self.value:
            name = self.value["id"].value
            return name if isinstance(name, str) else None
        return None

    def children(self, path: Path) -> Iterator[tuple[Path, Node]]:
        """The values directly inside this one, each with its path; none for a scalar."""
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield (*path, key), child
        elif isinstance(self.value, list):
            for index, child in enumerate(self.value):
                yield (*path, Item(index, child.id)), child

    def leaves(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """All scalars and empty containers below (or at) this node, each with its path."""
        empty = True
        for child_path, child in self.children(path):
            empty = False
            yield from child.leaves(child_path)
        if empty:
            yield path, self


def from_plain(value: Any, origin: Origin) -> Node:
    """A tree from ordinary dicts, lists, tuples and scalars, all with the same origin."""
    if isinstance(value, dict):
        return Node({str(key): from_plain(child, origin) for key, child in value.items()}, origin)
    if isinstance(value, (list, tuple)):
        return Node([from_plain(child, origin) for child in value], origin)
    return Node(value, origin)


def describe_value(node: Node) -> str:
    """What was found, for an error: ``'yes' (str)``, ``3 (int)``, ``a mapping``, ``a list``, ``null``."""
    if isinstance(node.value, dict):
        text = f"a mapping with {', '.join(node.value)}" if node.value else "an empty mapping"
    elif isinstance(node.value, list):
        text = f"a list of {len(node.value)}"
    elif node.value is None:
        text = "null"
    elif isinstance(node.value, bool):
        text = f"{str(node.value).lower()} (bool)"
    else:
        text = f"{node.value!r} ({type(node.value).__name__})"
    return f"{text} from {node.reference} ({node.referent})" if node.reference else text
