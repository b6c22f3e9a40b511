"""A set without parts is divided by a rule that is said: every n-th sample is for evaluation, copies stay together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.files import FileTable, Source
from suites.engine.data.intake.naming import stem

END = 4096  # bytes of each end of a file that are compared first
EVERY = 5  # of a set without parts: each fifth sample is for evaluation
Part = Literal["train", "val"]
_VARIANT = re.compile(r"_(?:jpg|jpeg|png|webp|bmp)\.rf\.[0-9A-Za-z]{8,40}$")  # how Roboflow names augmented copies


def divided(
    names: Sequence[str], part: str | None, every: int, who: str, copies: Sequence[Hashable] | None = None
) -> list[str]:
    """Of names in order, those of a part: every `every`-th is for "val", the others for "train".

    Args:
        names: of the samples.
        part: "train" or "val".
        every: 2 or more.
        who: asks, for messages.
        copies: what is equal for copies of one sample; copies count as one, at the place of the first. None where no
            sample has copies.

    Raises:
        AttributeValueError: `every` is below 2, or the part another.
    """
    if part not in ("train", "val") or every < 2:
        raise AttributeValueError(
            f"{who}: holdout is {every} and split {part!r}; with holdout, at least 2, the split is train or val"
        )
    numbers: dict[Hashable, int] = {}
    keys: Sequence[Hashable] = names if copies is None else copies
    places = [numbers.setdefault(key, len(numbers)) for key in keys]
    return [name for name, at in zip(names, places, strict=True) if (at % every == every - 1) == (part == "val")]


def expect_samples(count: int, part: str, every: int, who: str) -> None:
    """Raise DataError where a part that was divided class by class has no samples."""
    if not count:
        raise DataError(
            f"{who}: no class has {every} different samples, so none is for the part '{part}'; add some, or make "
            "folders train and val"
        )


def copies_of(source: Source, files: Sequence[str]) -> list[Hashable]:
    """For each file what is equal for copies of it: equal bytes, or variants of one picture that Roboflow wrote.

    Only files of equal size are read, and of these only those as a whole that begin and end alike.
    """
    found: list[Hashable] = [_VARIANT.sub("", stem(name)) if ".rf." in name else name for name in files]
    table = source.table(files)
    sizes = table.sizes()
    alike = np.flatnonzero(_repeats(sizes))
    ends = table.end_digests(alike, END)
    close = Counter(ends)
    keys: dict[Hashable, Hashable] = {}
    for at, key in zip(alike.tolist(), ends, strict=True):
        if key is not None and close[key] > 1:
            found[at] = keys.setdefault(key if sizes[at] <= 2 * END else _digest(table, at), found[at])
    return found


def copies_of_groups(source: Source, groups: Sequence[Sequence[str]]) -> list[Hashable]:
    """As `copies_of`, for samples of several files each, such as the frames of a video."""
    table = source.table([name for group in groups for name in group])
    every = table.sizes().tolist()
    ranges = [range(end - len(group), end) for group, end in zip(groups, accumulate(map(len, groups)), strict=True)]
    sizes = [tuple(every[at] for at in places) for places in ranges]
    alike = Counter(sizes)
    return [
        tuple(_digest(table, at) for at in places) if alike[size] > 1 else tuple(group)
        for group, places, size in zip(groups, ranges, sizes, strict=True)
    ]


def _repeats(values: np.ndarray) -> np.ndarray:
    """Whether each of these numbers stands there more than once, bool [N]."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    repeats: np.ndarray = counts[places] > 1
    return repeats


def _digest(table: FileTable, at: int) -> Hashable:
    try:
        return table.digest(at)
    except DataError:
        return table.name(at)  # told when it is read
