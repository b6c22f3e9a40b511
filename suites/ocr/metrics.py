"""Figures of reading: how well texts are found (hmean at IoU 0.5), and how well they are read.

Letters: M found, G true texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from suites.engine.contract.batch import Batch, Found
from suites.engine.contract.metric import Metric
from suites.engine.reporting import Case
from suites.ocr.alphabet import Alphabet
from suites.ocr.decoding import Language, read_lines
from suites.ocr.page import Page
from suites.ocr.sample import PageSample
from suites.ocr.texts import as_said

_IOU = 0.5
_COVERED = 0.5  # share of a found text inside of one that does not count, above which it does not count either


def shared_area(one: np.ndarray, two: np.ndarray) -> float:
    """The area that two outlines [P, 2] have in common, both taken as convex."""
    a, b = (cv2.convexHull(np.ascontiguousarray(polygon, np.float32)) for polygon in (one, two))
    return float(cv2.intersectConvexConvex(a, b)[0]) if len(a) > 2 and len(b) > 2 else 0.0


def area(polygon: np.ndarray) -> float:
    """The area of an outline [P, 2], taken as convex."""
    return float(cv2.contourArea(cv2.convexHull(np.ascontiguousarray(polygon, np.float32))))


def matched(
    found: Sequence[np.ndarray], true: Sequence[np.ndarray], ignored: np.ndarray
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Pairs (found, true) as ICDAR 2015 counts them, and bool [M], which of the found count at all.

    Each true text takes the first found one whose IoU with it is above 0.5. Found ones that lie by more than half in an
    ignored text do not count.

    Args:
        found: M outlines.
        true: G outlines.
        ignored: bool [G].
    """
    shared = np.array([[shared_area(a, b) for b in true] for a in found]).reshape(len(found), len(true))
    own, others = np.array([area(a) for a in found]), np.array([area(b) for b in true])
    covered = shared / np.maximum(own[:, None], 1e-9)
    counts = ~(covered[:, ignored] > _COVERED).any(axis=1) if len(true) else np.ones(len(found), bool)
    iou = shared / np.maximum(own[:, None] + others[None] - shared, 1e-9)
    pairs, taken = [], set()
    for g in np.flatnonzero(~ignored):
        for m in np.flatnonzero(counts):
            if m not in taken and iou[m, g] > _IOU:
                pairs.append((int(m), int(g)))
                taken.add(m)
                break
    return pairs, counts


