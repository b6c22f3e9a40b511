"""Search: how the next words are chosen, and Hypothesis: what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from framework.errors import AttributeValueError
from suites.engine.bonds import bound

_LEAST = 1e-30  # attention, before its logarithm


class Hypothesis(NamedTuple):
    """A written sequence.

    Attributes:
        ids: its words, without start and stop.
        score: sum of the words' log-probabilities (that of stop with them), over the length penalty, plus the coverage
            penalty.
        complete: whether it ended with stop or a stop text, and not at the length allowed.
    """

    ids: tuple[int, ...]
    score: float
    complete: bool


@bound(needs={"top_k": "temperature", "top_p": "temperature", "min_p": "temperature"})
@dataclass(frozen=True)
class Search:
    """How words are chosen: the likeliest, the best beams, or by chance.

    Args:
        beam: hypotheses kept of each text; 1 takes the likeliest word each time.
        max_length: words of a result at most, without stop.
        length_penalty: alpha of ((5 + length) / 6)^alpha, by which scores are divided (Wu et al. 2016); 0 for none.
        coverage_penalty: beta of the coverage penalty of results that have a source: beta times the sum over the
            source's tokens, the closing one too, of log(min(1, all the attention it got)) (Wu et al. 2016, equation
            14; 0.2 there). It ranks what is complete; 0 for none.
        results: results of each text, best first; at most `beam` unless words are drawn.
        temperature: words are drawn by softmax(logits / temperature); 0 draws nothing and takes the likeliest.
        top_k: draw among so many likeliest words (Fan et al. 2018); null for all.
        top_p: draw among the likeliest words that have this probability together (Holtzman et al. 2020); null for all.
            0 leaves the likeliest alone.
        min_p: draw among words of at least this share of the likeliest one's probability (Nguyen et al. 2025).
        repetition_penalty: logits of words that are there already are divided by it if above 0, else multiplied (Keskar
            et al. 2019); 1 for none.
        stop: texts that end a result, which they are no part of.
        stop_ids: numbers of tokens that end a result as the tokenizer's closing one does.
        seed: of what is drawn: the same text and seed give the same result, whatever else is in the batch.
        cached: keep keys and values between steps. The results are the same without.
    """

    beam: int = 1
    max_length: int = 128
    length_penalty: float = 0.6
    coverage_penalty: float = 0.0
    results: int = 1
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    seed: int = 0
    cached: bool = True

    def __post_init__(self) -> None:
        if min(self.beam, self.max_length) < 1 or not 0 <= self.length_penalty < float("inf"):
            raise AttributeValueError(
                f"Search: beam is {self.beam}, max_length {self.max_length} and length_penalty {self.length_penalty}; "
                "they must be at least 1, 1 and 0, and finite"
            )
        if not 0 <= self.coverage_penalty < float("inf"):
            raise AttributeValueError(
                f"Search: coverage_penalty is {self.coverage_penalty}; it must be 0 or more, 0 for none"
            )
        if not 0 <= self.temperature < float("inf"):
            raise AttributeValueError(
                f"Search: temperature is {self.temperature}; it must be 0 or more, and finite; 0 draws nothing"
            )
        if not 0 < self.repetition_penalty < float("inf"):
            raise AttributeValueError(
                f"Search: repetition_penalty is {self.repetition_penalty}; it must be above 0, and finite; 1 for none"
            )
        for name, value in (("top_p", self.top_p), ("min_p", self.min_p)):
            if value is not None and not 0 <= value <= 1:
                raise AttributeValueError(f"Search: {name} is {value}; it must lie between 0 and 1")
        if self.top_k is not None and self.top_k < 1:
            raise AttributeValueError(f"Search: top_k is {self.top_k}; it must be at least 1, or null for all")
        if self.temperature and self.beam > 1:
            raise AttributeValueError(
                f"Search: beam is {self.beam} and temperature {self.temperature}; beams draw nothing, set one to its "
                "default"
            )
        if not 1 <= self.results <= (self.beam if not self.temperature else self.results):
            raise AttributeValueError(
                f"Search: results is {self.results}; it must be at least 1, and at most beam ({self.beam}) where no "
                "words are drawn (temperature)"
            )
        if any(number < 0 for number in self.stop_ids):
            raise AttributeValueError(f"Search: stop_ids is {list(self.stop_ids)}; tokens are numbered from 0")
        if any(not text for text in self.stop):
            raise AttributeValueError("Search: stop has an empty text, which is in every text; take it out")

    def penalty(self, length: int) -> float:
        """What the score of `length` words, stop among them, is divided by."""
        return float(((5 + length) / 6) ** self.length_penalty)

    def uncovered(self, coverage: np.ndarray | None) -> float:
        """What is added to a score.  coverage: [S], attention that each token of the source got; None for no source."""
        if coverage is None or not self.coverage_penalty:
            return 0.0
        return float(self.coverage_penalty * np.log(np.clip(coverage, _LEAST, 1.0)).sum())


CONTINUED = Search(temperature=0.8, top_p=0.95, max_length=200)  # where a text goes on and nothing is asked for
