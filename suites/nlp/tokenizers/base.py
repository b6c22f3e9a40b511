"""Tokenizer: text to token ids with their places in the text, whatever cuts the text.

What a tokenizer was made from goes with a run and an exported model (`metadata`), so that prediction needs
no vocabulary file.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from framework.errors import CheckpointError, DataError, NotSupportedError
from suites.engine.data.sources import read_file
from suites.engine.registry import register_role
from suites.engine.weights.pretrained import with_names

_LOOK = 64  # tokens before a text that are looked at
_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokens(NamedTuple):
    """The tokens of one text.

    Attributes:
        ids: int64 [n], numbers in the vocabulary.
        spans: int64 [n, 2], first character of each token in the text and the one after its last.
        characters: int32 [n, L], how each token is spelled; None where nothing reads that.
    """

    ids: np.ndarray
    spans: np.ndarray
    characters: np.ndarray | None = None

    def spelled(self, first: int, last: int) -> np.ndarray | None:
        """The `characters` of tokens first ... last - 1, where there are any."""
        return None if self.characters is None else self.characters[first:last]


class Tokenizer(ABC):
    """Cuts texts to tokens and numbers them.

    Attributes:
        vocabulary: the tokens by number; a number that no token has is an empty string.
        unknown: number of the token for what is not in the vocabulary.
        opening: number of the token before a sequence ("[CLS]"), or None where sequences have none.
        closing: number of the token after each text of a sequence ("[SEP]"), or None.
        mask: number of the token that stands for a hidden one ("[MASK]"), or None.
        closings_between: how many closing tokens stand between the texts of a pair.
        segments: 2 where the second text of a pair has a segment of its own, else 1.
        chat: how messages become a prompt, a template of Jinja2; None where it is not said.
        around: the texts of special tokens by the names that such a template gives them, as `bos_token`.
    """

    kind: ClassVar[str]
    vocabulary: Sequence[str]
    unknown: int
    opening: int | None = None
    closing: int | None = None
    mask: int | None = None
    closings_between: ClassVar[int] = 1
    segments: ClassVar[int] = 2
    chat: str | None = None
    around: Mapping[str, str] = MappingProxyType({})

    @property
    def size(self) -> int:
        """Rows that an embedding of these tokens needs."""
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, without `opening` and `closing`; unpaired surrogates count as U+FFFD."""
        return self._encode([clean(text) for text in texts])

    @abstractmethod
    def _encode(self, texts: list[str]) -> list[Tokens]:
        """The tokens of texts that hold no unpaired surrogate."""

    @abstractmethod
    def encode_words(self, words: Sequence[str]) -> list[np.ndarray]:
        """The ids of each word (a character of Chinese), int64 [1 or more]: a word of no token is `unknown`."""

    @property
    def writes(self) -> bool:
        """Whether `text` makes texts of ids."""
        return type(self).text is not Tokenizer.text

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, which need no opening and closing; NotSupportedError where `writes` is false."""
        raise NotSupportedError(
            f"{type(self).__name__}: makes no text of ids, so no model can write with it; SubwordTokenizer, "
            "CharacterTokenizer, a WordTokenizer of words and published tokenizers can"
        )

    def continued(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """The text of ids that stand behind those of `before`: with the space between them, which `text` may leave out.

        NotSupportedError where `writes` is false.
        """
        tail = list(before[-_LOOK:])
        start, whole = self.text(tail), self.text([*tail, *ids])
        return whole[len(start) :] if whole.startswith(start) else self.text(ids)

    @property
    def learns(self) -> bool:
        """Whether there is no vocabulary yet: `learn` must be called before use."""
        return not self.vocabulary

    def learn(self, texts: Iterable[str]) -> None:  # noqa: B027  (most have a vocabulary from the start)
        """Build the vocabulary from training texts, where there is none yet."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What `restore` makes an equal tokenizer from, fit for JSON."""

    @classmethod
    @abstractmethod
    def restore(cls, state: dict[str, Any]) -> Tokenizer:
        """The tokenizer that `state` describes."""

    def metadata(self) -> dict[str, Any]:
        """Kind and state, fit for JSON."""
        return {"kind": self.kind, **self.state()}


register_role("tokenizer", Tokenizer, doc="Text to token ids.")

_KINDS: dict[str, type[Tokenizer]] = {}


def kept(cls: type[Tokenizer]) -> type[Tokenizer]:
    """Class decorator: `tokenizer_from` knows the class by its `kind`."""
    _KINDS[cls.kind] = cls
    return cls


def tokenizer_from(metadata: dict[str, Any]) -> Tokenizer:
    """The tokenizer that `Tokenizer.metadata` describes; CheckpointError where it is not one."""
    try:
        state = dict(metadata)
        return _KINDS[state.pop("kind")].restore(state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"tokenizer: the model's metadata do not describe one ({error!r})") from error


def clean(text: str) -> str:
    """The text with each unpaired surrogate as U+FFFD, of the same length: the libraries take valid text only."""
    return _SURROGATE.sub("\ufffd", text)


def read_vocabulary(path: str) -> list[str]:
    """Tokens by number, from a file with a token a line, or with `token<TAB>number` as ERNIE's.

    Numbers that no line has give empty strings. Of a token that stands there twice, as some in ERNIE 3.0's file, the
    last number counts, as in the programs these files come from. Raises DataError that names a wrong line.
    """
    try:
        lines = read_file(with_names(path), "text_bytes").decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no UTF-8 text (byte {error.start}); a vocabulary has one token a line") from None
    lines = [line.removesuffix("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError(f"{path}: the vocabulary is empty")
    numbered = "\t" in lines[0]
    found: dict[int, str] = {}
    for number, line in enumerate(lines):
        token, place = _numbered(path, number + 1, line) if numbered else (line, number)
        if place in found:
            raise DataError(f"{path}:{number + 1}: '{token}' has number {place}, which is '{found[place]}'s")
        found[place] = token
    return [found.get(place, "") for place in range(max(found) + 1)]


def _numbered(path: str, number: int, line: str) -> tuple[str, int]:
    token, tab, place = line.rpartition("\t")
    if not tab or not place.isascii() or not place.isdigit() or int(place) > 10_000_000:
        raise DataError(f"{path}:{number}: expects 'token<TAB>number' as in the first line, found '{line[:40]}'")
    return token, int(place)
