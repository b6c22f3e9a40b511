"""Text for people about configs and components: list, help, explain, diff. `paddock config` prints it."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from framework.errors import ConfigError
from suites.engine.config.config import Config
from suites.engine.config.schema.components import Component, Section, over_default, slot_of
from suites.engine.config.schema.signatures import Parameter, signature_of
from suites.engine.config.schema.slots import ListOf, Slot, UnionOf
from suites.engine.config.tree.lookups import lookup
from suites.engine.config.tree.nodes import Node
from suites.engine.config.tree.paths import Path, format_path
from suites.engine.names import did_you_mean
from suites.engine.registry import Registry

_WIDTH = 110


def list_text(registry: Registry, role: str | None = None) -> str:
    """All roles, or one, each with its components and the first line of their documentation; suite by suite.

    Raises:
        ConfigError: There is no such role.
    """
    roles = sorted({name for suite in _owners(registry) for name in registry.owned_by(suite).roles()})
    if role is not None and role not in roles:
        near = did_you_mean(role, roles) or "."
        raise ConfigError(f"no role is called '{role}'{near} Roles: {', '.join(roles)}")
    blocks = []
    for suite in _owners(registry):
        own = registry.owned_by(suite)
        for name in own.roles():
            if role in (None, name):
                doc = _seen(registry, suite).role(name).doc
                lines = [f"{_of(name, suite)}: {doc}" if doc else _of(name, suite)]
                lines += [_entry(part, own.get(name, part)) for part in own.names(name)] or ["  (none)"]
                blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def help_text(registry: Registry, name: str) -> str:
    """What a component takes: each argument with its type, default and documentation; of every suite that has it.

    Raises:
        ConfigError: Nothing is registered as `name`; the message names the nearest.
    """
    owned = {suite: registry.owned_by(suite) for suite in _owners(registry)}
    found = [(suite, role, target) for suite, own in owned.items() for role, target in own.find(name)]
    if not found:
        known = [part for own in owned.values() for role in own.roles() for part in own.names(role)]
        near = did_you_mean(name, known) or "."
        raise ConfigError(f"no component is called '{name}'{near} `list` shows all")
    return "\n\n".join(
        _component_help(_seen(registry, suite), role, f"{name} ({_of(role, suite)})", target)
        for suite, role, target in found
    )


def explain_text(config: Config, path: str) -> str:
    """The value at a key path, the file and line that set it, and the values it overrode.

    For a mapping or list, one line for each value below it. A value that no file sets is shown as the default it has.

    Raises:
        ConfigError: There is no such value; the message names the nearest.
    """
    try:
        exact, node = lookup(config.root, path)
    except ConfigError:
        try:
            exact, node = lookup(config.with_defaults(), path)
        except ConfigError as error:
            raise ConfigError(f"{config.source}: {error}") from None
    if isinstance(node.value, (dict, list)) and node.value:
        return "\n".join(f"{format_path(p)} = {_value(leaf)}  ({leaf.origin})" for p, leaf in node.leaves(exact))
    return "\n".join([f"{format_path(exact)} = {_value(node)}", *_history(node)])


def origins_text(config: Config) -> str:
    """All values of a config, a line each, with the file and line that set them, and what a reference was."""
    return "\n".join(
        f"{format_path(path)} = {_value(leaf)}  # {leaf.reference + ' ' if leaf.reference else ''}{leaf.origin}"
        for path, leaf in config.root.leaves(())
    )


def diff_lines(first: Config, second: Config) -> list[str]:
    """Where two resolved configs differ: ``- path: value``, ``+ path: value``, ``~ path: old -> new``."""
    old, new = dict(_flat(first.root)), dict(_flat(second.root))
    lines = []
    for path in [*old, *(p for p in new if p not in old)]:
        if path not in new:
            lines.append(f"- {path}: {old[path]}")
        elif path not in old:
            lines.append(f"+ {path}: {new[path]}")
        elif old[path] != new[path]:
            lines.append(f"~ {path}: {old[path]} -> {new[path]}")
    orders_old, orders_new = dict(_orders(first.root)), dict(_orders(second.root))
    for path, ids in orders_old.items():
        other = orders_new.get(path, ids)
        if sorted(ids) == sorted(other) and ids != other:
            lines.append(f"~ {path} order: {', '.join(ids)} -> {', '.join(other)}")
    return lines


def _owners(registry: Registry) -> list[str | None]:
    """None for what is shared, then the suites."""
    return [None, *registry.suites()]


def _seen(registry: Registry, suite: str | None) -> Registry:
    return registry if suite is None else registry.seen_by(suite)


def _of(role: str, suite: str | None) -> str:
    return role if suite is None else f"{role} of {suite}"


def _entry(name: str, target: Callable[..., Any]) -> str:
    return f"  {name:<24} {signature_of(target).summary}".rstrip()


def _component_help(registry: Registry, role: str, title: str, target: Callable[..., Any]) -> str:
    signature = signature_of(target)
    lines = [f"{title}, {target.__module__}.{target.__qualname__}"]
    if signature.summary:
        lines.append(f"  {signature.summary}")
    supplied = registry.role(role).supplied
    lines += _parameter_lines(registry, signature.parameters, supplied, "  ")
    return "\n".join(lines)


def _parameter_lines(
    registry: Registry, parameters: dict[str, Parameter], supplied: tuple[str, ...], indent: str
) -> Iterator[str]:
    if not parameters:
        yield f"{indent}takes no arguments"
    for parameter in parameters.values():
        slot = over_default(slot_of(parameter.hint, registry), parameter.default)
        kind = "supplied by code" if parameter.name in supplied else slot.describe()
        yield f"{indent}{parameter.name}: {kind}{_default_text(parameter)}"
        if parameter.doc:
            yield textwrap.fill(
                parameter.doc, _WIDTH, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
            )
        component, section = inner_slot(slot, Component), inner_slot(slot, Section)
        if isinstance(component, Component) and parameter.name not in supplied:
            names = ", ".join(component.names()) or "none registered"
            yield textwrap.fill(
                names, _WIDTH, initial_indent=f"{indent}    one of: ", subsequent_indent=f"{indent}      "
            )
        if isinstance(section, Section):
            yield from _parameter_lines(registry, section.arguments.parameters, (), f"{indent}    ")


def inner_slot(slot: Slot, kind: type) -> Slot | None:
    """Return the slot of this kind inside optional, union and list slots; None where there is none."""
    if isinstance(slot, kind):
        return slot
    parts = slot.options if isinstance(slot, UnionOf) else [slot.item] if isinstance(slot, ListOf) else []
    return next((found for part in parts if (found := inner_slot(part, kind)) is not None), None)


def _default_text(parameter: Parameter) -> str:
    if parameter.required:
        return ""
    default = parameter.default
    if dataclasses.is_dataclass(default):
        return ", may be left out"
    return f" = {default!r}"


def _value(node: Node) -> str:
    return json.dumps(node.plain(), ensure_ascii=False)


def _history(node: Node) -> Iterator[str]:
    verb = "set by"
    step: Node | None = node
    while step is not None:
        value = "" if step is node else f" {_value(step)} from"
        by_reference = f" as {step.reference}, written in {step.referent}" if step.referent else ""
        yield f"  {verb}{value} {step.origin}{by_reference}"
        verb, step = "overrode", step.overrode


def _flat(root: Node) -> Iterator[tuple[str, str]]:
    for path, leaf in root.leaves():
        yield format_path(path), _value(leaf)


def _orders(node: Node, path: Path = ()) -> Iterator[tuple[str, list[str]]]:
    """For each list whose items carry ids, the ids in order."""
    if isinstance(node.value, list):
        ids = [item.id for item in node.value if item.id is not None]
        if ids:
            yield format_path(path), ids
    for child_path, child in node.children(path):
        yield from _orders(child, child_path)
