"""PairList: pictures, and pairs of them that show the same or not, in folds: LFW's protocol of verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.vision.files import listed_file, read_lines
from suites.vision.recognition.files import ImageFiles

_LFW = 4  # digits of a picture's number in LFW's names


@dataclass(frozen=True)
class Pairs:
    """Pairs of pictures of a set.

    Attributes:
        first, second: int64 [P], numbers of the pictures.
        same: bool [P], whether both show the same.
        fold: int64 [P], from 0.
    """

    first: np.ndarray
    second: np.ndarray
    same: np.ndarray
    fold: np.ndarray


@register("dataset")
class PairList(ImageFiles):
    """The pictures that a list of pairs names, each once.

    The list is LFW's `pairs.txt`: a line `FOLDS N`, then for each fold N lines `NAME i j` of pairs of one person and N
    lines `NAME i OTHER j` of two; pictures are `NAME/NAME_0001.jpg`. Or it has a line `PATH PATH 1` (the same) or
    `PATH PATH 0` a pair, dealt out to `folds` in turns, same and different ones each by themselves.

    Args:
        root: folder or zip of the pictures.
        pairs: the list, relative to the root.
        folds: of a list that has none, 2 or more.

    Attributes:
        pairs: see `Pairs`.
    """

    def __init__(self, root: str, pairs: str = "pairs.txt", folds: int = 10) -> None:
        if folds < 2:
            raise AttributeValueError(f"PairList: folds is {folds}; it must be 2 or more")
        source = open_source(root)
        where = f"PairList {root} {pairs}"
        lines = [line.replace("\t", " ").split() for line in read_lines(source, pairs)]
        rows = _lfw(lines, where) if lines and _is_head(lines[0]) else _plain(lines, where, folds)
        names: dict[str, int] = {}
        for row in rows:
            for name in (row[0], row[1]):
                names.setdefault(name, len(names))
        first = np.array([names[row[0]] for row in rows], np.int64)
        second = np.array([names[row[1]] for row in rows], np.int64)
        same, fold = np.array([row[2] for row in rows], np.bool_), np.array([row[3] for row in rows], np.int64)
        kinds = {(int(f), bool(s)) for f, s in zip(fold, same, strict=True)}
        if len(kinds) < 2 * len(np.unique(fold)) or len(np.unique(fold)) < 2:
            raise DataError(f"{where}: each of two folds or more needs pairs of the same and pairs of two")
        self.pairs = Pairs(first, second, same, fold)
        files = [listed_file(source, name) for name in names]
        super().__init__(where, source, files, np.zeros(len(files), np.int64), ["picture"])


Row = tuple[str, str, bool, int]  # two pictures, whether they show the same, the fold


def _is_head(cells: Sequence[str]) -> bool:
    return len(cells) in (1, 2) and all(cell.isdigit() for cell in cells)


def _lfw(lines: Sequence[Sequence[str]], where: str) -> list[Row]:
    folds, count = (int(lines[0][0]), int(lines[0][1])) if len(lines[0]) == 2 else (1, int(lines[0][0]))
    if len(lines) - 1 != 2 * folds * count or not folds or not count:
        raise DataError(f"{where}: has {len(lines) - 1} pairs; its first line says {folds} folds of 2 x {count}")
    found = []
    for at, cells in enumerate(lines[1:]):
        alike = at // count % 2 == 0
        if len(cells) != (3 if alike else 4) or not all(cell.isdigit() for cell in (cells[1], cells[-1])):
            wanted = "NAME i j" if alike else "NAME i OTHER j"
            raise DataError(f"{where}, pair {at + 1}: expects '{wanted}', found {' '.join(cells)!r}")
        other = cells[0] if alike else cells[2]
        found.append((_picture(cells[0], cells[1]), _picture(other, cells[-1]), alike, at // (2 * count)))
    return found


def _picture(name: str, number: str) -> str:
    return f"{name}/{name}_{int(number):0{_LFW}d}.jpg"


def _plain(lines: Sequence[Sequence[str]], where: str, folds: int) -> list[Row]:
    found, counts = [], [0, 0]
    for at, cells in enumerate(lines):
        if len(cells) != 3 or cells[2] not in ("0", "1"):
            raise DataError(
                f"{where}, line {at + 1}: expects 'PATH PATH 1' or 'PATH PATH 0', found {' '.join(cells)!r}"
            )
        alike = cells[2] == "1"
        found.append((cells[0], cells[1], alike, counts[alike] % folds))
        counts[alike] += 1
    if min(counts) < folds:
        raise DataError(
            f"{where}: has {counts[1]} pairs of the same and {counts[0]} of two; {folds} folds need one each"
        )
    return found
