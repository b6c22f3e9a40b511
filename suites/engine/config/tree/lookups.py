"""From a written key path to the node that it means."""

from __future__ import annotations

import re

from framework.errors import ConfigError
from suites.engine.config.tree.nodes import Node
from suites.engine.config.tree.paths import Item, Path, Selector, Step, format_path, parse_path
from suites.engine.names import did_you_mean, listing


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
