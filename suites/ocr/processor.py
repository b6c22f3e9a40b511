"""What stands around networks of text when they predict: pictures to texts with their places.

Letters: N pictures, M lines, T columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from framework.errors import CheckpointError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import POSITIONS, Batch, Found, in_place
from suites.ocr.alphabet import Alphabet
from suites.ocr.decoding import Language, Read, read_lines
from suites.ocr.documents import Line, hocr, searchable_pdf
from suites.ocr.documents import plain as written
from suites.ocr.drawing import draw_texts
from suites.ocr.finding import Finding
from suites.ocr.layout import paragraphs
from suites.ocr.page import Lines, Page, Reading, Text, example
from suites.ocr.pixels import DIRECTION_SIZE, LineFrame, lines_shown
from suites.vision.alike import alike
from suites.vision.processor import ImageItems

_SUITE = "ocr"


def _with_language(given: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata whose alphabet and language are made."""
    alphabet = Alphabet(given["alphabet"])
    language = given.get("language")
    return {**given, "alphabet": alphabet, "language": language and Language.made(language, alphabet)}


class OcrProcessor(ImageItems):
    """Base of the processors of the suite; `from_metadata` makes the one that metadata are of.

    Attributes:
        kind: what metadata call it.
    """

    kind: ClassVar[str]

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> OcrProcessor:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        given = dict(metadata)
        kinds = {each.kind: each for each in (PageProcessor, LineProcessor, DirectionProcessor)}
        try:
            return kinds[given.pop("kind")].made(given)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"OcrProcessor: the metadata of the model do not fit: {error}") from error

    def read_of_files(self) -> tuple[Alphabet, Language | None] | None:
        """What lines are read with, which a config may name files of; None where none are read."""
        raise NotImplementedError(f"{type(self).__name__} defines no read_of_files()")

    @classmethod
    def made(cls, given: dict[str, Any]) -> OcrProcessor:
        """The processor of this kind."""
        raise NotImplementedError(f"{cls.__name__} defines no made()")


class PageProcessor(OcrProcessor):
    """Pictures to all that is written in them; an item is an image, uint8 RGB [H, W, 3].

    Args:
        finding: how text is found.
        reading: how it is shown to the networks.
        lines: how lines are read; None where texts are only found.
    """

    kind: ClassVar[str] = "page"

    def __init__(self, finding: Finding, reading: Reading, lines: Lines | None) -> None:
        self._finding, self._reading, self._lines = finding, reading, lines

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor; the least score by itself, as the engine asks for it."""
        reading: dict[str, Any] = plain(self._reading, suite=_SUITE)
        finding: dict[str, Any] = plain(self._finding, suite=_SUITE)
        found: dict[str, Any] = {"kind": self.kind, "finding": finding, "reading": reading}
        if self._lines is None:
            return {**found, "min_score": finding.pop("box_threshold")}
        alphabet, height, direction, widest, language = self._lines
        shape: dict[str, Any] = {"height": height, "direction": direction, "widest": widest}
        reading.pop("beam", None)
        if language is not None:
            shape["language"] = language.metadata()
        lines = {"alphabet": list(alphabet.characters), **shape}
        return {**found, "min_score": reading.pop("min_score"), "lines": lines}

    @classmethod
    def made(cls, given: dict[str, Any]) -> PageProcessor:
        """The processor of what `metadata` gave."""
        finding, reading, least = dict(given["finding"]), dict(given["reading"]), given["min_score"]
        lines = given.get("lines")
        (finding if lines is None else reading)["box_threshold" if lines is None else "min_score"] = least
        return cls(
            build_value(finding, Finding, suite=_SUITE),
            build_value(reading, Reading, suite=_SUITE),
            None if lines is None else Lines(**_with_language(lines)),
        )

    def read_of_files(self) -> tuple[Alphabet, Language | None] | None:
        """See `OcrProcessor`."""
        return None if self._lines is None else (self._lines.alphabet, self._lines.language)

    def page(self, image: np.ndarray) -> Page:
        """An image on its way through the networks."""
        return Page(image, self._finding, self._reading, self._lines)

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """A row for each network, of the first item: what a Program is traced with."""
        return example(items[0], 0 if self._lines is None else self._lines.height)

    def batches(self, items: Sequence[np.ndarray]) -> Iterable[Batch]:
        """Each picture's way through the networks; what they find decides what they are shown next."""
        for item in items:
            yield from self.page(item).batches()

    def joined(self, found: Iterable[Found]) -> list[list[Text]]:
        """The texts of each item, in reading order."""
        pages: dict[int, Page] = {}
        for outputs, batch in found:
            self.follow(outputs, batch)
            pages[id(batch["page"])] = batch["page"]
        return [page.texts() for page in pages.values()]

    def follow(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in what the networks gave for a picture's last batch, which decides the next."""
        batch["page"].take(outputs, batch)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[Text]]:
        """The texts of a picture whose last batch this is."""
        return self.joined([(outputs, batch)])

    def summary(self, result: list[Text]) -> list[dict[str, Any]]:
        """Each text with its paragraph, its score and its corners from the upper left on, as the writing stands."""
        blocks = paragraphs(np.array([text.quad for text in result], np.float32).reshape(-1, 4, 2))
        numbers = {k: number for number, block in enumerate(blocks) for row in block for k in row}
        return [
            {
                **({"text": text.text, "paragraph": numbers[k]} if self._lines else {}),
                "score": round(text.score, 5),
                "box": [[round(float(x), 1), round(float(y), 1)] for x, y in text.quad],
                **({"turned": True} if text.turned else {}),
            }
            for k, text in enumerate(result)
        ]

    @property
    def formats(self) -> tuple[str, ...]:
        """hOCR and searchable PDF, where texts are read."""
        return () if self._lines is None else ("hocr", "pdf")

    def document(self, item: np.ndarray, result: list[Text], kind: str) -> bytes:
        """The picture's texts as hOCR, or the picture as a PDF with them under it."""
        lines = [Line(text.quad, text.text, text.score) for text in result]
        if kind == "pdf":
            return searchable_pdf(lines, item)
        return hocr(lines, (item.shape[0], item.shape[1])).encode()

    def files(self, result: list[Text]) -> dict[str, bytes]:
        """The texts as `.txt`, where they are read: a line each, an empty line between paragraphs."""
        if self._lines is None:
            return {}
        return {".txt": written([Line(text.quad, text.text, text.score) for text in result]).encode()}

    def lines(self, result: list[Text]) -> list[str]:
        """The texts in reading order; where they are only found, their corners."""
        if self._lines is None:
            return [" ".join(f"{x:.0f},{y:.0f}" for x, y in text.quad) for text in result]
        return [text.text for text in result]

    def draw(self, item: np.ndarray, result: list[Text]) -> np.ndarray:
        """The image with each text's outline, its number, and what it says."""
        return draw_texts(item, [(text.quad, text.text) for text in result])


