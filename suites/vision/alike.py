"""Batches of what has one shape, so that what is said of a picture does not depend on those beside it.

A picture that is padded to the largest of its batch has other surroundings with other neighbours: a network sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from suites.engine.contract.batch import Batch


def alike(keys: Iterable[Hashable]) -> list[list[int]]:
    """The places of equal keys together, in the order in which the keys come first."""
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


class AlikeBatches:
    """What a loader collates by in evaluation: batches of samples with one key each, see `parts`.

    Args:
        collate: makes a batch of such samples.
        key: of a sample, such as its size.
    """

    def __init__(self, collate: Callable[[list[Any]], Batch], key: Callable[[Any], Hashable]) -> None:
        self._collate, self._key = collate, key

    def __call__(self, samples: Sequence[Any]) -> Batch:
        """The batches as one that a loader carries."""
        groups = alike(map(self._key, samples))
        return {"parts": [self._collate([samples[k] for k in group]) for group in groups]}


def parts(batch: Batch) -> Sequence[Batch]:
    """The batches of one that `AlikeBatches` made."""
    found: Sequence[Batch] = batch["parts"]
    return found
