"""What is wrong with pictures of texts, for `paddock data check`, and pictures of samples for `paddock data draw`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import cv2
import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Finding, Inspected, copies_within
from suites.engine.registry import register
from suites.ocr.datasets.base import TextDataset
from suites.ocr.datasets.pages import PageDataset
from suites.ocr.drawing import draw_texts
from suites.ocr.sample import ILLEGIBLE, LineSample, PageSample
from suites.vision.inspection import VisualInspector, left_out_findings

_SHOWN = 12  # characters in a message
_TALL = 1.5  # height over width of a line that is read from above to below
_DENSE = 0.25  # of its height: a line has more width for each character
_THIN = 3.0  # pixels of the shorter side below which a text is not learnt

Places = list[tuple[int, str]]


@register("inspector", "ocr")
class TextInspector(VisualInspector):
    """Looks at every picture and at what it says."""

    def look_at(self, dataset: TextDataset, decode: bool) -> Inspected:
        """What a set holds and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        digests: list[str] = []
        sizes: list[tuple[int, int]] = []
        damaged: Places = []
        for at, file in enumerate(repeat(None, len(dataset)) if decode else dataset.glances()):
            try:
                if isinstance(file, DataError):
                    raise file
                size, digest = _seen(dataset.image(at)) if file is None else (file.size, file.digest)
            except (DataError, OSError) as error:
                damaged.append((at, str(error)))
                size, digest = (0, 0), ""
            sizes.append(size)
            digests.append(digest)
        texts = [dataset.texts_of(at) for at in range(len(dataset))]
        is_page = isinstance(dataset, PageDataset)
        findings = [
            *left_out_findings(dataset),
            *_told("error", "pictures cannot be read", damaged, "replace them or take them out"),
            *(_pages(dataset, names, sizes) if isinstance(dataset, PageDataset) else _lines(names, texts, sizes)),
        ]
        # Pages may show the same words; a copy is one of the whole picture.
        copies = copies_within(names, digests, None if is_page else [" ".join(each) for each in texts])
        return Inspected(_summary(texts, is_page), findings + copies, digests, names)

    def between(self, sets: Mapping[str, Any]) -> list[Finding]:
        """Characters that are evaluated and never learnt."""
        if "train" not in sets:
            return []
        learnt = set(_characters(sets["train"]))
        found = []
        for name, dataset in sets.items():
            absent = {c: count for c, count in _characters(dataset).items() if c not in learnt}
            if absent:
                text = f"{name}: {len(absent)} characters are not in train, so they are not learnt there"
                found.append(Finding("warning", f"{text}: {_named(absent)}"))
        return found

    def picture(self, sample: PageSample | LineSample, class_names: Sequence[str]) -> np.ndarray:
        """The picture with its outlines and texts."""
        if isinstance(sample, PageSample):
            quads = [cv2.boxPoints(cv2.minAreaRect(polygon)) for polygon in sample.polygons]
            return draw_texts(sample.image, list(zip(quads, sample.texts, strict=True)))
        height, width = sample.size
        corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], np.float32)
        return draw_texts(sample.image, [(corners, sample.text)])


def _seen(image: np.ndarray) -> tuple[tuple[int, int], str]:
    digest = hashlib.sha256(f"{image.shape}".encode() + image.tobytes()).hexdigest()
    return (image.shape[0], image.shape[1]), digest


def _characters(dataset: TextDataset) -> Counter[str]:
    legible = (text for at in range(len(dataset)) for text in dataset.texts_of(at) if text != ILLEGIBLE)
    return Counter(c for text in legible for c in text)


def _named(counts: Mapping[str, int]) -> str:
    often = sorted(counts, key=lambda c: (-counts[c], c))
    return ", ".join(f"{c!r} {counts[c]} times" for c in often[:_SHOWN]) + (" ..." if len(often) > _SHOWN else "")


def _summary(texts: Sequence[Sequence[str]], is_page: bool) -> list[str]:
    legible = [text for each in texts for text in each if text != ILLEGIBLE]
    count = sum(map(len, texts))
    held = f"{len(texts)} pages with {count} texts, {len(legible)} of them legible" if is_page else f"{count} lines"
    lengths = sorted(map(len, legible)) or [0]
    characters = Counter(c for text in legible for c in text)
    return [
        held,
        f"{len(characters)} different characters; texts of {lengths[0]} to {lengths[-1]} characters, half of them "
        f"{lengths[len(lengths) // 2]} or fewer",
    ]


def _told(level: Any, what: str, places: Places, advice: str = "") -> Iterator[Finding]:
    """A finding, if there are places."""
    if places:
        samples = tuple(dict.fromkeys(at for at, _ in places))
        yield Finding(level, f"{len(places)} {what}", tuple(place for _, place in places), samples, advice)


def _lines(names: Sequence[str], texts: Sequence[Sequence[str]], sizes: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    tall, dense = [], []
    for at, ((text,), (height, width)) in enumerate(zip(texts, sizes, strict=True)):
        if len(text) > 1 and height >= _TALL * max(width, 1) > _TALL:
            tall.append((at, f"{names[at]}: {height} x {width}, {text[:40]!r}"))
        elif height and width < _DENSE * height * len(text):
            dense.append((at, f"{names[at]}: {width} pixels for {len(text)} characters"))
    yield from _told("warning", "lines are higher than wide", tall, "turn writing from above to below by a quarter")
    what = f"lines have less width for a character than {_DENSE:g} of their height"
    yield from _told("warning", what, dense, "look whether the text belongs to the picture")


def _pages(dataset: PageDataset, names: Sequence[str], sizes: Sequence[tuple[int, int]]) -> Iterator[Finding]:
    outside, thin, empty = [], [], []
    for at, size in enumerate(sizes):
        outlines = dataset.outlines_of(at)
        if not outlines:
            empty.append((at, names[at]))
        for polygon, text in zip(outlines, dataset.texts_of(at), strict=True):
            where = f"{names[at]}: {text[:40]!r}"
            if size != (0, 0) and ((polygon < -1).any() or (polygon > np.array(size[::-1]) + 1).any()):
                outside.append((at, where))
            elif min(cv2.minAreaRect(polygon)[1]) < _THIN and text != ILLEGIBLE:
                thin.append((at, where))
    yield from _told("warning", "texts lie partly outside of their picture", outside, "they are learnt as far as seen")
    yield from _told("note", f"texts are less than {_THIN:g} pixels high and not learnt", thin)
    yield from _told("note", "pages have no text", empty)
