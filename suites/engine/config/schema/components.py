"""Slots for components: a mapping whose `type` names a registered class, or the plain section of a dataclass.

The arguments are checked against the signature of the class; unknown, missing and ill-typed ones are
problems.
"""

# ruff: noqa: D102 (Slot documents the methods that its kinds define)

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from framework.errors import AttributeValueError
from suites.engine.bonds import NONE, bonds_of
from suites.engine.config.schema.factory import Factory, OfRole, Supplied, construct
from suites.engine.config.schema.signatures import Parameter, signature_of
from suites.engine.config.schema.slots import (
    Anything,
    Choice,
    DictOf,
    ListOf,
    ScalarOf,
    Slot,
    TupleOf,
    UnionOf,
    Unsettable,
)
from suites.engine.config.tree.nodes import Node, Origin, Problem, describe_value, from_plain
from suites.engine.config.tree.paths import Item, Path, Step, format_path
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import Registry

_SCALARS = (int, float, bool, str, type(None), FilePath)
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_MAPPINGS = (dict, collections.abc.Mapping)


class Arguments:
    """The arguments of one class or function, as slots."""

    def __init__(self, target: Callable[..., Any], registry: Registry, offered: tuple[str, ...] = ()) -> None:
        """Args: the component, where types are looked up, and the arguments that code will supply."""
        self.parameters: dict[str, Parameter] = {
            name: p for name, p in signature_of(target).parameters.items() if name not in offered
        }
        self._supplied = [name for name in signature_of(target).parameters if name in offered]
        self._bonds = bonds_of(target)
        self._registry = registry

    def slot(self, name: str) -> Slot:
        """What the named argument takes; null too where null is its default."""
        parameter = self.parameters[name]
        slot = slot_of(parameter.hint, self._registry)
        return optional(slot) if parameter.default is None else over_default(slot, parameter.default)

    def problems(self, given: dict[str, Node], owner: Node, path: Path, who: str) -> Iterator[Problem]:
        """What is wrong with the arguments `given` in the mapping `owner` of the component `who`."""
        for key, child in given.items():
            if key in self.parameters:
                yield from self.slot(key).problems(child, (*path, key))
            elif key in self._supplied:
                text = f"'{key}' of {who} is supplied by the code that builds it; remove it"
                yield Problem(child.origin, (*path, key), text)
            else:
                yield Problem(child.origin, (*path, key), self._unknown(key, who))
        yield from self._broken(given, path)
        for parameter in self.parameters.values():
            if parameter.required and parameter.name not in given:
                yield Problem(owner.origin, path, self._missing(parameter, who, owner))

    def _broken(self, given: dict[str, Node], path: Path) -> Iterator[Problem]:
        """Arguments that do nothing beside, or without, another; each names the other with its file and line."""
        if self._bonds == NONE:
            return
        known = {name: node for name, node in given.items() if name in self.parameters}
        defaults = {name: _default_node(p.default, Origin("")) for name, p in self.parameters.items()}
        plain = {name: node.plain() for name, node in {**defaults, **known}.items() if node is not None}
        own = {name: plain[name] for name in known if not _is_default(defaults[name], plain[name])}
        for name, other, text in self._bonds.broken(own, plain):
            where = f" ({format_path((*path, other))} is at {known[other].origin})" if other in known else ""
            yield Problem(known[name].origin, (*path, name), text + where)

    def build(self, given: dict[str, Node], path: Path) -> dict[str, Any]:
        """The arguments as Python values, by name."""
        return {key: self.slot(key).build(child, (*path, key)) for key, child in given.items()}

    def filled(self, given: dict[str, Node], who: str) -> dict[str, Node]:
        """`given` with its own defaults filled in, then the defaults of arguments left out."""
        nodes = {key: self.slot(key).filled(child) for key, child in given.items()}
        for name, parameter in self.parameters.items():
            if name not in nodes and not parameter.required:
                default = _default_node(parameter.default, Origin(f"default of {who}"))
                if default is not None:
                    nodes[name] = default
        return nodes

    def _unknown(self, key: str, who: str) -> str:
        names = list(self.parameters)
        return f"{who} takes no '{key}'{did_you_mean(key, names) or '.'} It takes: {listing(names)}"

    def _missing(self, parameter: Parameter, who: str, owner: Node) -> str:
        note = f" ({owner.note})" if owner.note and f" {parameter.name}" in owner.note else ""
        kind = self.slot(parameter.name).describe()
        return f"{who} needs '{parameter.name}' ({kind}), which is missing{note}"


