"""Key paths such as ``data.train.transforms[resize].size``: their grammar, printing and lookup.

A step is a key, or ``[index]`` or ``[id]`` into a list. A key with a dot or bracket is quoted:
``lr_mult["a.b"]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.errors import ConfigError
from suites.engine.names import did_you_mean, listing

if TYPE_CHECKING:
    from suites.engine.config.nodes import Node


@dataclass(frozen=True)
class Item:
    """A step into a list, by position and, where the item carries one, by its id."""

    index: int
    id: str | None = None


Step = str | Item
Path = tuple[Step, ...]

_PLAIN_KEY = re.compile(r"[^\s.\[\]\"'{}=]+")
_STEP = re.compile(
    r"""(?:^|\.)(?P<key>[^\s.\[\]"'${}=]+)   # name, or .name
      | \["(?P<quoted>[^"]*)"\]              # ["any.key"]
      | \[(?P<item>[^\s.\[\]"'${}=]+)\]      # [0] or [resize]""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Selector:
    """A step ``[text]`` as written, before it is known whether it selects by index or by id."""

    text: str


def parse_path(text: str) -> tuple[str | Selector, ...]:
    """Split a written path into keys and selectors.

    Raises:
        ConfigError: The text is not a path.
    """
    steps: list[str | Selector] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            break
        key = match["key"] if match["key"] is not None else match["quoted"]
        steps.append(key if key is not None else Selector(match["item"]))
        position = match.end()
    if not steps or position < len(text):
        raise ConfigError(f"'{text}' is not a key path; write it like data.train.transforms[resize].size")
    return tuple(steps)


def format_path(path: Path) -> str:
    """The path as a user writes it; items are named by id where they have one."""
    text = ""
    for step in path:
        if isinstance(step, Item):
            text += f"[{step.index if step.id is None else step.id}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def select_item(items: list[Node], selector: str) -> int:
    """Position of the list item with this id or, failing that, this index.

    Raises:
        ConfigError: No such item; the message lists the ids.
    """
    ids = [item.id for item in items]
    if selector in ids:
        return ids.index(selector)
    if re.fullmatch(r"-?\d+", selector):
        index = int(selector)
        if -len(items) <= index < len(items):
            return index % len(items)
        raise ConfigError(f"has {len(items)} items, so there is no [{selector}]")
    known = [name for name in ids if name is not None]
    if not known:
        raise ConfigError(f"has no items with an id, so there is no [{selector}]; select by position, as in [0]")
    raise ConfigError(
        f"has no item with id '{selector}'{did_you_mean(selector, known) or '.'} It has: {listing(known)}"
    )


def step_into(node: Node, step: str | Selector, path: Path) -> tuple[Step, Node]:
    """The child that one written step selects, with the step in its exact form.

    Raises:
        ConfigError: There is no such child; the message starts with the key path of `node`.
    """
    where = f"{format_path(path)} " if path else "the config "
    if isinstance(step, Selector):
        if not isinstance(node.value, list):
            raise ConfigError(f"{where}is not a list, so it has no [{step.text}]")
        try:
            index = select_item(node.value, step.text)
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None
        return Item(index, node.value[index].id), node.value[index]
    if isinstance(node.value, list):
        raise ConfigError(f"{where}is a list; select an item by id or position, as in [{step}] or [0]")
    if not isinstance(node.value, dict):
        raise ConfigError(f"{where}is a single value, so it has no '{step}'")
    if step not in node.value:
        known = list(node.value)
        raise ConfigError(f"{where}has no '{step}'{did_you_mean(step, known) or '.'} It has: {listing(known)}")
    return step, node.value[step]


def lookup(root: Node, text: str) -> tuple[Path, Node]:
    """The node at a written path, with its exact path.

    Raises:
        ConfigError: Nothing stands there; the message names the nearest key.
    """
    path: Path = ()
    node = root
    for step in parse_path(text):
        exact, node = step_into(node, step, path)
        path = (*path, exact)
    return path, node
