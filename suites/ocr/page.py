"""One picture on its way through the three networks: where text is, which way up it is, what it says.

The networks are one Program with three inputs; those that a batch has nothing for have no rows. Letters: N pictures,
M lines, T columns of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.engine.contract.batch import Batch
from suites.ocr.alphabet import Alphabet
from suites.ocr.decoding import Beam, Language, Read, read_lines
from suites.ocr.finding import Finding, as_written, cut, reading_order
from suites.ocr.layout import page_quarter, stood_up
from suites.ocr.pixels import DIRECTION_SIZE, MOST_COLUMNS, line_width, lines_shown, shown

INPUTS = ("images", "lines", "turned")
_MULTIPLE = 32  # of the sides of pictures
_COLUMN = 8  # pixels that become one column


class Text(NamedTuple):
    """A text of a picture: its corners [4, 2] in the picture, what it says, how sure that is, and if it was turned.

    Where texts are only found it says nothing, and is as sure as the map.
    """

    quad: np.ndarray
    text: str
    score: float
    turned: bool


class Lines(NamedTuple):
    """How lines are read: the recogniser's alphabet, height and widest line, a direction classifier, a language."""

    alphabet: Alphabet
    height: int
    direction: bool
    widest: int = MOST_COLUMNS
    language: Language | None = None


@dataclass(frozen=True)
class Reading:
    """How pictures and lines are shown to the networks.

    Args:
        least_side: pictures whose shorter side has fewer pixels are enlarged to it.
        most_side: pictures whose longer side has more are made smaller first.
        flatness: a picture that is more times as wide as high (or as high as wide) gets a black border.
        together: lines that are read at a time.
        line_width: columns of pixels that a line is shown with at least, at the network's height.
        line_margin: columns of nothing behind each line at least. What a network that was trained with lines of several
            widths says of a line's end depends on it; choose it by the evaluation set.
        turn_score: probability of being upside down above which a line is turned, 0.5 to 1.
        min_score: texts of a lower score are left out.
        beam: a language that lines are read with; null for none.
    """

    least_side: int = 736
    most_side: int = 2000
    flatness: float = 8.0
    together: int = 6
    line_width: int = 320
    line_margin: int = 0
    turn_score: float = 0.9
    min_score: float = 0.5
    beam: Beam | None = None

    def __post_init__(self) -> None:
        if self.least_side < _MULTIPLE or self.most_side < _MULTIPLE:
            raise AttributeValueError(
                f"reading: least_side is {self.least_side} and most_side {self.most_side}; both take {_MULTIPLE} up"
            )
        if not 0 <= self.line_margin <= MOST_COLUMNS:
            raise AttributeValueError(f"reading: line_margin is {self.line_margin}; 0 to {MOST_COLUMNS} are possible")
        if not 0.5 <= self.turn_score <= 1 or not 0 <= self.min_score <= 1:
            raise AttributeValueError(
                f"reading: turn_score is {self.turn_score} and min_score {self.min_score}; possible are 0.5 to 1 and "
                "0 to 1"
            )
        if self.flatness < 1 or self.together < 1 or self.line_width < _COLUMN:
            raise AttributeValueError(
                f"reading: flatness is {self.flatness}, together {self.together}, line_width {self.line_width}; "
                f"needed are 1, 1 and {_COLUMN} or more"
            )


