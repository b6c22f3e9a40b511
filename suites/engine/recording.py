"""Objects remember the arguments they were made with, so that a config can be written of them.

Every class that is registered does; see `Registry.register`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from framework.errors import AttributeValueError
from suites.engine.bonds import NONE, bonds_of

_KEY = "_arguments_given"


def record(cls: type) -> None:
    """Makes instances of `cls` remember their constructor's arguments; `given` tells them."""
    original: Any = cls.__init__  # type: ignore[misc]
    if original is object.__init__ or getattr(original, "records", None) is cls or not cls.__dictoffset__:
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        if type(self) is cls:
            try:
                arguments = dict(signature.bind(self, *args, **kwargs).arguments)
            except TypeError:
                arguments = {}  # the constructor itself says what is wrong
            arguments.pop(next(iter(signature.parameters)), None)
            _refuse_broken(cls, signature, arguments)
            self.__dict__[_KEY] = arguments
        original(self, *args, **kwargs)

    recorded.records = cls  # type: ignore[attr-defined]
    cls.__init__ = recorded  # type: ignore[misc]


def _refuse_broken(cls: type, signature: inspect.Signature, arguments: dict[str, Any]) -> None:
    """Raise AttributeValueError where arguments are given together that exclude each other; see `Bonds`."""
    bonds = bonds_of(cls)
    if bonds == NONE:
        return
    values = {name: p.default for name, p in signature.parameters.items()} | arguments
    own = {n: v for n, v in arguments.items() if not _is_same(v, signature.parameters[n].default)}
    for name, _, text in bonds.broken(own, values):
        raise AttributeValueError(f"{cls.__name__}: {name}: {text}")


def _is_same(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return value is default or (type(value) is type(default) and bool(value == default))


def given(instance: object) -> dict[str, Any]:
    """The arguments that an instance of a registered class was made with, by name; those left out are not there."""
    arguments: dict[str, Any] = dict(getattr(instance, "__dict__", {}).get(_KEY, {}))
    for name, parameter in inspect.signature(type(instance)).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return arguments
