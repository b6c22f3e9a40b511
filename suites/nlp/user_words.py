"""UserWords: words that a user knows better than a model of words and their kinds, as LAC's customization has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from framework.errors import DataError
from suites.nlp.datasets.base import read_lines

_MOST = 1_000_000  # phrases
_LONGEST = 1000  # characters of a phrase


class _Word(NamedTuple):
    text: str
    kind: str | None


class UserWords:
    """Phrases whose words are known. A line is a phrase, spaces cut it to words, each may have a kind behind a slash.

    `花/n 开/v` cuts every 花开 so, `秋天的风` makes it one word, whose kind is the model's for its first character. Of
    phrases that overlap in a text the first counts, and of those that begin together the longest.

    Args:
        lines: of phrases; empty ones are passed over.
        where: where they come from, for messages.

    Raises DataError for a line with a word or a kind that is empty, a phrase twice with other words, or one too long.
    """

    def __init__(self, lines: Iterable[str], where: str = "words") -> None:
        self._phrases: dict[str, tuple[_Word, ...]] = {}
        self._lengths: dict[str, list[int]] = {}  # of phrases by their first character, longest first
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            words = tuple(_word(part, f"{where}:{number}") for part in line.split())
            phrase = "".join(word.text for word in words)
            if len(phrase) > _LONGEST or len(self._phrases) >= _MOST:
                raise DataError(f"{where}:{number}: more than {_LONGEST} characters, or {_MOST} phrases")
            if self._phrases.setdefault(phrase, words) != words:
                raise DataError(f"{where}:{number}: '{phrase[:40]}' stands there already, with other words or kinds")
            self._lengths.setdefault(phrase[0], []).append(len(phrase))
        self._lengths = {first: sorted(set(found), reverse=True) for first, found in self._lengths.items()}

    def applied(self, characters: Sequence[str], tags: Sequence[str]) -> list[str]:
        """The tags (`B-kind`, `I-kind`, `O`) of a text's characters, with those of its phrases in their place."""
        text, found, at = "".join(characters), list(tags), 0
        if len(text) != len(found):  # an item that is no single character
            return found
        while at < len(text):
            phrase = self._phrase_at(text, at)
            if phrase is None:
                at += 1
                continue
            for word in self._phrases[phrase]:
                kind = _kind(found[at]) if word.kind is None else word.kind
                found[at : at + len(word.text)] = [f"B-{kind}", *[f"I-{kind}"] * (len(word.text) - 1)]
                at += len(word.text)
            if at < len(found) and found[at].startswith("I-"):
                found[at] = f"B-{_kind(found[at])}"
        return found

    def _phrase_at(self, text: str, at: int) -> str | None:
        lengths = self._lengths.get(text[at], ())
        return next((text[at : at + n] for n in lengths if text[at : at + n] in self._phrases), None)


def read_user_words(path: str) -> list[str]:
    """The lines of a dictionary, checked; DataError says what is wrong with it and where."""
    lines = [line for _, line in read_lines(path)]
    UserWords(lines, path)
    return [line for line in lines if line.strip()]


def _word(part: str, where: str) -> _Word:
    text, slash, kind = part.rpartition("/") if "/" in part[1:] else (part, "", "")
    if not text or (slash and not kind):
        raise DataError(f"{where}: '{part[:40]}' is no word, or word/kind; take the slash away, or name the kind")
    return _Word(text, kind or None)


def _kind(tag: str) -> str:
    return tag.removeprefix("B-").removeprefix("I-")