class FoundTexts(Metric):
    """precision, recall and hmean of found texts at IoU 0.5; with what they say, `read_hmean` of those read right.

    Args:
        reads: whether the texts are read too.
    """

    def __init__(self, reads: bool) -> None:
        self._reads = reads
        self._images: list[tuple[int, int, int, int, int]] = []  # number, true, found, matched, read right

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in the last part of a picture's way through the networks."""
        self.update_joined([(outputs, batch)])

    def update_joined(self, found: Iterable[Found]) -> None:
        """Takes in all parts of the pictures of a batch."""
        pages: dict[int, tuple[Page, PageSample]] = {}
        for outputs, batch in found:
            page = batch["page"]
            page.take(outputs, batch)
            pages[id(page)] = page, batch["sample"]
        for page, sample in pages.values():
            texts = page.texts()
            self.add(sample, [text.quad for text in texts], [text.text for text in texts])

    def add(self, sample: PageSample, quads: Sequence[np.ndarray], texts: Sequence[str] = ()) -> None:
        """Takes in what was found in one picture."""
        pairs, counts = matched(quads, sample.polygons, sample.ignored)
        right = sum(as_said(texts[m]) == sample.texts[g] for m, g in pairs) if self._reads else 0
        true = int((~sample.ignored).sum())
        self._images.append((sample.number, true, int(counts.sum()), len(pairs), right))

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The pictures with the most texts missed or found where none are."""
        ranked = sorted(self._images, key=lambda row: (-(row[1] + row[2] - 2 * row[3]), row[0]))
        return {"Worst pictures": [Case(n, f"{m} of {g} found, {f - m} wrong") for n, g, f, m, _ in ranked[:count]]}

    def state(self) -> dict[str, Any]:
        """The counts of each picture."""
        return {"images": np.array(self._images, np.int64).reshape(-1, 5)}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the other's pictures."""
        self._images += [tuple(row) for row in state["images"].tolist()]

    def result(self) -> dict[str, float]:
        """Figures between 0 and 1; 0 where nothing is counted."""
        true, found, pairs, right = np.array(self._images, np.int64).reshape(-1, 5)[:, 1:].sum(axis=0).tolist()
        figures = {
            "hmean": _share(2 * pairs, true + found),
            "precision": _share(pairs, found),
            "recall": _share(pairs, true),
        }
        return figures | ({"read_hmean": _share(2 * right, true + found)} if self._reads else {})


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class ReadLines(Metric):
    """Of lines, the share that is read right, and 1 - the mean edit distance over the length of the longer text.

    Args:
        alphabet: of the recogniser.
        language: that lines are read with; None for none.
    """

    def __init__(self, alphabet: Alphabet, language: Language | None = None) -> None:
        self._alphabet, self._language = alphabet, language
        self._lines: list[tuple[int, str, str]] = []  # number, true text, what was read

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in the lines of a batch."""
        read = read_lines(outputs, self._alphabet, self._language)
        for number, text, found in zip(batch["numbers"], batch["texts"], read, strict=True):
            self._lines.append((int(number), str(text), as_said(found.text)))

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The lines that are read worst."""
        ranked = sorted(self._lines, key=lambda line: (-_normal_distance(line[1], line[2]), line[0]))
        wrong = [Case(n, f"{text!r} read as {found!r}") for n, text, found in ranked[:count] if text != found]
        return {"Worst lines": wrong}

    def state(self) -> dict[str, Any]:
        """The lines."""
        return {"lines": [list(line) for line in self._lines]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the other's lines."""
        self._lines += [(int(number), str(text), str(found)) for number, text, found in state["lines"]]

    def result(self) -> dict[str, float]:
        """accuracy: of whole lines; 1-NED: 1 - mean normalised edit distance."""
        count = max(len(self._lines), 1)
        right = sum(text == found for _, text, found in self._lines)
        distance = sum(_normal_distance(text, found) for _, text, found in self._lines)
        return {"accuracy": right / count, "1-NED": 1 - distance / count if self._lines else 0.0}


class ToldDirections(Metric):
    """Of lines that are shown upright and upside down, how many are told right; see `result`.

    Args:
        turn_score: probability of being upside down above which a line is turned.
    """

    def __init__(self, turn_score: float) -> None:
        self._turn_score = turn_score
        self._rows: list[tuple[int, int, float]] = []  # number of the line, 1 for upside down, its probability

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in both ways of the lines of a batch."""
        for number, down, found in zip(batch["numbers"], batch["down"], outputs["direction"][:, 1], strict=True):
            self._rows.append((int(number), int(down), float(found)))

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The lines that are most surely told wrong."""
        wrong = [(abs(down - found), number, down) for number, down, found in self._rows if (found > 0.5) != down]
        ranked = sorted(wrong, key=lambda row: (-row[0], row[1]))[:count]
        ways = ("upright", "upside down")
        return {"Worst lines": [Case(n, f"{ways[down]}, told {ways[1 - down]}: {s:.3f}") for s, n, down in ranked]}

    def state(self) -> dict[str, Any]:
        """The rows."""
        return {"rows": [list(row) for row in self._rows]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the other's rows."""
        self._rows += [(int(number), int(down), float(found)) for number, down, found in state["rows"]]

    def result(self) -> dict[str, float]:
        """accuracy: of both ways; kept: of upright lines, those not turned; turned: of the others, those that are."""
        told = [(down, found > 0.5) for _, down, found in self._rows]
        kept = [found <= self._turn_score for _, down, found in self._rows if not down]
        turned = [found > self._turn_score for _, down, found in self._rows if down]
        return {
            "accuracy": _share(sum(down == found for down, found in told), len(told)),
            "kept": _share(sum(kept), len(kept)),
            "turned": _share(sum(turned), len(turned)),
        }


def _normal_distance(text: str, found: str) -> float:
    return edit_distance(text, found) / max(len(text), len(found), 1)


def edit_distance(one: str, two: str) -> int:
    """The fewest characters to put in, take out or replace that make one text the other (Levenshtein 1966)."""
    if len(one) < len(two):
        one, two = two, one
    row = np.arange(len(two) + 1)
    letters = np.array([ord(c) for c in two])
    steps = np.arange(len(two) + 1)
    for number, character in enumerate(one, start=1):
        best = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(character)))
        row = np.concatenate([[number], best])
        row = np.minimum.accumulate(row - steps) + steps  # what is put in, one after the other
    return int(row[-1])
