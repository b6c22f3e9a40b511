"""Packages whose public names are imported when somebody asks for them, so that a command starts at once."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def exports(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    >>> __getattr__, __dir__ = exports(__name__, {"Trainer": "trainer"})       # doctest: +SKIP

    Args:
        package: its name.
        names: each public name with the module below the package that has it; "" for a module of the package itself.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not names[name]:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{names[name]}"), name)

    return get, lambda: sorted(names)


class Later:
    """What a room of the core puts here when it is imported; whoever asks for it first imports that room.

    Args:
        room: the module that fills it.
    """

    def __init__(self, room: str) -> None:
        self.__room = room

    def __getattr__(self, name: str) -> Any:
        importlib.import_module(self.__room)
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"{self.__room} gives no {name!r}") from None
