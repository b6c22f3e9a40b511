"""Words for error messages about names: the nearest known name and a list of what there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_PART = 3  # letters at least of a part of a name
_SAID = 3  # names with that part, at most


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, ignoring case, or None if nothing is close."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or the empty string, to follow a sentence that names the unknown.

    Where nothing is like it, names that it is a part of are said, those that it begins and short ones first.
    """
    there = list(known)
    close = nearest(name, there)
    part = name.lower()
    longer = [k for k in there if part in k.lower()] if len(name) >= _PART else []
    longer.sort(key=lambda k: (not k.lower().startswith(part), len(k)))
    said = " or ".join(f"'{k}'" for k in ([close] if close else longer[:_SAID]))
    return f"; did you mean {said}?" if said else ""


def listing(names: Iterable[str], none: str = "nothing") -> str:
    """Names joined by commas, in the order given; `none` if there are none."""
    return ", ".join(names) or none
