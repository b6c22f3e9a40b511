"""WordTokenizer: words or characters with a vocabulary built from the training texts, for the classic models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from framework.extras import install_command
from suites.engine.registry import register
from suites.nlp.tokenizers.base import Tokenizer, Tokens, clean, kept, read_vocabulary

_RESERVED, _OPENING = ("[PAD]", "[UNK]", "[SEP]"), "[CLS]"
# A run of Latin letters or of digits is one piece; everything else that is visible is one piece a character.
_CHARACTERS = re.compile(r"[A-Za-z]+|[0-9]+|\S")
_WORDS = re.compile(r"\S+")
_JOINT = "\u0001"  # between the pieces of an n-gram: no visible character

Piece = tuple[str, int, int]  # text, first character, one after the last


@kept
@register("tokenizer", "WordTokenizer")
class WordTokenizer(Tokenizer):
    """Cuts texts at spaces, into characters or into Chinese words, and numbers what is frequent in the training texts.

    Number 0 is free for padding, 1 is the unknown piece, 2 stands between the texts of a pair, 3 before a sequence
    where `opens` is set; then come the pieces, the most frequent first.

    Args:
        pieces: "words" between spaces, single "characters" (runs of Latin letters or digits stay whole), or Chinese
            words by "jieba" (needs the package jieba).
        min_count: how often a piece must occur in the training texts.
        max_size: rows of the embedding; the rarest pieces are left out.
        ngrams: also number each run of 2 ... ngrams neighbouring pieces; for models that sum (Joulin et al. 2017).
        lower_case: take capital letters as small ones.
        vocabulary: file with a piece a line, or the pieces; null builds it from the training texts.
        opens: put [CLS] before each sequence and [SEP] behind each text, as Reading needs it.
    """

    kind: ClassVar[str] = "words"

    def __init__(
        self,
        pieces: Literal["words", "characters", "jieba"] = "words",
        min_count: int = 1,
        max_size: int = 50000,
        ngrams: int = 1,
        lower_case: bool = True,
        vocabulary: str | list[str] | None = None,
        opens: bool = False,
    ) -> None:
        self._reserved = (*_RESERVED, *([_OPENING] if opens else []))
        if min_count < 1 or ngrams < 1 or max_size <= len(self._reserved):
            raise AttributeValueError(
                f"WordTokenizer: min_count is {min_count}, ngrams {ngrams} and max_size {max_size}; "
                f"they must be at least 1, 1 and {len(self._reserved) + 1}"
            )
        self._options = {"pieces": pieces, "ngrams": ngrams, "lower_case": lower_case, "opens": opens}
        self._pieces = pieces
        self._cut = cutter(pieces)
        self._lower_case = lower_case
        self._ngrams = ngrams
        self._min_count = min_count
        self.unknown, self.closing = 1, 2
        self.opening = 3 if opens else None
        self._max_size = max_size
        self.vocabulary: list[str] = []
        self._numbers: dict[str, int] = {}
        if vocabulary is not None:
            self._set(read_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary)

    @property
    def size(self) -> int:
        """Rows that an embedding needs: `max_size`, known before the vocabulary is."""
        return self._max_size

    def learn(self, texts: Iterable[str]) -> None:
        """Number the pieces of `texts` that occur `min_count` times or more, the most frequent first."""
        counts = Counter(piece for text in texts for piece, _, _ in self._all_pieces(clean(text)))
        frequent = sorted((-count, piece) for piece, count in counts.items() if count >= self._min_count)
        if not frequent:
            raise DataError(f"WordTokenizer: no piece occurs {self._min_count} times or more in the training texts")
        self._set([*self._reserved, *(piece for _, piece in frequent[: self._max_size - len(self._reserved)])])

    def _encode(self, texts: list[str]) -> list[Tokens]:
        if self.learns:
            raise DataError("WordTokenizer: it has no vocabulary yet; it is built when the training set is read")
        return [self._tokens(self._all_pieces(text)) for text in texts]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The number of each word as a whole, int64 [1]."""
        cased = [clean(word).lower() if self._lower_case else clean(word) for word in words]
        return [np.array([self._numbers.get(word, self.unknown)], np.int64) for word in cased]

    @property
    def writes(self) -> bool:
        """Whether its pieces are words between spaces, each for itself."""
        return self._pieces == "words" and self._ngrams == 1

    def text(self, ids: Sequence[int]) -> str:
        """The words of ids between spaces, an unknown one as U+FFFD; NotSupportedError where `writes` is false."""
        if not self.writes:
            return super().text(ids)
        around = (0, self.closing, self.opening)
        words = ("\ufffd" if i == self.unknown else self.vocabulary[i] for i in ids if i not in around)
        return " ".join(words)

    def state(self) -> dict[str, Any]:
        """Vocabulary and options."""
        return {**self._options, "max_size": self._max_size, "vocabulary": list(self.vocabulary)}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> WordTokenizer:
        """The tokenizer that `state` describes."""
        return cls(**state)

    def _set(self, vocabulary: Sequence[str]) -> None:
        first = len(self._reserved)
        if tuple(vocabulary[:first]) != self._reserved:
            raise DataError(
                f"WordTokenizer: the vocabulary starts with {', '.join(vocabulary[:first])}; "
                f"it must start with {', '.join(self._reserved)}"
            )
        if len(vocabulary) > self._max_size:
            raise DataError(
                f"WordTokenizer: the vocabulary has {len(vocabulary)} pieces but max_size is {self._max_size}"
            )
        self.vocabulary = list(vocabulary)
        self._numbers = {piece: number for number, piece in enumerate(vocabulary) if number >= first}

    def _all_pieces(self, text: str) -> list[Piece]:
        """Pieces in order, then the n-grams of two, of three ..."""
        single = self._cut(text.lower() if self._lower_case and len(text.lower()) == len(text) else text)
        found = list(single)
        for length in range(2, self._ngrams + 1):
            for first in range(len(single) - length + 1):
                run = single[first : first + length]
                found.append((_JOINT.join(piece for piece, _, _ in run), run[0][1], run[-1][2]))
        return found

    def _tokens(self, pieces: list[Piece]) -> Tokens:
        ids = [self._numbers.get(piece, self.unknown) for piece, _, _ in pieces]
        spans = [(start, end) for _, start, end in pieces]
        return Tokens(np.array(ids, np.int64), np.array(spans, np.int64).reshape(-1, 2))


def cutter(pieces: str) -> Callable[[str], list[Piece]]:
    """A function from a text to its words, between spaces, or its "characters" or, by "jieba", Chinese words."""
    if pieces == "jieba":
        return jieba_cutter("WordTokenizer: pieces")
    pattern = _CHARACTERS if pieces == "characters" else _WORDS
    return partial(_matches, pattern)


def _matches(pattern: re.Pattern[str], text: str) -> list[Piece]:
    return [(m.group(), m.start(), m.end()) for m in pattern.finditer(text)]


def _words_of_jieba(text: str) -> list[Piece]:
    import jieba

    return [(word, start, end) for word, start, end in jieba.tokenize(text) if not word.isspace()]


def jieba_cutter(who: str) -> Callable[[str], list[Piece]]:
    """A function from text to (word, first character, one after the last); `who` asks for it, for messages."""
    try:
        import jieba
    except ImportError:
        raise DataError(
            f"{who} is 'jieba', which needs the package of that name; run {install_command('chinese')}"
        ) from None
    jieba.setLogLevel("WARNING")
    return _words_of_jieba  # by its name, so that a tokenizer can go to another process
