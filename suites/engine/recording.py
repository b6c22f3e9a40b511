"""Objects remember the arguments they were made with, so that a config can be written of them.

Every class that is registered does; see `Registry.register`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

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
            self.__dict__[_KEY] = arguments
        original(self, *args, **kwargs)

    recorded.records = cls  # type: ignore[attr-defined]
    cls.__init__ = recorded  # type: ignore[misc]


def given(instance: object) -> dict[str, Any]:
    """The arguments that an instance of a registered class was made with, by name; those left out are not there."""
    arguments: dict[str, Any] = dict(getattr(instance, "__dict__", {}).get(_KEY, {}))
    for name, parameter in inspect.signature(type(instance)).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return arguments
