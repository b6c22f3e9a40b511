"""Figures of texts that were written: exact matches, BLEU, chrF, ROUGE; and the sentences that are furthest off."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from framework.errors import ConfigError
from framework.extras import install_command
from suites.engine.contract.batch import Batch, Found
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Case
from suites.nlp.metrics.classes import examples_of
from suites.nlp.metrics.overlap import rouge_l, rouge_n
from suites.nlp.writing import Writer

Figure = Literal["exact", "bleu", "chrf", "rouge1", "rouge2", "rougeL"]


class WrittenScores(ArrayMetric):
    """Figures of what was written: `exact` (share of texts that equal their reference), and from 0 to 100 `bleu`,
    `chrf`, `rouge1`, `rouge2`, `rougeL`.

    BLEU (Papineni et al. 2002) and chrF2 (Popović 2015) are those of `sacrebleu`, over the whole set; ROUGE is the mean
    of the texts' F-measures, see `suites.nlp.metrics.overlap`.

    Args:
        references: what is right for each example of the set.
        text_of: the best text of each prompt of a writer.
        figures: which.
        words: how BLEU cuts words, as `sacrebleu` calls it.
        lower_case: whether BLEU takes capital letters as small ones.

    Raises ConfigError where `sacrebleu` is needed and not there.
    """

    def __init__(
        self,
        references: Sequence[str],
        text_of: Callable[[Writer], list[str]],
        figures: Sequence[Figure] = ("exact",),
        words: str = "13a",
        lower_case: bool = False,
    ) -> None:
        super().__init__()
        self._references, self._text_of, self._figures = references, text_of, tuple(figures)
        self._bleu: Any
        self._chrf: Any
        self._bleu, self._chrf = _sacrebleu(words, lower_case) if {"bleu", "chrf"} & set(figures) else (None, None)

    def update_joined(self, found: Iterable[Found]) -> None:
        """Takes in the steps of writing to a batch."""
        for outputs, batch in found:
            self.update(outputs, batch)

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in one step; where it was the last, what was written."""
        writer = batch["writer"]
        writer.take(outputs)
        if writer.is_done:
            texts = self._text_of(writer)
            self.gather(examples=examples_of(batch, len(texts)), texts=np.array(texts, dtype=object))

    def _pairs(self) -> tuple[list[str], list[str]]:
        texts = [str(text) for text in self.gathered("texts")]
        return texts, [self._references[i] for i in self.gathered("examples").tolist()]

    def state(self) -> dict[str, Any]:
        """Examples and texts, as plain data."""
        found = super().state()
        return {**found, "texts": [str(text) for text in found["texts"]]} if found else found

    def merge(self, state: Mapping[str, Any]) -> None:
        """See `Metric.merge`."""
        if state:
            self.gather(examples=state["examples"], texts=np.array(state["texts"], dtype=object))

    def result(self) -> dict[str, float]:
        """The figures."""
        texts, references = self._pairs()
        known: dict[str, Callable[[], float]] = {
            "exact": lambda: float(np.mean([a.strip() == b.strip() for a, b in zip(texts, references, strict=True)])),
            "bleu": lambda: float(self._bleu.corpus_score(texts, [references]).score),
            "chrf": lambda: float(self._chrf.corpus_score(texts, [references]).score),
            "rouge1": lambda: _mean(rouge_n(a, b, 1) for a, b in zip(texts, references, strict=True)),
            "rouge2": lambda: _mean(rouge_n(a, b, 2) for a, b in zip(texts, references, strict=True)),
            "rougeL": lambda: _mean(rouge_l(a, b) for a, b in zip(texts, references, strict=True)),
        }
        return {name: known[name]() for name in self._figures}

    def report(self) -> str:
        """The signatures of BLEU and chrF, which figures of others have to share."""
        scorers = {"bleu": self._bleu, "chrf": self._chrf}
        asked = [scorers[name] for name in self._figures if name in scorers]
        if not asked:
            return ""
        self.result()  # a signature is known after it
        return "\n".join(f"- `{scorer.get_signature()}`" for scorer in asked)

    def worst(self, count: int) -> Mapping[str, Sequence[Case]]:
        """Texts that share the least characters with their references."""
        texts, references = self._pairs()
        alike = [difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() if a != b else 1.0
                 for a, b in zip(texts, references, strict=True)]  # fmt: skip
        examples = self.gathered("examples").tolist()
        order = [i for i in np.argsort(alike, kind="stable")[:count].tolist() if alike[i] < 1]
        cases = [Case(examples[i], f"{100 * alike[i]:.0f} % alike", texts[i]) for i in order]
        return {"furthest from what was expected": cases} if cases else {}


def _mean(shares: Iterable[float]) -> float:
    return 100 * float(np.mean(list(shares)))


def _sacrebleu(words: str, lower_case: bool) -> tuple[Any, Any]:
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise ConfigError(
            f"figures bleu and chrf need the package sacrebleu; run {install_command('translation')}, or set "
            "problem.figures to [exact]"
        ) from None
    return BLEU(tokenize=words, lowercase=lower_case, effective_order=False), CHRF()
