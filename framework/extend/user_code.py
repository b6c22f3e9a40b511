"""Calls of the user's functions: what goes wrong in one is said with its name and place, and keeps its traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from framework.errors import PaddockError, UserFunctionError


def name_of(function: Callable[..., Any]) -> str:
    """Such as `clip` or `Model.clip`; the type's name for an object that can be called."""
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition("<locals>.")[2]


def place_of(function: Callable[..., Any]) -> str:
    """` (file:line)` where the function is written; "" for one that is not Python."""
    code = getattr(function, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code else ""


@contextlib.contextmanager
def calling(who: str, function: Callable[..., Any]) -> Iterator[None]:
    """Inside, the user's function runs; `who` names it.

    Raises:
        UserFunctionError: it raised an error, which is the cause. Our own errors keep their type.
    """
    try:
        yield
    except PaddockError as e:
        raise type(e)(f"{who}{place_of(function)}: {e}") from e
    except Exception as e:
        raise UserFunctionError(f"{who}{place_of(function)} raised {type(e).__name__}: {e}") from e
