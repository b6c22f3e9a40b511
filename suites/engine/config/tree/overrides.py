"""Overrides of the command line: ``-o data.train.transforms[resize].size=416`` sets one value, as YAML."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from framework.errors import ConfigError
from suites.engine.config.tree.lookups import step_into
from suites.engine.config.tree.merge import merge
from suites.engine.config.tree.nodes import Node, Origin, Problem
from suites.engine.config.tree.paths import Path, Selector, format_path, parse_path
from suites.engine.config.tree.yaml_text import parse_text


def apply_overrides(root: Node, overrides: Iterable[str], texts: Collection[str] = ()) -> Node:
    """The config with each ``path=value`` laid over it, in order, by the rules of `merge`.

    Keys that are not there yet are added; whether the component takes them is for the schema to say. The values of
    those among `texts` are taken as they are, not as YAML.

    Raises:
        ConfigError: Not of the form ``path=value``, a value that is not YAML, or a list item that does not
        exist.
    """
    for text in overrides:
        root = _apply(root, text, as_text=text in texts)
    return root


def source_of(text: str) -> str:
    """What an override is called in origins and messages."""
    return f"-o {text}"


def value_of(text: str) -> Node:
    """The value of an override, as YAML; raises ConfigError where it is none."""
    return parse_text(text.partition("=")[2], source_of(text), numbered=False)


def _apply(root: Node, text: str, *, as_text: bool) -> Node:
    origin = Origin(source_of(text))
    written_path, equals, written_value = text.partition("=")
    if not equals:
        raise ConfigError(f"{origin}: an override is written path=value, such as -o data.train.batch_size=4")
    try:
        steps = parse_path(written_path.strip())
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    value = Node(written_value.replace("${", "$${"), origin) if as_text else value_of(text)
    return _set(root, (), steps, value, origin)


def _set(node: Node | None, path: Path, steps: tuple[str | Selector, ...], value: Node, origin: Origin) -> Node:
    """`node` (None: nothing there yet) with `value` merged in at the remaining `steps`."""
    if not steps:
        return merge(node, value, path)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str) and (node is None or isinstance(node.value, dict) or node.value is None):
        below = node.value.get(step) if node is not None and isinstance(node.value, dict) else None
        if not rest:  # through merge, so that a change of `type` and `$delete` act as in a file
            return merge(node, Node({step: value}, origin), path)
        child = _set(below, (*path, step), rest, value, origin)
        inherited = node.value if node is not None and isinstance(node.value, dict) else {}
        return Node(
            {**inherited, step: child},
            node.origin if node else origin,
            note=node.note if node is not None else "",
        )
    if node is None:
        raise ConfigError(str(Problem(origin, path, "there is no list here to select an item from")))
    if isinstance(node.value, str) and "${" in node.value:
        text = f"stands for {node.value}; override it there, or replace {format_path(path)} as a whole"
        raise ConfigError(str(Problem(origin, path, text)))
    try:
        exact, below = step_into(node, step, path)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    assert isinstance(node.value, list) and not isinstance(exact, str)
    items = list(node.value)
    if not rest and value.value == "$delete":
        del items[exact.index]
    else:
        items[exact.index] = _set(below, (*path, exact), rest, value, origin)
    return Node(items, node.origin, overrode=node.overrode)