class Section(Slot):
    """A mapping without `type`, whose keys are the fields of a dataclass.

    Fields that it leaves out are those of `default`, the object that stands where the whole mapping is left out; else
    the dataclass's own.
    """

    def __init__(self, cls: type, registry: Registry, default: Any = None) -> None:
        self.target = cls
        self._registry = registry
        own = signature_of(cls).parameters if default is not None else {}
        values = {name: getattr(default, name) for name in own}
        self._defaults = {name: value for name, value in values.items() if value != own[name].default}

    def over(self, default: Any) -> Section:
        """The same, where `default` stands for the whole mapping."""
        return Section(self.target, self._registry, default)

    @property
    def arguments(self) -> Arguments:
        """The fields as slots."""
        arguments = Arguments(self.target, self._registry)
        for name, value in self._defaults.items():
            arguments.parameters[name] = replace(arguments.parameters[name], default=value)
        return arguments

    def describe(self) -> str:
        return f"a mapping ({self.target.__name__})"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        if not isinstance(node.value, dict):
            hint = f" with the keys: {listing(self.arguments.parameters)}"
            yield self.mismatch(node, path, hint)
            return
        found = list(self.arguments.problems(_given(node, path), node, path, self.target.__name__))
        yield from found
        if not found and is_plain_data(self, node):
            yield from self._refusal(node, path)

    def _refusal(self, node: Node, path: Path) -> Iterator[Problem]:
        """What the dataclass itself refuses, such as a value out of range; plain data costs nothing to build."""
        try:
            self.target(**self._values(node, path))
        except AttributeValueError as error:
            yield Problem(node.origin, path, str(error).removeprefix(f"{format_path(path)}: "))

    def build(self, node: Node, path: Path) -> Any:
        where = f"{node.origin}: {format_path(path)}"
        return construct(self.target, self._values(node, path), {}, where)

    def _values(self, node: Node, path: Path) -> dict[str, Any]:
        return {**self._defaults, **self.arguments.build(_given(node, path), path)}

    def child(self, node: Node, step: Step) -> Slot:
        return _child_slot(self.arguments, step)

    def filled(self, node: Node) -> Node:
        assert isinstance(node.value, dict)
        return replace(node, value=self.arguments.filled(node.value, self.target.__name__))


def over_default(slot: Slot, default: Any) -> Slot:
    """The slot of an argument whose default is `default`: a mapping given for it changes single fields of that."""
    return slot.over(default) if isinstance(slot, Section) and type(default) is slot.target else slot


