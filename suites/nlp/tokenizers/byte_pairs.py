"""RoBERTa's tokenizer, by the `tokenizers` library: byte-level pair encoding (Sennrich 2016; Radford et al. 2019).

A text is split into words, numbers and marks, each with the space before it; their UTF-8 bytes, written as 256
printable characters, are joined pair by pair in the order of the merges. Nothing is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import AddedToken
from tokenizers import Tokenizer as Engine
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import ByteLevel as Trimmed

from framework.errors import DataError
from suites.engine.data.sources import read_file
from suites.engine.registry import register
from suites.nlp.tokenizers.base import Tokenizer, Tokens, clean, kept

_NEEDED = ("<unk>", "<s>", "</s>")
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MOST = 10_000_000  # tokens


@kept
@register("tokenizer", "RobertaTokenizer")
class RobertaTokenizer(Tokenizer):
    """RoBERTa's tokenizer: byte-level pairs (Radford et al. 2019, 2.2), cut and joined by the library `tokenizers`.

    Pairs have two closing tokens between them, and all tokens are of one segment.

    Args:
        vocabulary: `vocab.json`, an object of tokens with their numbers; or the tokens by number.
        merges: `merges.txt`, a pair a line in order; or its lines.
        prefix_space: begin each text with a space, so that its first word is one in the middle of a text.
    """

    kind: ClassVar[str] = "roberta"
    closings_between: ClassVar[int] = 2
    segments: ClassVar[int] = 1

    def __init__(self, vocabulary: str | list[str], merges: str | list[str], prefix_space: bool = False) -> None:
        self.vocabulary = _read_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary
        self._merges = _read_text(merges).split("\n") if isinstance(merges, str) else merges
        self._prefix_space = prefix_space
        numbers = {token: number for number, token in enumerate(self.vocabulary) if token}
        if missing := [token for token in _NEEDED if token not in numbers]:
            raise DataError(
                f"roberta tokenizer: the vocabulary of {len(numbers)} tokens lacks {', '.join(missing)}; is it the "
                "vocab.json of a RoBERTa model?"
            )
        self.unknown, self.opening, self.closing = (numbers[token] for token in _NEEDED)
        self.mask = numbers.get("<mask>")
        pairs = _pairs(self._merges, numbers)
        self._engine = _engine(numbers, pairs, prefix_space=prefix_space)
        self._word_engine = _engine(numbers, pairs, prefix_space=True)

    def _encode(self, texts: list[str]) -> list[Tokens]:
        encodings = self._engine.encode_batch(texts, add_special_tokens=False)
        return [Tokens(np.array(e.ids, np.int64), np.array(e.offsets, np.int64).reshape(-1, 2)) for e in encodings]

    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word as it stands in a text, behind a space: int64 [1 or more]."""
        encodings = self._word_engine.encode_batch([clean(word) for word in words], add_special_tokens=False)
        return [np.array(e.ids or [self.unknown], np.int64) for e in encodings]

    def state(self) -> dict[str, Any]:
        """Vocabulary, merges and options."""
        return {
            "vocabulary": list(self.vocabulary),
            "merges": list(self._merges),
            "prefix_space": self._prefix_space,
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> RobertaTokenizer:
        """The tokenizer that `state` describes."""
        return cls(**state)


def _engine(numbers: Mapping[str, int], pairs: list[tuple[str, str]], *, prefix_space: bool) -> Engine:
    engine = Engine(BPE(vocab=dict(numbers), merges=pairs, unk_token="<unk>"))
    engine.pre_tokenizer = ByteLevel(add_prefix_space=prefix_space)
    engine.post_processor = Trimmed(trim_offsets=True)  # places without the space before a word
    special = [AddedToken(token, special=True, normalized=False) for token in _SPECIAL if token in numbers]
    if "<mask>" in numbers:
        special.append(AddedToken("<mask>", special=True, normalized=False, lstrip=True))
    engine.add_special_tokens(special)
    return engine


def _pairs(lines: Sequence[str], numbers: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of lines `first second`; DataError for a line that is none or makes a token that is not there."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#version"):
            continue
        first, _, second = line.rstrip("\r").partition(" ")
        unknown = [token for token in (first, second, first + second) if token not in numbers]
        if not first or not second or unknown:
            why = f"'{unknown[0][:40]}' is no token" if first and second else "expects two tokens with a space between"
            raise DataError(f"roberta tokenizer: line {number} of the merges, '{line[:40]}': {why}; do both files fit?")
        found.append((first, second))
    return found


def _read_vocabulary(path: str) -> list[str]:
    try:
        numbers = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no JSON ({error}); a RoBERTa vocabulary is vocab.json") from None
    if not isinstance(numbers, dict) or not numbers:
        raise DataError(f"{path}: holds no object of tokens with their numbers; a RoBERTa vocabulary is vocab.json")
    found: dict[int, str] = {}
    for token, place in numbers.items():
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < _MOST or place in found:
            raise DataError(f"{path}: token '{token[:40]}' has the number {place!r:.40}, which is none or another's")
        found[place] = token
    return [found.get(place, "") for place in range(max(found) + 1)]


def _read_text(path: str) -> str:
    try:
        return read_file(path, "text_bytes").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no UTF-8 text (byte {error.start})") from None