class Page:
    """A picture, uint8 RGB [H, W, 3], that is read step by step.

    Args:
        image: the picture.
        finding: how text is found.
        reading: how it is shown.
        lines: how lines are read; None where texts are only found.
    """

    def __init__(self, image: np.ndarray, finding: Finding, reading: Reading, lines: Lines | None) -> None:
        self._size = image.shape[:2]
        self._finding, self._reading, self._how = finding, reading, lines
        self._image, self._scale = _bounded(image, reading.most_side)
        self._image, self._border = _bordered(self._image, reading.flatness)
        self._quads = np.zeros((0, 4, 2), np.float32)
        self._lines: list[np.ndarray] = []
        self._turned: list[bool] = []
        self._read: list[Read] = []

    def batches(self) -> Iterator[Batch]:
        """What the networks are shown, step by step; each step needs that `take` was given what the last one gave."""
        yield self._batch("found", images=self._detected()[None])
        if self._how is None:
            return
        widths = np.array([line.shape[1] / line.shape[0] for line in self._lines])
        alike = np.argsort(widths, kind="stable")
        size, height = self._reading.together, self._how.height
        chunks = [alike[at : at + size] for at in range(0, len(alike), size)]
        for chunk in chunks if self._how.direction else ():
            yield self._batch(
                "turned", rows=chunk, turned=lines_shown([self._lines[k] for k in chunk], *DIRECTION_SIZE)
            )
        for chunk in chunks:
            lines = [self._lines[k] for k in chunk]
            widest = max(int(height * line.shape[1] / line.shape[0]) for line in lines)
            width = max(self._reading.line_width, widest + self._reading.line_margin)
            yield self._batch("read", rows=chunk, lines=lines_shown(lines, height, min(width, self._how.widest)))

    def take(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in what the networks gave for the last of `batches`."""
        if batch["step"] == "found":
            found = self._finding.quads(outputs["text"][0], self._image.shape[:2])
            order = reading_order(found.quads)
            self._quads = found.quads[order]
            self._lines = [cut(self._image, quad) for quad in self._quads]
            self._turned = [False] * len(self._lines)
            self._read = [Read("", float(score)) for score in found.scores[order]]
        elif batch["step"] == "turned":
            for k, (_, down) in zip(batch["rows"], outputs["direction"], strict=True):
                if down > self._reading.turn_score:
                    self._turned[k] = True
                    self._lines[k] = cv2.rotate(self._lines[k], cv2.ROTATE_180)
        elif self._how is not None:
            read = read_lines(outputs, self._how.alphabet, self._how.language)
            for k, line in zip(batch["rows"], read, strict=True):
                self._read[k] = line

    def texts(self) -> list[Text]:
        """The texts whose score suffices, in reading order, in pixels of the picture; all where they are only found."""
        quads = (self._quads - self._border[::-1]) * (1 / self._scale[1], 1 / self._scale[0])
        quads = quads.clip(0, (self._size[1], self._size[0])).astype(np.float32)
        rows = zip(quads, self._read, self._turned, strict=True)
        if self._how is None:
            return [Text(quad, *read, turned) for quad, read, turned in rows]
        found = [Text(as_written(quad, turned), *read, turned) for quad, read, turned in rows]
        found = [text for text in found if text.score >= self._reading.min_score and text.text]
        written = np.array([text.quad for text in found], np.float32).reshape(-1, 4, 2)
        if not page_quarter(written):  # they are in order
            return found
        return [found[k] for k in reading_order(stood_up(written) * min(self._scale))]

    def _detected(self) -> np.ndarray:
        """The picture as the detector is shown it, [H, W, 3]."""
        height, width = self._image.shape[:2]
        factor = max(1.0, self._reading.least_side / min(height, width))
        size = [max(_MULTIPLE, round(int(side * factor) / _MULTIPLE) * _MULTIPLE) for side in (width, height)]
        return shown(cv2.resize(self._image, size))

    def _batch(self, step: str, **given: Any) -> Batch:
        return {**nothing(0 if self._how is None else self._how.height), **given, "step": step, "page": self}


def nothing(height: int) -> dict[str, np.ndarray]:
    """The inputs of the networks without a row."""
    return {
        "images": np.zeros((0, _MULTIPLE, _MULTIPLE, 3), np.float32),
        "lines": np.zeros((0, height, _MULTIPLE, 3), np.float32),
        "turned": np.zeros((0, *DIRECTION_SIZE, 3), np.float32),
    }


def example(image: np.ndarray, height: int) -> dict[str, np.ndarray]:
    """The inputs of the networks with a row each, of an image uint8 RGB [H, W, 3]; no lines where `height` is 0."""
    size = [max(_MULTIPLE, side // _MULTIPLE * _MULTIPLE) for side in image.shape[1::-1]]
    found = {**nothing(height), "images": shown(cv2.resize(image, size))[None]}
    if height:
        width = max(line_width(image, height), _MULTIPLE)
        found["lines"] = lines_shown([image], height, min(width, 10 * height))
        found["turned"] = lines_shown([image], *DIRECTION_SIZE)
    return found


def _bounded(image: np.ndarray, most: int) -> tuple[np.ndarray, tuple[float, float]]:
    """The picture with sides of at most about `most` pixels and at least some, and the factors of height and width."""
    height, width = image.shape[:2]
    factor = 1.0
    for limit, side, beyond in ((most, max(height, width), 1), (_SMALLEST, min(height, width), -1)):
        if side * beyond > limit * beyond:
            factor = limit / side
            break
    if factor == 1.0:
        return image, (1.0, 1.0)
    size = [max(_MULTIPLE, round(int(side * factor) / _MULTIPLE) * _MULTIPLE) for side in (width, height)]
    return cv2.resize(image, size), (size[1] / height, size[0] / width)


_SMALLEST = 30  # pixels of the shorter side


def _bordered(image: np.ndarray, flatness: float) -> tuple[np.ndarray, np.ndarray]:
    """A flat picture with a black border above and below, or at its sides, and (height, width) of the border."""
    height, width = image.shape[:2]
    if height <= _SMALLEST or width / height > flatness:
        border = abs(max(int(width / flatness), _SMALLEST) * 2 - height) // 2
        return cv2.copyMakeBorder(image, border, border, 0, 0, cv2.BORDER_CONSTANT), np.array([border, 0])
    if height / width > flatness:
        border = abs(max(int(height / flatness), _SMALLEST) * 2 - width) // 2
        return cv2.copyMakeBorder(image, 0, 0, border, border, cv2.BORDER_CONSTANT), np.array([0, border])
    return image, np.array([0, 0])