@dataclass(frozen=True)
class Component(Slot):
    """A mapping whose `type` names a class or function registered for a role.

    Attributes:
        role: The role.
        registry: Where its types are looked up.
        within: The class that the component must derive from, if the annotation names one narrower than the
            role.
        deferred: Whether code builds it later, through a `Factory`.
        offered: Arguments that code will then supply.
        key: The key that names the type; `suite` at the top of a config.
    """

    role: str
    registry: Registry
    within: type | None = None
    deferred: bool = False
    offered: tuple[str, ...] = ()
    key: str = "type"

    @property
    def default(self) -> type | None:
        """The class used where `type` is left out: the annotated class itself, if it can be named."""
        return self.within if self.within and self.registry.is_registered(self.role, self.within) else None

    def names(self) -> list[str]:
        """Type names that fit."""
        return [n for n in self.registry.names(self.role) if self._fits(self.registry.get(self.role, n))]

    def describe(self) -> str:
        return f"a {self.role} ({{{self.key}: ...}})"

    def problems(self, node: Node, path: Path) -> Iterator[Problem]:
        wrong = self._type_problem(node, path)
        if wrong is not None:
            yield wrong
            return
        arguments = self.arguments(node)
        yield from arguments.problems(self._given(node, path), node, path, self.who(node))

    def build(self, node: Node, path: Path) -> Any:
        return self.factory(node, path) if self.deferred else self.construct(node, path)

    def factory(self, node: Node, path: Path) -> Factory[Any]:
        """The unbuilt component; each call of it builds the file's arguments afresh."""
        where = f"{node.origin}: {format_path(path)}"
        arguments, given = self.arguments(node), self._given(node, path)
        return Factory(self.target(node), lambda: arguments.build(given, path), self.offered, where, node.note)

    def construct(self, node: Node, path: Path, **supplied: Any) -> Any:
        """The built component."""
        where = f"{node.origin}: {format_path(path)}"
        arguments = self.arguments(node).build(self._given(node, path), path)
        return construct(self.target(node), arguments, supplied, where, node.note)

    def child(self, node: Node, step: Step) -> Slot:
        return Anything() if step == self.key else _child_slot(self.arguments(node), step)

    def filled(self, node: Node) -> Node:
        given = self._given(node, (Item(0),))
        kept = {key: child for key, child in _mapping(node).items() if key not in given}
        return replace(node, value={**kept, **self.arguments(node).filled(given, self.who(node))})

    def target(self, node: Node) -> Callable[..., Any]:
        """The class or function that the node's `type` names."""
        named = _mapping(node).get(self.key)
        if named is None:
            assert self.default is not None
            return self.default
        return self.registry.get(self.role, str(named.value))

    def arguments(self, node: Node) -> Arguments:
        """The arguments of that class or function, less those that code supplies."""
        return Arguments(self.target(node), self.registry, self.offered)

    def who(self, node: Node) -> str:
        """The component's name in messages."""
        named = _mapping(node).get(self.key)
        name = str(named.value) if named is not None else self.target(node).__name__
        return f"a {name} config" if self.key == "suite" else name

    def _given(self, node: Node, path: Path) -> dict[str, Node]:
        has_id = "id" in signature_of(self.target(node)).parameters
        return {
            key: child
            for key, child in _given(node, path, drop_id=not has_id).items()
            if key != self.key or key in signature_of(self.target(node)).parameters
        }

    def _fits(self, target: Callable[..., Any]) -> bool:
        if self.within is None or self.within is self.registry.role(self.role).base:
            return True
        return inspect.isclass(target) and issubclass(target, self.within)

    def _type_problem(self, node: Node, path: Path) -> Problem | None:
        """What is wrong with the shape of the node or with its `type`, if anything."""
        if not isinstance(node.value, dict):
            known = isinstance(node.value, str) and node.value in self.names()
            hint = f"; write {{{self.key}: {node.value}}}" if known else ""
            return Problem(node.origin, path, f"expects {self.describe()}, found {describe_value(node)}{hint}")
        named = node.value.get(self.key)
        if named is None:
            if self.default is not None:
                return None
            text = f"needs '{self.key}', which names the {self.role}; one of: {listing(self.names())}"
            return Problem(node.origin, path, text)
        if not isinstance(named.value, str):
            text = f"expects the name of a {self.role}, found {describe_value(named)}"
            return Problem(named.origin, (*path, self.key), text)
        if named.value not in self.registry.names(self.role):
            return Problem(named.origin, (*path, self.key), self.registry.missing(self.role, named.value))
        if named.value not in self.names():
            assert self.within is not None
            names = listing(self.names())
            text = f"{named.value} is a {self.role} but no {self.within.__name__}; one of: {names}"
            return Problem(named.origin, (*path, self.key), text)
        return None


def is_plain_data(slot: Slot, node: Node) -> bool:
    """Whether building `node` builds no component, so that it can be done just to check it."""
    if isinstance(slot, UnionOf):
        slot = slot.option_for(node) or slot
    if isinstance(slot, Component):
        return False
    return all(is_plain_data(slot.child(node, path[-1]), child) for path, child in node.children(()))


def _mapping(node: Node) -> dict[str, Node]:
    assert isinstance(node.value, dict)
    return node.value


