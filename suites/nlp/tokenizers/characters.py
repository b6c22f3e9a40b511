"""Characters: the characters of each token as numbers, for models that read words by their spelling.

Letters: n tokens of a text, L characters of a token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, CheckpointError, DataError
from suites.nlp.tokenizers.base import clean

SPELLING = "spelling"  # the batch array, int32 [T, L]
RESERVED = ("[PAD]", "[UNK]", "[BOW]", "[EOW]", "[CLS]", "[SEP]")
_PADDING, _UNKNOWN, _BEGIN, _END, _OPENING, _CLOSING = range(len(RESERVED))
_LONGEST = 1024  # characters of a token


@dataclass(eq=False)
class Characters:
    """The spelling of tokens: their characters as they stand in the text, capital letters too.

    A token is padded, or cut behind its first characters, to `length`. Number 0 is padding, 1 a character that the
    vocabulary lacks and a token without characters, 2 and 3 begin and end a word, 4 and 5 are the tokens that open and
    close a sequence; then come the characters, the most frequent first.

    Args:
        length: L, characters of a token, with the marks of `bounds`.
        max_size: numbers at most, which is as many rows of a model's table; the rarest characters are left out.
        bounds: put a mark before each word and one behind it (Peters et al. 2018), so that filters see where it begins
            and ends.
        vocabulary: the characters by number, the reserved ones first; null takes those of the training texts.
    """

    length: int = 16
    max_size: int = 256
    bounds: bool = False
    vocabulary: list[str] | None = None

    def __post_init__(self) -> None:
        least = 1 + 2 * self.bounds
        if not least <= self.length <= _LONGEST or self.max_size <= len(RESERVED):
            raise AttributeValueError(
                f"data.characters: length is {self.length} and max_size {self.max_size}; length must be from {least} "
                f"to {_LONGEST}, max_size above {len(RESERVED)}"
            )
        self._numbers: dict[str, int] = {}
        if self.vocabulary is not None:
            self._set(self.vocabulary)

    @property
    def learns(self) -> bool:
        """Whether there is no vocabulary yet: `learn` must be called before use."""
        return self.vocabulary is None

    @property
    def room(self) -> int:
        """Characters of a word that are read."""
        return self.length - 2 * self.bounds

    def learn(self, texts: Iterable[str]) -> None:
        """Number the characters of `texts`, the most frequent first; spaces are no part of words."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(clean(text))
        frequent = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
        if not frequent:
            raise DataError("data.characters: the training texts hold no characters")
        self._set([*RESERVED, *frequent[: self.max_size - len(RESERVED)]])

    def spell(self, text: str, spans: np.ndarray) -> np.ndarray:
        """The characters of each token, int32 [n, L].

        Args:
            text: of n tokens.
            spans: int64 [n, 2], first character of each token and the one after its last.
        """
        if self.learns:
            raise DataError("data.characters: there is no vocabulary yet; it is built when the training set is read")
        numbers = np.fromiter((self._numbers.get(c, _UNKNOWN) for c in clean(text)), np.int32, len(text))
        first = spans[:, :1] + self._spaces(text, spans)
        at = first + np.arange(self.room)
        inside = at < spans[:, 1:]
        rows = np.where(inside, numbers[np.where(inside, at, 0)] if len(text) else _PADDING, _PADDING)
        rows[~inside.any(axis=1), 0] = _UNKNOWN
        return self._bounded(rows.astype(np.int32))

    def special(self, ids: np.ndarray, opening: int | None, closing: int | None) -> np.ndarray:
        """Spelling of tokens that are no text, int32 [n, L]: those of these two numbers, and unknown ones."""
        rows = np.full((len(ids), self.room), _PADDING, np.int32)
        rows[:, 0] = _UNKNOWN
        for number, mark in ((opening, _OPENING), (closing, _CLOSING)):
            if number is not None:
                rows[ids == number, 0] = mark
        return self._bounded(rows)

    def metadata(self) -> dict[str, Any]:
        """Vocabulary and options, fit for JSON."""
        return asdict(self)

    @classmethod
    def restore(cls, metadata: dict[str, Any]) -> Characters:
        """What `metadata` describes; CheckpointError where it does not."""
        try:
            return cls(**metadata)
        except (TypeError, ValueError, AttributeValueError, DataError) as error:
            raise CheckpointError(f"characters: the model's metadata do not describe them ({error})") from error

    def _set(self, vocabulary: Sequence[str]) -> None:
        first = tuple(vocabulary[: len(RESERVED)])
        if first != RESERVED or len(vocabulary) > self.max_size:
            raise DataError(
                f"data.characters: the vocabulary has {len(vocabulary)} entries and starts with "
                f"{', '.join(vocabulary[:3])}; it must start with {', '.join(RESERVED)} and have {self.max_size} at "
                "most (max_size)"
            )
        self.vocabulary = list(vocabulary)
        self._numbers = {c: number for number, c in enumerate(vocabulary) if number >= len(RESERVED)}

    def _spaces(self, text: str, spans: np.ndarray) -> np.ndarray:
        """Spaces at the start of each token, [n, 1]: some tokenizers count the one before a word to it."""
        found = [len(part) - len(part.lstrip()) for part in (text[a:b] for a, b in spans.tolist())]
        return np.array(found, np.int64).reshape(-1, 1)

    def _bounded(self, rows: np.ndarray) -> np.ndarray:
        """[n, room] to [n, L]."""
        if not self.bounds:
            return rows
        made = np.pad(rows, ((0, 0), (1, 1)))
        made[:, 0] = _BEGIN
        made[np.arange(len(made)), 1 + (rows != _PADDING).sum(axis=1)] = _END
        return made