class LineProcessor(OcrProcessor):
    """Pictures of single lines to what they say; an item is an image, uint8 RGB [H, W, 3].

    Args:
        alphabet: of the recogniser.
        frame: how it is shown lines.
        language: that lines are read with; None for none.
    """

    kind: ClassVar[str] = "line"
    batch_size: ClassVar[int] = 32

    def __init__(self, alphabet: Alphabet, frame: LineFrame, language: Language | None = None) -> None:
        self._alphabet, self._frame, self._language = alphabet, frame, language

    def metadata(self) -> dict[str, Any]:
        """The alphabet's characters, the frame's fields and the language."""
        frame = self._frame
        shape = {"height": frame.height, "line_width": frame.least, "widest": frame.most, "line_margin": frame.margin}
        language = {} if self._language is None else {"language": self._language.metadata()}
        return {"kind": self.kind, "alphabet": list(self._alphabet.characters), **shape, **language}

    @classmethod
    def made(cls, given: dict[str, Any]) -> LineProcessor:
        """The processor of what `metadata` gave; older files have no `line_margin`."""
        found = _with_language(given)
        frame = LineFrame(
            found.pop("height"), found.pop("line_width"), found.pop("widest"), found.pop("line_margin", 0)
        )
        return cls(frame=frame, **found)

    def read_of_files(self) -> tuple[Alphabet, Language | None] | None:
        """See `OcrProcessor`."""
        return self._alphabet, self._language

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """Lines as one batch, as wide as the widest."""
        return {"lines": self._frame.batch(items)}

    def batches(self, items: Sequence[np.ndarray]) -> Iterable[Batch]:
        """A batch of the lines of each width, so that what is read of a line does not depend on the others."""
        widths = [self._frame.own_width(line) for line in items]
        for group in alike(widths):
            yield {"lines": self._frame.batch([items[k] for k in group], widths[group[0]]), POSITIONS: group}

    def joined(self, found: Iterable[Found]) -> list[Read]:
        """What each line says."""
        return in_place((self.results(outputs, batch), batch) for outputs, batch in found)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Read]:
        """What each line says."""
        return read_lines(outputs, self._alphabet, self._language)

    def summary(self, result: Read) -> dict[str, Any]:
        """The text and its score."""
        return {"text": result.text, "score": round(result.score, 5)}

    def files(self, result: Read) -> dict[str, bytes]:
        """The text as `.txt`."""
        return {".txt": f"{result.text}\n".encode()}

    def lines(self, result: Read) -> list[str]:
        """The text."""
        return [result.text]

    def draw(self, item: np.ndarray, result: Read) -> np.ndarray:
        """The line with what it says, as far as the font has it."""
        return _draw_whole(item, result.text)


class Direction(NamedTuple):
    """Whether a line is upside down, and the probability of that."""

    turned: bool
    score: float

    def __str__(self) -> str:
        return "upside down" if self.turned else "upright"


class DirectionProcessor(OcrProcessor):
    """Pictures of single lines to which way up they are; an item is an image, uint8 RGB [H, W, 3].

    Args:
        turn_score: probability of being upside down above which a line counts as that.
    """

    kind: ClassVar[str] = "direction"
    batch_size: ClassVar[int] = 32

    def __init__(self, turn_score: float) -> None:
        self._turn_score = turn_score

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {"kind": self.kind, "turn_score": self._turn_score}

    @classmethod
    def made(cls, given: dict[str, Any]) -> DirectionProcessor:
        """The processor of what `metadata` gave."""
        return cls(**given)

    def read_of_files(self) -> None:
        """See `OcrProcessor`."""

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """Lines as one batch, all of one size."""
        return {"turned": lines_shown(items, *DIRECTION_SIZE)}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Direction]:
        """Which way up each line is."""
        turned = [bool(down > self._turn_score) for _, down in outputs["direction"]]
        return [Direction(down, float(row[int(down)])) for down, row in zip(turned, outputs["direction"], strict=True)]

    def summary(self, result: Direction) -> dict[str, Any]:
        """Whether the line is upside down, and the score."""
        return {"turned": result.turned, "score": round(result.score, 5)}

    def lines(self, result: Direction) -> list[str]:
        """The direction in words."""
        return [f"{result} {result.score:.3f}"]

    def draw(self, item: np.ndarray, result: Direction) -> np.ndarray:
        """The line with its direction."""
        return _draw_whole(item, str(result))


def _draw_whole(item: np.ndarray, text: str) -> np.ndarray:
    """A picture of one line with a text about it."""
    height, width = item.shape[:2]
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], np.float32)
    return draw_texts(item, [(corners, text)])
