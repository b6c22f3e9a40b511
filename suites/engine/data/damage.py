"""Samples that are known to be damaged since their set was opened, whatever wraps the set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def known_damage(dataset: Any) -> Mapping[int, str]:
    """Why samples cannot be read, by index: the `damaged` of a data set, of what it wraps, or of its parts."""
    own = getattr(dataset, "damaged", None)
    if isinstance(own, Mapping):
        return own
    if (parts := getattr(dataset, "parts", None)) is not None:
        found: dict[int, str] = {}
        before = 0
        for part in parts:
            found.update({before + at: why for at, why in known_damage(part).items()})
            before += len(part)
        return found
    wrapped = getattr(dataset, "dataset", None)
    return {} if wrapped is None or wrapped is dataset else known_damage(wrapped)
