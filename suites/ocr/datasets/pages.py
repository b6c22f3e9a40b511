"""Pictures with the outlines of their texts: ICDAR's files beside them, and PaddleOCR's list.

ICDAR 2015 (challenge 4), 2013 and 2017 (MLT) have a text file a picture, a line a text: corners, then the word, which
may hold commas. So have Total-Text and CTW1500, with outlines of more points. PaddleOCR has a line a picture: its path,
a tab, and a JSON list of texts with their points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.texts import json_in, numbered_lines
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.ocr.datasets.base import TextDataset
from suites.ocr.sample import ILLEGIBLE, PageSample, checked_polygon
from suites.ocr.texts import as_said
from suites.vision.files import flag, listed_file, pictures_below, read_list
from suites.vision.pictures.glances import Glance
from suites.vision.pictures.stated import Fitter, Size

Written = tuple[np.ndarray, str]  # an outline float32 [P, 2], and what it says
_IGNORED = (ILLEGIBLE, "*")
_SCRIPTS = ("Arabic", "Bangla", "Chinese", "Hindi", "Japanese", "Korean", "Latin", "Mixed", "None", "Symbols")
_CURVED = 12  # numbers before a word from which on most lines of a set are outlines of more than four corners
_MARK = "####"  # before the words of CTW1500
_CORNERS = re.compile(r"\s*(?:-?\d+(?:\.\d+)?\s*,\s*){7}-?\d+(?:\.\d+)?\s*(?:,|$)")


class PageDataset(TextDataset):
    """Pictures with outlines."""

    def __init__(
        self,
        what: str,
        source: Source,
        names: Sequence[str],
        written: Sequence[Sequence[Written]],
        skipped: Tally,
        sizes: Sequence[Size] = (),
    ) -> None:
        """Args: words for messages, where the pictures lie, their names, their texts, what was left out, and (H, W) of
        each picture where the annotations state it."""
        super().__init__(what, source, names, skipped)
        self._sizes, self._fitter = list(sizes) or [(0, 0)] * len(names), Fitter()
        self._written = [tuple((polygon, as_said(text)) for polygon, text in texts) for texts in written]

    def __getitem__(self, index: int) -> PageSample:
        """Picture `index` with its texts."""
        texts = self._written[index]
        return PageSample(
            image=self.image(index),
            polygons=tuple(polygon for polygon, _ in texts),
            texts=tuple(text for _, text in texts),
            ignored=np.array([text in _IGNORED for _, text in texts], bool),
            number=index,
        )

    def image(self, index: int) -> np.ndarray:
        """Picture `index`, uint8 RGB [H, W, 3], of the size that its annotation states."""
        return self._fitter.as_stated(super().image(index), self._sizes[index], self.name_of(index))

    def glances(self) -> Iterator[Glance | DataError]:
        """What the files say without decoding, in the sizes that their annotations state."""
        for index, found in enumerate(super().glances()):
            try:
                if isinstance(found, DataError):
                    raise found
                self._fitter.scale(self._sizes[index], found.size, self.name_of(index))
                yield replace(found, size=self._sizes[index]) if all(self._sizes[index]) else found
            except DataError as error:
                yield error

    def outlines_of(self, index: int) -> list[np.ndarray]:
        """The outlines of picture `index`, float32 [P, 2] each."""
        return [polygon for polygon, _ in self._written[index]]

    def texts_of(self, index: int) -> list[str]:
        """What picture `index` says, illegible texts as `###`."""
        return [text for _, text in self._written[index]]


@register("dataset")
class IcdarText(PageDataset):
    """ICDAR's form: folders SPLIT_images and SPLIT_gts, where `gt_NAME.txt` or `NAME.txt` has the texts of NAME.jpg.

    A line is `x1,y1,x2,y2,x3,y3,x4,y4,word`, or `left,top,right,bottom,word` as in 2013; `###` is an illegible word.
    Where most lines of a set have six points or more, as in Total-Text and CTW1500, all numbers before the word are the
    outline. Where most words begin with a script and a comma, as in MLT (`Latin,word`), the script is left out.

    Args:
        root: folder or zip.
        split: "train" or "test".
        images: the folder of pictures; null for SPLIT_images.
        texts: the folder of text files; null for SPLIT_gts.
        max_skipped: share of the lines that may be wrong; they are left out and logged. 0: the first one is an error.
    """

    def __init__(
        self,
        root: str,
        split: Literal["train", "test"] = "train",
        images: str | None = None,
        texts: str | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        images, texts = images or f"{split}_images", texts or f"{split}_gts"
        names = [f"{images}/{name}" for name in pictures_below(source, images)]
        files = {name: _text_file(source, texts, name) for name in names}
        lacking = [name for name, file in files.items() if file is None]
        if lacking:
            raise DataError(
                f"IcdarText {root}: {lacking[0]} has no text file gt_NAME.txt or NAME.txt in {texts}"
                + (f", and so {len(lacking) - 1} others" if len(lacking) > 1 else "")
            )
        skipped = Tally()
        lines = [
            (name, f"{source.root}/{file}:{number}", line)
            for name, file in files.items()
            if file is not None
            for number, line in numbered_lines(source.read(file, "text_bytes"), f"{source.root}/{file}")
            if line.strip()
        ]
        curved = 2 * sum(_leading(line) >= _CURVED for _, _, line in lines) > len(lines)
        read = _of_curved_line if curved else _of_line
        found = usable(f"IcdarText {root}", lines, read, max_skipped, skipped, "lines")
        scripts = 2 * sum(text.startswith(_SCRIPTED) for _, (_, text) in found) > len(found)
        written: dict[str, list[Written]] = {name: [] for name in names}
        for (name, _, _), (outline, text) in found:
            word = text.partition(",")[2] if scripts and text.startswith(_SCRIPTED) else text
            written[name].append((outline, word))
        super().__init__(f"IcdarText {root} {split}", source, names, list(written.values()), skipped)


_SCRIPTED = tuple(f"{script}," for script in _SCRIPTS)


def _text_file(source: Source, folder: str, picture: str) -> str | None:
    stem = PurePosixPath(picture).stem
    places = (f"{folder}/gt_{stem}.txt", f"{folder}/{stem}.txt")
    return next((place for place in places if source.exists(place)), None)


def _unquoted(word: str) -> str:
    """A word without the quotes around it that 2013's files have; one at an end is its own, as in `12"`."""
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _leading(line: str) -> int:
    """How many numbers a line begins with, apart by commas."""
    return len([*takewhile(lambda cell: _number(cell) is not None, line.removeprefix("\ufeff").split(","))])


