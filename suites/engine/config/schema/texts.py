"""Values of `-o` that are texts: where a string or a path is expected, the value is what the shell gave.

Elsewhere it is YAML: `20240501` is a number for a count and a name for a folder, and `photos #1` is no remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

from framework.errors import ConfigError
from suites.engine.config.schema.slots import ScalarOf, Slot, UnionOf
from suites.engine.config.tree.nodes import Node, Scalar
from suites.engine.config.tree.overrides import source_of, value_of

_QUOTES = ("'", '"')


def bent(overrides: Iterable[str]) -> tuple[list[str], dict[str, ConfigError]]:
    """The overrides whose value reads otherwise as YAML than as text, and of them those that are no YAML, with why."""
    found, broken = [], {}
    for text in overrides:
        written = text.partition("=")[2]
        try:
            value = value_of(text).value
        except ConfigError as error:
            found.append(text)
            broken[text] = error
            continue
        quoted = isinstance(value, str) and written.strip().startswith(_QUOTES)
        if value != written and not quoted and "${" not in written and "$delete" not in written:
            found.append(text)
    return found, broken


def wanted_as_texts(root_slot: Slot, root: Node, candidates: Sequence[str]) -> set[str]:
    """Those of the overrides `candidates` of a config that stand, or are referred to, where a text is expected."""
    by_source = {source_of(text): (text, _parsed(text)) for text in candidates}
    found = set()
    for slot, node in _slots(root_slot, root):
        text, value = by_source.get((node.referent or node.origin).source, (None, None))
        # What is inside of a mapping that was given has its origin, too.
        if text is not None and node.plain() in (value, text.partition("=")[2]) and _is_text(slot, node):
            found.add(text)
    return found


def _parsed(text: str) -> Any:
    try:
        return value_of(text).plain()
    except ConfigError:
        return text.partition("=")[2]


def _slots(root_slot: Slot, root: Node) -> Iterator[tuple[Slot, Node]]:
    """Every value of a config with its slot, as far as the types are right."""
    waiting: list[tuple[Slot, Node]] = [(root_slot, root)]
    while waiting:
        slot, node = waiting.pop()
        yield slot, node
        inner = slot.option_for(node) or slot if isinstance(slot, UnionOf) else slot
        for path, child in node.children(()):
            try:
                waiting.append((inner.child(node, path[-1]), child))
            except (ConfigError, AssertionError, LookupError, AttributeError):  # a wrong type, which is told later
                continue


def _is_text(slot: Slot, node: Node) -> bool:
    """Whether the slot takes a text, and nothing that the value is as YAML."""
    options: Sequence[Slot] = slot.options if isinstance(slot, UnionOf) else [slot]
    kinds = [option.kind for option in options if isinstance(option, ScalarOf)]
    if not {str, FilePath} & set(kinds):
        return False
    if isinstance(node.value, str):
        return True
    if isinstance(node.value, (dict, list)):
        return all(isinstance(option, ScalarOf) for option in options)
    return not _takes(node.value, kinds)


def _takes(value: Scalar, kinds: Sequence[type]) -> bool:
    return type(value) in kinds or (type(value) is int and float in kinds)
