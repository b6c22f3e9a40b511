"""What stands around networks of text when they predict: pictures to texts with their places.

Letters: N pictures, M lines, T columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch, Found
from suites.ocr.alphabet import Alphabet
from suites.ocr.drawing import draw_texts
from suites.ocr.finding import Finding
from suites.ocr.page import Page, Reading, Text, example
from suites.vision.processor import ImageItems

_SUITE = "ocr"


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
        kinds = {each.kind: each for each in (PageProcessor,)}
        try:
            return kinds[given.pop("kind")].made(given)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"OcrProcessor: the metadata of the model do not fit: {error}") from error

    @classmethod
    def made(cls, given: dict[str, Any]) -> OcrProcessor:
        """The processor of this kind."""
        raise NotImplementedError(f"{cls.__name__} defines no made()")


class PageProcessor(OcrProcessor):
    """Pictures to all that is written in them; an item is an image, uint8 RGB [H, W, 3].

    Args:
        finding: how text is found.
        reading: how it is shown to the networks.
        alphabet: of the recogniser.
        height: of lines, that it takes.
        direction: whether there is a direction classifier.
    """

    kind: ClassVar[str] = "page"

    def __init__(self, finding: Finding, reading: Reading, alphabet: Alphabet, height: int, direction: bool) -> None:
        self._finding, self._reading, self._alphabet = finding, reading, alphabet
        self._height, self._direction = height, direction

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor; `min_score` of `reading` by itself, as the engine asks for it."""
        reading: dict[str, Any] = plain(self._reading, suite=_SUITE)
        min_score = reading.pop("min_score")
        return {
            "kind": self.kind,
            "finding": plain(self._finding, suite=_SUITE),
            "reading": reading,
            "min_score": min_score,
            "alphabet": list(self._alphabet.characters),
            "height": self._height,
            "direction": self._direction,
        }

    @classmethod
    def made(cls, given: dict[str, Any]) -> PageProcessor:
        """The processor of what `metadata` gave."""
        reading = {**given["reading"], "min_score": given["min_score"]}
        return cls(
            build_value(given["finding"], Finding, suite=_SUITE),
            build_value(reading, Reading, suite=_SUITE),
            Alphabet(given["alphabet"]),
            given["height"],
            given["direction"],
        )

    def page(self, image: np.ndarray) -> Page:
        """An image on its way through the networks."""
        return Page(image, self._finding, self._reading, self._alphabet, self._height, self._direction)

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """A row for each network, of the first item: what a Program is traced with."""
        return example(items[0], self._height)

    def batches(self, items: Sequence[np.ndarray]) -> Iterable[Batch]:
        """Each picture's way through the networks; what they find decides what they are shown next."""
        for item in items:
            yield from self.page(item).batches()

    def joined(self, found: Iterable[Found]) -> list[list[Text]]:
        """The texts of each item, in reading order."""
        pages: dict[int, Page] = {}
        for outputs, batch in found:
            page = batch["page"]
            page.take(outputs, batch)
            pages[id(page)] = page
        return [page.texts() for page in pages.values()]

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[Text]]:
        """The texts of a picture whose last batch this is."""
        return self.joined([(outputs, batch)])

    def summary(self, result: list[Text]) -> list[dict[str, Any]]:
        """Each text with its score and its corners from the upper left on, as the writing stands."""
        return [
            {
                "text": text.text,
                "score": round(text.score, 5),
                "box": [[round(float(x), 1), round(float(y), 1)] for x, y in text.quad],
                **({"turned": True} if text.turned else {}),
            }
            for text in result
        ]

    def files(self, result: list[Text]) -> dict[str, bytes]:
        """The texts, a line each, as `.txt`."""
        return {".txt": "".join(f"{text.text}\n" for text in result).encode()}

    def lines(self, result: list[Text]) -> list[str]:
        """The texts, in reading order."""
        return [text.text for text in result]

    def draw(self, item: np.ndarray, result: list[Text]) -> np.ndarray:
        """The image with each text's outline, its number, and what it says."""
        return draw_texts(item, [(text.quad, text.text) for text in result])