def _of_curved_line(row: tuple[str, str, str]) -> Written:
    """The outline and the word of a line `x1,y1,...,xn,yn,word`."""
    _, where, line = row
    cells, count = line.removeprefix("\ufeff").split(","), _leading(line) // 2 * 2
    try:
        points = np.array([float(cell) for cell in cells[:count]]).reshape(-1, 2)
        return checked_polygon(points), _unquoted(",".join(cells[count:]).strip().removeprefix(_MARK))
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _of_line(row: tuple[str, str, str]) -> Written:
    """The outline and the word of a line."""
    _, where, line = row
    try:
        line = line.removeprefix("\ufeff")
        corners = _CORNERS.match(line)
        if corners:
            points = np.array([float(cell) for cell in line.split(",")[:8]]).reshape(4, 2)
            return checked_polygon(points), _unquoted(line[corners.end() :].strip())
        cells = line.split(",", 4) if line.count(",") > 2 else line.split(None, 4)
        numbers = [_number(cell) for cell in cells[:4]]
        if len(numbers) < 4 or None in numbers:
            raise DataError(f"expects x1,y1,x2,y2,x3,y3,x4,y4,word, found {line[:60]!r}")
        left, top, right, bottom = (number for number in numbers if number is not None)
        word = cells[4].strip() if len(cells) > 4 else ""
        more = [_number(cell) for cell in word.split(",")[:2]]
        if len(more) == 2 and None not in more:
            raise DataError(f"has 3 points; the outline of a text has 4 or more: {line[:60]!r}")
        return checked_polygon(np.array([[left, top], [right, top], [right, bottom], [left, bottom]])), _unquoted(word)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


@register("dataset")
class PaddleText(PageDataset):
    """PaddleOCR's form: a list whose lines are a picture's path, a tab and `[{"transcription": ..., "points": ...}]`.

    A text with `"difficult": true`, as PPOCRLabel writes it, is one that nobody can read.

    Args:
        root: folder or zip of the pictures.
        annotations: the list, relative to the root.
        max_skipped: share of the lines that may be wrong or name a picture that is not there; they are left out and
            logged. 0: the first one is an error.
    """

    def __init__(self, root: str, annotations: str, max_skipped: float = MAX_SKIPPED) -> None:
        source, skipped = open_source(root), Tally()

        def read(line: str) -> tuple[str, list[Written]]:
            path, tab, told = line.partition("\t")
            if not tab:
                raise DataError(f"expects a path, a tab and a list of texts, found {line[:60]!r}")
            return listed_file(source, path), [_of_object(each) for each in _list_in(told)]

        rows = read_list(source, annotations, read, max_skipped, skipped)
        names, written = [name for name, _ in rows], [texts for _, texts in rows]
        super().__init__(f"PaddleText {root} {annotations}", source, names, written, skipped)


def _list_in(text: str) -> list[Any]:
    found = json_in(text.encode(), "the list of texts")
    if not isinstance(found, list):
        raise DataError(f"expects a list of texts, found {text[:60]!r}")
    return found


def _of_object(found: Any) -> Written:
    if not isinstance(found, Mapping) or not isinstance(found.get("points"), list):
        raise DataError(f"a text has transcription and points, found {str(found)[:60]!r}")
    try:
        points = np.array(found["points"], np.float64)
    except (ValueError, TypeError):
        raise DataError(f"points are pairs of numbers, found {str(found['points'])[:60]!r}") from None
    said = found.get("transcription", "")
    if not isinstance(said, str):
        raise DataError(f'transcription is {str(said)[:40]!r}; it must be text, "###" where it cannot be read')
    difficult = flag(found.get("difficult") or 0, "difficult")
    return checked_polygon(points), ILLEGIBLE if difficult else said
