"""Requests: what is asked of an engine, within which limits, and what becomes of each until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from framework.errors import AttributeValueError
from suites.engine.contract.capabilities.generating import Chooses, ChoosesTogether, Prompt, Sampling
from suites.engine.serving.errors import RequestError
from suites.engine.serving.generation.scheduler import Sequence as Tokens
from suites.engine.serving.generation.texts import Growing

Finish = Literal["stop", "length"]


@dataclass(frozen=True)
class EngineLimits:
    """What requests may ask, and what a step may hold.

    Args:
        new_tokens: of a text at most.
        results: of a prompt at most, and hypotheses of a text.
        waiting: sequences that wait at most; then requests get 503.
        sequences: that write at the same time at most.
        step_tokens: of a step; a prompt that is longer takes several.
        seconds: for an answer.
    """

    new_tokens: int = 1024
    results: int = 16
    waiting: int = 1024
    sequences: int = 32
    step_tokens: int = 256
    seconds: float = 300.0

    def __post_init__(self) -> None:
        whole = {name: getattr(self, name) for name in ("new_tokens", "results", "waiting", "sequences", "step_tokens")}
        if min(whole.values()) < 1 or not 0 < self.seconds < float("inf"):
            found = ", ".join(f"{name} is {value}" for name, value in whole.items())
            raise AttributeValueError(
                f"EngineLimits: {found}, seconds is {self.seconds:g}; all must be 1 or more, seconds above 0 and finite"
            )


@dataclass(frozen=True)
class Piece:
    """What became of one result of a request.

    Attributes:
        number: which result.
        text: what is new of it.
        tokens: that were written so far, the one that ends a text among them.
        finish: why it is done; None while it is not.
        error: why there is no more of it.
    """

    number: int
    text: str = ""
    tokens: int = 0
    finish: Finish | None = None
    error: RequestError | None = None


@dataclass(frozen=True)
class Wish:
    """What a request asks for.

    Attributes:
        prompt: what is written to.
        new_tokens: to write at most; None for as many as there may be.
        results: how many texts.
        sampling: how tokens are chosen.
        stops: texts that end a result.
        client: who asks: turns are shared out among clients.
    """

    prompt: Prompt
    new_tokens: int | None = None
    results: int = 1
    sampling: Sampling = field(default_factory=Sampling)
    stops: Sequence[str] = ()
    client: str = ""


@dataclass(eq=False)
class TextInWork:
    """A result that is written alone.

    Attributes:
        number: which result.
        tokens: the sequence that it is written in.
        chooser: of its next token.
        growing: its text.
        written: tokens so far, the one that ends it among them.
        heard: scores [words] of the next token, and their total.
    """

    ticket: Ticket
    number: int
    tokens: Tokens
    chooser: Chooses
    growing: Growing
    written: int = 0
    heard: tuple[np.ndarray, float] | None = None

    @property
    def live(self) -> list[Tokens]:
        """The sequences that it is written in."""
        return [self.tokens]

    def hear(self, sequence: Tokens, scores: np.ndarray, total: float) -> None:
        """Take in the scores of what follows a sequence."""
        self.heard = (scores, total)

    def failed(self, error: RequestError) -> list[Piece]:
        """Its last piece."""
        return [Piece(self.number, error=error)]


@dataclass(eq=False)
class BeamsInWork:
    """All results of a request that is written by beam search.

    Attributes:
        tokens: the sequence that they begin with.
        results: how many there are.
        before: tokens that their texts stand behind.
        live: the hypotheses that go on, in the chooser's order.
        heard: scores and totals of those of them that were computed; when all are there, the next tokens are chosen.
    """

    ticket: Ticket
    tokens: Tokens
    results: int
    chooser: ChoosesTogether
    stops: Sequence[str]
    before: Sequence[int]
    live: list[Tokens]
    heard: dict[Tokens, tuple[np.ndarray, float]] = field(default_factory=dict)

    def hear(self, sequence: Tokens, scores: np.ndarray, total: float) -> None:
        """Take in the scores of what follows a hypothesis; other steps may come before the rest is heard."""
        self.heard[sequence] = (np.array(scores), total)

    def failed(self, error: RequestError) -> list[Piece]:
        """The last pieces of all results."""
        return [Piece(number, error=error) for number in range(self.results)]


InWork = TextInWork | BeamsInWork


@dataclass(eq=False)
class Ticket:
    """A request that was taken.

    Attributes:
        deliver: gets every piece, in the engine's thread, and returns at once.
        deadline: by the monotonic clock.
    """

    deliver: Callable[[Piece], None]
    deadline: float
    results: list[InWork] = field(default_factory=list)

    @property
    def reused(self) -> int:
        """Tokens of the prompt, and of its source, that were in the cache; of several results, of the first."""
        return next((r.tokens.reused for r in self.results if r.tokens.reused is not None), 0)