def _given(node: Node, path: Path, drop_id: bool = True) -> dict[str, Node]:
    """The arguments that a mapping gives: its keys, less the `id` that only names a list item."""
    is_item = bool(path) and isinstance(path[-1], Item)
    return {key: child for key, child in _mapping(node).items() if not (key == "id" and is_item and drop_id)}


def _child_slot(arguments: Arguments, step: Step) -> Slot:
    return arguments.slot(step) if isinstance(step, str) and step in arguments.parameters else Anything()


def _default_node(default: Any, origin: Origin) -> Node | None:
    """A default as a node, or None where no YAML value stands for it."""
    try:
        return from_plain(_as_plain(default), origin)
    except TypeError:
        return None


def _is_default(default: Node | None, value: Any) -> bool:
    return default is not None and default.plain() == value


def _as_plain(value: Any) -> Any:
    """What a file would say for a default: enums and paths as text, dataclasses as mappings; else TypeError."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, FilePath):
        return value.as_posix()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _as_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, dict):
        return {str(key): _as_plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_plain(child) for child in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value))


def slot_of(hint: Any, registry: Registry, extras: tuple[Any, ...] = ()) -> Slot:
    """The slot for a parameter with this type hint.

    Args:
        hint: A scalar type, Literal, Enum, list, tuple, dict, Optional, Union, Annotated, `Factory[X]`, a
            dataclass, the base class of a role, a registered class, or anything else (which a file then
            cannot set).
        registry: Where roles and types are looked up.
        extras: `OfRole` and `Supplied` marks of an enclosing `Annotated`.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return slot_of(arguments[0], registry, (*extras, *arguments[1:]))
    if origin is Factory or hint is Factory:
        return _component(arguments[0] if arguments else Any, registry, extras, deferred=True)
    if hint in (Any, object) or isinstance(hint, typing.TypeVar):
        return _component(Any, registry, extras) if _marked_role(extras) else Anything()
    if hint is None:
        return ScalarOf(type(None))
    if origin in (typing.Union, types.UnionType):
        return UnionOf([slot_of(option, registry, extras) for option in arguments])
    if origin is typing.Literal:
        return Choice({value: value for value in arguments})
    if origin is tuple or hint is tuple:
        return _tuple(arguments, registry, extras)
    if (origin or hint) in _LISTS:
        return ListOf(slot_of(arguments[0], registry, extras) if arguments else Anything())
    if (origin or hint) in _MAPPINGS:
        key, item = arguments or (str, Any)
        return DictOf(int if key is int else str, slot_of(item, registry, extras))
    return _class(hint, registry, extras)


def optional(slot: Slot) -> Slot:
    """The slot, taking null too."""
    null = next(slot.problems(Node(None, Origin("")), ()), None) is None
    return slot if null else UnionOf([slot, ScalarOf(type(None))])


def _tuple(arguments: tuple[Any, ...], registry: Registry, extras: tuple[Any, ...]) -> Slot:
    if not arguments:
        return ListOf(Anything(), tuple)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return ListOf(slot_of(arguments[0], registry, extras), tuple)
    return TupleOf([slot_of(item, registry, extras) for item in arguments])


def _class(hint: Any, registry: Registry, extras: tuple[Any, ...]) -> Slot:
    if hint in _SCALARS:
        return ScalarOf(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return Choice.of_enum(hint)
    if _marked_role(extras):
        return _component(Any, registry, extras)
    if isinstance(hint, type) and registry.role_of(hint) is not None:
        return _component(hint, registry, extras)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Section(hint, registry)
    return Unsettable(hint)


def _component(hint: Any, registry: Registry, extras: tuple[Any, ...], deferred: bool = False) -> Slot:
    is_class = isinstance(hint, type) and hint is not object
    role = _marked_role(extras) or (registry.role_of(hint) if is_class else None)
    if role is None:
        return Unsettable(hint)
    within = hint if is_class and registry.role_of(hint) == role else None
    offered = registry.role(role).supplied if deferred else ()
    if deferred:
        offered = (*offered, *(name for mark in extras if isinstance(mark, Supplied) for name in mark.names))
    return Component(role, registry, within, deferred, offered)


def _marked_role(extras: tuple[Any, ...]) -> str | None:
    return next((mark.role for mark in extras if isinstance(mark, OfRole)), None)
