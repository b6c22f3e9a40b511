"""What a request wants of a catalogue: how many items, which of them may come, and which may not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framework.errors import DataError

KEY = "find"  # of a request's row, beside its columns
MOST = 1000  # items that one request may ask for
_KEYS = ("k", "exclude", "exclude_seen", "allow")


@dataclass(frozen=True)
class Wish:
    """The best items for a user.

    Attributes:
        k: how many; fewer come where no more may.
        exclude: items that may not come.
        allow: the only items that may come; None for all.
        exclude_seen: leave out the items of the user's own history.
    """

    k: int = 10
    exclude: frozenset[str] = frozenset()
    allow: tuple[str, ...] | None = None
    exclude_seen: bool = False

    @classmethod
    def from_json(cls, value: Any) -> Wish:
        """The wish of a request's object; DataError names what is wrong with it."""
        if not isinstance(value, dict):
            raise DataError(f"{KEY}: is an object with {', '.join(_KEYS)}; got {type(value).__name__}")
        unknown = [key for key in value if key not in _KEYS]
        if unknown:
            raise DataError(f"{KEY}: there is no '{unknown[0]}'; there are {', '.join(_KEYS)}")
        k, seen, allow = value.get("k", cls.k), value.get("exclude_seen", False), value.get("allow")
        if type(k) is not int or not 1 <= k <= MOST:
            raise DataError(f"{KEY}.k: is {k!r}; it is a whole number from 1 to {MOST}")
        if type(seen) is not bool:
            raise DataError(f"{KEY}.exclude_seen: is {seen!r}; it is true or false")
        return cls(
            k,
            frozenset(_names("exclude", value.get("exclude", []))),
            None if allow is None else tuple(dict.fromkeys(_names("allow", allow))),
            seen,
        )


def _names(key: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise DataError(f"{KEY}.{key}: is a list of items; got {type(value).__name__}")
    for name in value:
        if type(name) not in (str, int):
            raise DataError(f"{KEY}.{key}: an item is {name!r}; items are texts, or whole numbers")
    return [str(name) for name in value]
