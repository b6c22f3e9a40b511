"""Prose: running text for language models, as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from framework.errors import AttributeValueError, DataError
from suites.engine.data.intake.texts import decoded, lines_of
from suites.engine.registry import register
from suites.nlp.datasets.base import ENCODING, Passage, TextDataset
from suites.nlp.datasets.packed import read_packed

_BLANK = re.compile(r"\n[ \t\r]*\n\s*")


@register("dataset", needs={"part": "holdout"})
class Prose(TextDataset[Passage]):
    """Running text of a file.

    Args:
        path: text file, also in a zip or `.gz`.
        documents: what a document is: the "file", each "paragraph" (an empty line between them), or each "line".
        holdout: with 0.1, the last tenth of the characters is for evaluation; null where there are two files.
        part: with `holdout`, which part: "train" or "val".
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    example_type: ClassVar[type] = Passage

    def __init__(
        self,
        path: str,
        documents: Literal["file", "paragraph", "line"] = "file",
        holdout: float | None = None,
        part: Literal["train", "val"] = "train",
        encoding: str | None = None,
    ) -> None:
        if holdout is not None and not 0 < holdout < 1:
            raise AttributeValueError(f"Prose: holdout is {holdout}; it must lie between 0 and 1, or be null")
        written = decoded(read_packed(path), path, encoding, ENCODING)
        text = "\n".join(lines_of(written)) + "\n" * written.endswith(("\n", "\r"))
        if not text.strip():
            raise DataError(f"{path}: the text is empty")
        if holdout is not None:
            middle = int(len(text) * (1 - holdout))
            text = text[:middle] if part == "train" else text[middle:]
        ways = {"file": lambda: [text], "paragraph": lambda: _BLANK.split(text), "line": lambda: text.split("\n")}
        found = ways[documents]()
        passages = [Passage(each) for each in found if each.strip()]
        self._hold(path, passages, [str(i + 1) for i in range(len(passages))], [])

    def texts(self) -> Iterator[str]:
        """All documents."""
        for passage in self.examples:
            yield passage.text
