"""From a type hint to the slot that checks and builds its values."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from pathlib import Path as FilePath
from typing import Any

from suites.engine.config.components import Component, Section
from suites.engine.config.factory import Factory, OfRole, Supplied
from suites.engine.config.nodes import Node, Origin
from suites.engine.config.slots import (
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
from suites.engine.registry import Registry

_SCALARS = (int, float, bool, str, type(None), FilePath)
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_MAPPINGS = (dict, collections.abc.Mapping)


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
