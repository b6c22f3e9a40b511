"""The operators of the user's own libraries, as functions: `framework.load_operators(path)` fills it."""

from __future__ import annotations

from typing import Any

from framework.errors import AttributeValueError
from framework.extend.libraries import function_of
from framework.ops import registry


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return function_of(name)
    except AttributeValueError as e:
        raise AttributeError(str(e)) from None


def __dir__() -> list[str]:
    return [name for name, info in registry.CUSTOM.items() if not info.internal]
