"""Segmenter: Chinese words by forward maximum matching with a dictionary, as ERNIE-Tiny cuts its texts."""

from __future__ import annotations

import pickletools
import re
from collections.abc import Sequence

from framework.errors import DataError
from suites.engine.data.sources import read_file
from suites.nlp.tokenizers.base import read_vocabulary

_RUN = re.compile(r"[A-Za-z0-9]+|\s+|.", re.DOTALL)


class Segmenter:
    """Takes, from the left, the longest word of the dictionary; else a run of Latin letters and digits, or a character.

    Args:
        words: the dictionary.
        window: characters of the longest word looked up.
    """

    def __init__(self, words: Sequence[str], window: int = 5) -> None:
        self._words = frozenset(word for word in words if len(word) > 1)
        self._window = window

    def __call__(self, text: str) -> list[tuple[int, int]]:
        """First character and one after the last of each word of `text`; spaces belong to none."""
        parts, place = [], 0
        while place < len(text):
            end = self._end_of_word(text, place)
            if not text[place].isspace():
                parts.append((place, end))
            place = end
        return parts

    def _end_of_word(self, text: str, place: int) -> int:
        for end in range(min(place + self._window, len(text)), place + 1, -1):
            if text[place:end] in self._words:
                return end
        run = _RUN.match(text, place)
        assert run is not None  # the last alternative takes any character
        return run.end()


def read_dictionary(path: str) -> list[str]:
    """The words of a dictionary: a text file with a word a line, or ERNIE-Tiny's `dict.wordseg.pickle`.

    A pickle is taken apart, not loaded: of its instructions only those that hold text are looked at.
    """
    if not path.endswith(".pickle"):
        return read_vocabulary(path)
    try:
        words = [
            _text(argument)
            for _, argument, _ in pickletools.genops(read_file(path, "text_bytes"))
            if argument is not None
        ]
    except ValueError as error:
        raise DataError(f"{path}: is no pickle ({error}); a dictionary is that, or text with a word a line") from None
    found = [word for word in words if word]
    if not found:
        raise DataError(f"{path}: holds no words")
    return found


def _text(argument: object) -> str:
    """The text of a pickle's instruction; Python 2 wrote UTF-8 as bytes, which are shown as Latin-1."""
    if not isinstance(argument, str):
        return ""
    try:
        return argument.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return argument
