"""LacTokenizer: single characters by LAC's dictionary, after its table of characters that stand for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.engine.data.sources import read_file
from suites.nlp.tokenizers.base import Tokenizer, Tokens, clean, kept

_WORDS, _SAME, _UNKNOWN = "word.dic", "q2b.dic", "OOV"


@kept
class LacTokenizer(Tokenizer):
    """A number for each character, spaces too; none is added around a text.

    Args:
        numbers: the number of each character.
        same: characters that count as another: full-width as half-width ones, traditional as simplified ones.
        unknown: the number of all other characters.
        rows: rows of the embedding.
    """

    kind: ClassVar[str] = "lac"

    def __init__(self, numbers: Mapping[str, int], same: Mapping[str, str], unknown: int, rows: int) -> None:
        self._known, self._same, self.unknown, self._rows = dict(numbers), dict(same), unknown, rows
        self._numbers = {**numbers, **{a: numbers.get(b, unknown) for a, b in same.items()}}
        self.vocabulary = list(numbers)

    @classmethod
    def of_folder(cls, folder: Path) -> LacTokenizer:
        """The dictionaries of a folder, `word.dic` and `q2b.dic`; DataError says what is wrong with them."""
        words = {token: int(number) for number, token in read_pairs(folder / _WORDS)}
        if _UNKNOWN not in words:
            raise DataError(f"{folder / _WORDS}: has no '{_UNKNOWN}', the number of unknown characters")
        single = {token: number for token, number in words.items() if len(token) == 1}
        return cls(single, dict(read_pairs(folder / _SAME)), words[_UNKNOWN], max(words.values()) + 1)

    @property
    def size(self) -> int:
        """Rows that an embedding needs."""
        return self._rows

    def _encode(self, texts: list[str]) -> list[Tokens]:
        return [
            Tokens(
                np.array([self._numbers.get(character, self.unknown) for character in text], np.int64),
                np.array([(at, at + 1) for at in range(len(text))], np.int64).reshape(-1, 2),
            )
            for text in texts
        ]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The number of each character, int64 [1]; a longer word has its first one's."""
        return [np.array([self._numbers.get(clean(word)[:1], self.unknown)], np.int64) for word in words]

    def state(self) -> dict[str, Any]:
        """Characters, numbers and the table."""
        return {"numbers": self._known, "same": self._same, "unknown": self.unknown, "rows": self._rows}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> LacTokenizer:
        """The tokenizer that `state` describes."""
        return cls(**state)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The two columns of a dictionary of LAC, tab between them; lines without a tab are no entries."""
    try:
        text = read_file(str(path), "text_bytes").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no UTF-8 text (byte {error.start})") from None
    lines = (line.removesuffix("\r") for line in text.split("\n"))  # characters such as U+2028 are entries
    found = [(first, second) for first, tab, second in (line.partition("\t") for line in lines) if tab]
    if not found:
        raise DataError(f"{path}: has no line with a tab, so it is no dictionary of LAC")
    return found
