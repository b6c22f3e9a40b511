"""From texts to sequences of token ids, and whole data sets of them in flat arrays.

Letters: N samples, T tokens, B sequences of a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from framework.errors import AttributeValueError
from suites.nlp.tokenizers import Tokenizer, Tokens
from suites.nlp.tokenizers.characters import SPELLING, Characters
from suites.nlp.transforms import TextTransform

Truncation = Literal["longest_first", "only_first", "only_second", "half"]

_log = logging.getLogger(__name__)
_MUCH = 0.2  # share of a set's tokens
_KEPT, _SHORT = 4096, 1024  # texts that are remembered, and characters of one


class Sequence_(NamedTuple):
    """One input of a model: `[CLS] first [SEP] second [SEP]`, or what the tokenizer has of it.

    Attributes:
        ids: int64 [t].
        segment_ids: int64 [t], 0 in the first text and 1 in the second, each with its closing token.
        first: place of the first text's first token.
        second: place of the second text's first token.
    """

    ids: np.ndarray
    segment_ids: np.ndarray
    first: int
    second: int


@dataclass(frozen=True)
class Sequencer:
    """Texts to sequences.

    Args:
        tokenizer: text to ids.
        transforms: applied to each text first.
        max_length: tokens of a sequence at most, with the special ones.
        truncation: which text of a pair is cut: the longer one token by token, one of them, or each to half.
        target: of texts that are written, where these have a vocabulary of their own.
        characters: how tokens are spelled; None where the model does not read that.
    """

    tokenizer: Tokenizer
    transforms: Sequence[TextTransform] = ()
    max_length: int = 128
    truncation: Truncation = "longest_first"
    target: Tokenizer | None = None
    characters: Characters | None = None

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise AttributeValueError(f"data: max_length is {self.max_length}; it must be 8 or more")

    def parts(self) -> dict[str, Tokenizer | Characters]:
        """What numbers texts, by its name in the `data` of a config."""
        found = {"tokenizer": self.tokenizer, "target_tokenizer": self.target, "characters": self.characters}
        return {name: part for name, part in found.items() if part is not None}

    @property
    def keeps_places(self) -> bool:
        """Whether spans of tokens are places in the text as it was given."""
        return all(transform.keeps_places for transform in self.transforms)

    def change(self, text: str) -> str:
        """The text through all transforms."""
        for transform in self.transforms:
            text = transform(text)
        return text

    def tokens(self, texts: Iterable[str]) -> list[Tokens]:
        """The tokens of each text, after the transforms."""
        changed = [self.change(text) for text in texts]
        found = self.tokenizer.encode(changed)
        if (spelled := self.characters) is None:
            return found
        return [t._replace(characters=spelled.spell(text, t.spans)) for text, t in zip(changed, found, strict=True)]

    def spelled(self, ids: np.ndarray, texts: Iterable[tuple[int, np.ndarray | None]]) -> dict[str, np.ndarray]:
        """`spelling`, int32 [t, L], of a sequence; nothing where tokens are not spelled.

        Args:
            ids: [t].
            texts: the place of the first token of each text in it, and the characters of all of its tokens there.
        """
        if self.characters is None:
            return {}
        found = self.characters.special(ids, self.tokenizer.opening, self.tokenizer.closing)
        for place, rows in texts:
            if rows is not None:
                found[place : place + len(rows)] = rows
        return {SPELLING: found}

    @property
    def writing(self) -> Tokenizer:
        """The tokenizer of texts that are written."""
        return self.tokenizer if self.target is None else self.target

    def target_tokens(self, texts: Iterable[str]) -> list[Tokens]:
        """The tokens of each text that is written, after the transforms."""
        return self.tokens(texts) if self.target is None else self.target.encode([self.change(text) for text in texts])

    def room(self, pair: bool) -> int:
        """Tokens of text that fit beside the special ones."""
        return (
            self.max_length
            - (self.tokenizer.opening is not None)
            - ((1 + pair * self.tokenizer.closings_between) if self.tokenizer.opening is not None else pair)
        )

    def cut(self, first: np.ndarray, second: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """The ids of both texts, cut to fit."""
        room = self.room(second is not None)
        if second is None:
            return first[:room], None
        a, b = _lengths(len(first), len(second), room, self.truncation)
        return first[:a], second[:b]

    def head(self, ids: np.ndarray, room: int) -> np.ndarray:
        """The first `room` ids."""
        return ids[:room]

    def join(self, first: np.ndarray, second: np.ndarray | None = None) -> Sequence_:
        """The sequence of texts that fit; one that would hold no token holds the unknown one."""
        t = self.tokenizer
        opening = [t.opening] if t.opening is not None else []
        closing = [t.closing] if t.closing is not None and (opening or second is not None) else []
        start = len(opening)
        between = t.closings_between if opening and second is not None else 1
        head = [*opening, *first, *closing * between]
        tail = [] if second is None else [*second, *(closing if opening else [])]
        ids = np.array([*head, *tail] or [t.unknown], np.int64)
        segments = np.zeros(len(ids), np.int64)
        segments[len(head) :] = 1 if tail and t.segments > 1 else 0
        return Sequence_(ids, segments, start, len(head))


class CountingSequencer(Sequencer):
    """A Sequencer of another's parts that counts tokens, those that the vocabulary lacks, and texts that are cut."""

    def __init__(self, other: Sequencer) -> None:
        super().__init__(
            other.tokenizer, other.transforms, other.max_length, other.truncation, other.target, other.characters
        )
        self.counts: dict[str, int] = {"all": 0, "unknown": 0}
        self._fitted, self._cut = 0, 0  # sequences, and those that had more tokens than fit
        self._long = 0  # tokens of more characters than are read

    def tokens(self, texts: Iterable[str]) -> list[Tokens]:
        """The tokens of each text, after the transforms."""
        return self._counted(super().tokens(texts), self.tokenizer)

    def target_tokens(self, texts: Iterable[str]) -> list[Tokens]:
        """The tokens of each text that is written, after the transforms."""
        return self.tokens(texts) if self.target is None else self._counted(super().target_tokens(texts), self.target)

    def _counted(self, found: list[Tokens], tokenizer: Tokenizer) -> list[Tokens]:
        self.counts["all"] += sum(len(each.ids) for each in found)
        self.counts["unknown"] += sum(int((each.ids == tokenizer.unknown).sum()) for each in found)
        if self.characters is not None:
            self._long += sum(int((np.diff(each.spans) > self.characters.room).sum()) for each in found)
        return found

    def cut(self, first: np.ndarray, second: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """The ids of both texts, cut to fit."""
        found = super().cut(first, second)
        before, after = (sum(len(ids) for ids in both if ids is not None) for both in ((first, second), found))
        self._count_cut(after < before)
        return found

    def head(self, ids: np.ndarray, room: int) -> np.ndarray:
        """The first `room` ids."""
        self._count_cut(len(ids) > room)
        return super().head(ids, room)

    def _count_cut(self, is_cut: bool) -> None:
        self._fitted += 1
        self._cut += is_cut

    @property
    def all_unknown(self) -> bool:
        """Whether there are tokens, and all of them are unknown."""
        return 0 < self.counts["all"] == self.counts["unknown"]

    def warn(self, what: str) -> None:
        """Say where much of a data set is unknown, and how many of its texts are cut."""
        if self._cut:
            _log.log(
                logging.WARNING if self._cut > _MUCH * self._fitted else logging.INFO,
                "%s: %d of %d texts have more tokens than data.max_length (%d) has room for; the rest is not read",
                *(what, self._cut, self._fitted, self.max_length),
            )
        every, unknown = self.counts.values()
        if self._long and self.characters is not None:
            _log.log(
                logging.WARNING if self._long > _MUCH * every else logging.INFO,
                "%s: %d of %d tokens have more than the %d characters that are read (data.characters.length); the "
                "rest of them is not read",
                *(what, self._long, every, self.characters.room),
            )
        if unknown > _MUCH * every:
            seen = "so the model does not see them" if self.characters is None else "so only their characters are seen"
            _log.warning(
                "%s: %.0f %% of its tokens are unknown to the vocabulary (%d of %d), %s; "
                "take a vocabulary of this language",
                *(what, 100 * unknown / every, unknown, every, seen),
            )


@dataclass(frozen=True)
class RememberingSequencer(Sequencer):
    """An Sequencer that keeps the tokens of the last short texts: a server counts them before it needs them."""

    @cached_property
    def _one(self) -> Callable[[str], Tokens]:
        return lru_cache(_KEPT)(lambda text: Sequencer.tokens(self, [text])[0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_one"}  # another process keeps its own

    def tokens(self, texts: Iterable[str]) -> list[Tokens]:
        """The tokens of each text, after the transforms; the arrays are not to be written to."""
        return [self._one(text) if len(text) <= _SHORT else Sequencer.tokens(self, [text])[0] for text in texts]


def _lengths(a: int, b: int, room: int, truncation: Truncation) -> tuple[int, int]:
    """How much of two texts of a and b tokens is kept."""
    if a + b <= room:
        return a, b
    if truncation == "only_first":
        return max(room - b, 0), min(b, room)
    if truncation == "only_second":
        return min(a, room), max(room - a, 0)
    half = room // 2
    if truncation == "half":
        return min(a, room - half), min(b, half)
    # Taking tokens off the longer one, the second where both are equal, ends here:
    if min(a, b) <= half:
        return (a, room - a) if a < b else (room - b, b)
    return room - half, half


class Encoded:
    """Samples in flat arrays, which data workers share; what the data loader draws from.

    Args:
        samples: of each its arrays and numbers by key; all have the same keys.
        token_keys: keys of arrays with a row for each token, beside `spelling` where samples have it.
        name_of: file and line of sample i, for messages.
    """

    def __init__(
        self, samples: Sequence[Mapping[str, Any]], token_keys: Sequence[str], name_of: Callable[[int], str]
    ) -> None:
        lengths = [len(sample[token_keys[0]]) for sample in samples]
        self._offsets = np.cumsum([0, *lengths], dtype=np.int64)
        token_keys = (*token_keys, SPELLING) if SPELLING in samples[0] else token_keys
        self._tokens = {key: np.concatenate([sample[key] for sample in samples]) for key in token_keys}
        others = [key for key in samples[0] if key not in token_keys]
        self._rows = {key: np.stack([np.asarray(sample[key]) for sample in samples]) for key in others}
        names = [name_of(i) for i in range(len(samples))]
        self._names = np.frombuffer("\n".join(names).encode(errors="replace"), np.uint8)
        self._name_ends = np.cumsum([0, *(len(name.encode(errors="replace")) + 1 for name in names)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample, int64 [N]."""
        return np.diff(self._offsets)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The arrays and numbers of a sample, and its name."""
        first, last = self._offsets[index], self._offsets[index + 1]
        tokens = {key: values[first:last] for key, values in self._tokens.items()}
        return {**tokens, **{key: values[index] for key, values in self._rows.items()}, "name": self.name_of(index)}

    def name_of(self, index: int) -> str:
        """File and line of a sample."""
        first, last = self._name_ends[index], self._name_ends[index + 1] - 1
        return self._names[first:last].tobytes().decode()
