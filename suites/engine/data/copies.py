"""Copies of files in two sets, such as training and evaluation: found by size, then by content, within a budget."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from framework.errors import DataError
from framework.outside import open_file

_MOST_FILES = 20_000  # of a set
_MOST_BYTES = 256 << 20  # read of both sets together
_HEAD = 4096  # bytes that are compared first


def copies_text(count: int, held: str, train: str) -> str:
    """What `paddock data check` and a run's report say of samples of `held` that are copies of samples of `train`."""
    return f"{count} samples of {held} are copies of samples of {train}"


def copied_files(train: Any, held: Any) -> int:
    """How many files of one data set are copies, byte for byte, of files of another; 0 for sets that are no files.

    0 also for `held` that says `is_compared_whole`: it may be what was learnt from.
    Of more than 20,000 files the first are compared, and no more than 256 MiB are read.
    """
    if getattr(getattr(held, "dataset", held), "is_compared_whole", False):  # a set, or one behind its transforms
        return 0
    ours, theirs = _by_size(train), _by_size(held)
    both = {size for size in ours.keys() & theirs.keys() if size > 0}
    budget = _Budget()
    known = {key for size in both for key in _heads(ours[size], budget)}
    likely = [(size, path) for size in both for path in theirs[size] if _head(path, budget) in known]
    sizes = {size for size, _ in likely}
    whole = {_whole(path, budget) for size in sizes for path in ours[size]} - {None}
    return sum(_whole(path, budget) in whole for _, path in likely)


class _Budget:
    """Bytes that may still be read."""

    def __init__(self) -> None:
        self.left = _MOST_BYTES


def _by_size(dataset: Any) -> Mapping[int, list[str]]:
    """The files of a set's samples by their size; each file once."""
    name_of = getattr(dataset, "name_of", None)
    try:
        names = [str(name_of(at)) for at in range(min(len(dataset), _MOST_FILES))] if name_of is not None else []
    except (TypeError, NotImplementedError):
        return {}
    found: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        try:
            found.setdefault(os.stat(name).st_size, []).append(name)
        except (OSError, ValueError):  # inside of an archive, or made
            continue
    return found


def _heads(paths: list[str], budget: _Budget) -> Iterator[bytes]:
    yield from filter(None, (_head(path, budget) for path in paths))


def _head(path: str, budget: _Budget) -> bytes | None:
    """The digest of a file's beginning; None beyond the budget."""
    return _digest(path, budget, _HEAD)


def _whole(path: str, budget: _Budget) -> bytes | None:
    return _digest(path, budget, None)


def _digest(path: str, budget: _Budget, most: int | None) -> bytes | None:
    if budget.left <= 0:
        return None
    try:
        with open_file(path, None, DataError) as file:
            data = file.read(budget.left if most is None else most)
    except (OSError, DataError):
        return None
    budget.left -= len(data)
    return hashlib.sha256(data).digest() if budget.left > 0 else None
