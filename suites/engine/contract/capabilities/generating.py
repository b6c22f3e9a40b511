"""What a model that writes token by token is to a generation engine: the engine knows tokens as numbers only.

Letters: T new tokens, B sequences, P pages of a sequence, Q pages of a source, R tokens whose next is asked for, V
tokens of the vocabulary, N hypotheses of a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class CacheSettings:
    """The cache of keys and values.

    Args:
        megabytes: that its pages take.
        page: tokens of one.
        int8: keep the weights of products in 8 bits.
    """

    megabytes: float = 512
    page: int = 16
    int8: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.megabytes < 1 << 20 or not 1 <= self.page <= 1 << 12:
            raise AttributeValueError(
                f"CacheSettings: megabytes is {self.megabytes} and page {self.page}; the first must be above 0 and "
                "below 1048576, the second between 1 and 4096"
            )


@dataclass(frozen=True)
class Sampling:
    """How the tokens of a request are chosen; bounds are the generator's to check.

    Attributes:
        temperature: 0 takes the likeliest.
        top_p, top_k, min_p: among which tokens; None for all.
        repetition_penalty: 1 for none.
        seed: the same seed and prompt give the same again.
        beam: hypotheses that are kept of a text; 1 chooses token by token.
        length_penalty: alpha of ((5 + length) / 6)^alpha, by which a hypothesis' score is divided (Wu et al. 2016).
    """

    temperature: float = 1.0
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int = 0
    beam: int = 1
    length_penalty: float = 0.6


@dataclass(frozen=True)
class Prompt:
    """What a text is written to.

    Attributes:
        tokens: that it begins with, at least one.
        source: tokens of what is translated or summed up; none of a model that goes on with a text.
        goes_on: whether what is written goes on with the prompt's text, and so begins with the space behind it.
    """

    tokens: list[int]
    source: list[int] = field(default_factory=list)
    goes_on: bool = False

    @property
    def before(self) -> list[int]:
        """Tokens that the text which is written stands behind."""
        return self.tokens if self.goes_on else []

    def __len__(self) -> int:
        return len(self.tokens) + len(self.source)


class Chooses(Protocol):
    """Chooses the tokens of one sequence, one after the other."""

    def choose(self, scores: np.ndarray, total: float) -> int:
        """The next token.  scores: log-probabilities [V]; scores + total are the logits.

        Raises DataError where they are no numbers.
        """


class ChoosesTogether(Protocol):
    """Chooses how the hypotheses of one text go on, all together."""

    def advance(self, scores: np.ndarray, totals: np.ndarray) -> Sequence[tuple[int, int]]:
        """Which hypotheses go on: of each the row, of the N before, that it continues, and its token; none at the end.

        Before the first call there is one, the prompt.  scores: [N, V]; totals: [N]; see `Chooses.choose`.

        Raises DataError where they are no numbers.
        """

    def results(self) -> Sequence[tuple[tuple[int, ...], bool]]:
        """What was written, best first: its tokens, without one that ends it, and whether it ended by itself."""


class TextGenerator(Protocol):
    """A model that writes, with a cache of pages.

    Attributes:
        context: tokens of a sequence at most, those of its prompt among them.
        longest_source: tokens of a source at most; 0 for a model without one.
        pages: of the cache.
        page: tokens of one.
        cache_bytes: that they take.
        stops: the tokens that end a text.
        temperature: where a request names none.
        new_tokens: of a text at most, where a request names no number; None for as many as there is room for.
    """

    context: int
    longest_source: int
    pages: int
    page: int
    cache_bytes: int
    stops: frozenset[int]
    temperature: float
    new_tokens: int | None

    def encode(self, text: str) -> Prompt:
        """The tokens of a prompt."""

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> Prompt:
        """The tokens of a prompt that messages with `role` and `content` make.

        Raises NotSupportedError for a model without a template, DataError where its template refuses them.
        """

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens."""

    def chooser(self, sampling: Sampling, number: int, prompt: Sequence[int]) -> Chooses:
        """What chooses the tokens of a prompt's result `number`; AttributeValueError for a value out of bounds."""

    def beams(
        self, sampling: Sampling, results: int, prompt: Prompt, room: int, stops: Sequence[str]
    ) -> ChoosesTogether:
        """What chooses the hypotheses of a prompt, of `room` tokens at most; AttributeValueError for bad values.

        stops: texts that end one.
        """

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Write what is kept of a source to its Q pages; never called of a model without one."""

    def step(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Scores [R, V], log-probabilities, and totals [R], which make them logits, of the tokens behind `rows`.

        Args:
            arrays: ids int64 [T], offsets int64 [B + 1], tables int64 [B, P], lengths int64 [B] as of
                `ops.paged_attention`, rows int64 [R]; of a model with sources also source_tables int64 [B, Q] and
                source_lengths int64 [B].
        """
