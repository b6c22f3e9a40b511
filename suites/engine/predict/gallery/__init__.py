"""Galleries: the vectors of pictures or texts, and the files that these were read from."""

from suites.engine.predict.gallery.files import Changes
from suites.engine.predict.gallery.galleries import (
    Alike,
    Embedder,
    Pair,
    Updated,
    alike_pairs,
    build_gallery,
    changes_of,
    find_alike,
    open_gallery,
    stale_items,
    update_gallery,
)

__all__ = [
    "Alike",
    "Changes",
    "Embedder",
    "Pair",
    "Updated",
    "alike_pairs",
    "build_gallery",
    "changes_of",
    "find_alike",
    "open_gallery",
    "stale_items",
    "update_gallery",
]
