"""Reranking: how well a text answers a query, both read together (a cross-encoder, or any model of pairs).

Letters: B samples, h negatives of a sample, R rows of pairs in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from framework import ops
from framework.data import Dataset, RandomDataset
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.matching.gains import Gains
from suites.nlp.matching.losses import Listwise, RankLoss
from suites.nlp.metrics import RankingScores
from suites.nlp.models.base import TextModel
from suites.nlp.problems.classification import shown_texts
from suites.nlp.problems.matched import MatchedProblem, Texts, expect_samples
from suites.nlp.sequences import Encoded, Sequencer


@register("problem", exclusive=(("positive", "scores"),))
class Reranking(MatchedProblem):
    """A score for each pair of a query and a text, by which the texts of a query are ranked.

    Rows of one query share their `group`, or else their first text. The model gives one number a pair
    (`num_classes: 1`). Inputs to predict on are two texts.

    Args:
        loss: what is minimised; `Listwise` by default.
        positive: labels of rows whose texts fit; null where labels are numbers, from 0 (not at all) to `highest`.
        highest: the largest number that a label may be.
        hard: texts that do not fit beside each that does, drawn anew in each epoch; not for `Pointwise`.
        main: the figure that decides which weights are best.
        scores: what each label is worth, in place of `positive`.
    """

    def __init__(
        self,
        loss: RankLoss | None = None,
        positive: list[str] | None = None,
        highest: float = 1.0,
        hard: int = 4,
        main: str = "map",
        scores: dict[str, float] | None = None,
    ) -> None:
        super().__init__(True, Gains(positive, scores, highest, "Reranking"), None, hard)
        self._loss = loss or Listwise()
        if self._loss.grouped and not hard:
            raise AttributeValueError(f"Reranking: hard is 0; {type(self._loss).__name__} takes 1 or more")
        self.targets = ("others",) if self._loss.grouped else ("targets",)  # type: ignore[misc]  # each loss has its own
        self.main_metric = main

    def classes(self, dataset: TextDataset[Labelled]) -> list[str]:
        """One name: what the single output is."""
        return ["score"]

    def check_evaluation(self, dataset: TextDataset[Labelled]) -> None:
        """DataError where no query has rows that fit and rows that do not."""
        self.expect_judged(dataset, "groups")

    def encode(
        self,
        examples: Sequence[Labelled],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Each row as one sequence of both texts; with the truth also the pairs of its query with `negatives`."""
        if not truth:
            return super().encode(examples, sequencer, classes, name_of, truth=False)
        fitting, rows = self.rows_of_pairs(examples, name_of)
        pairs = [(example.text, example.pair or "") for example in examples]
        others = self.negatives_of(examples, rows)
        negatives = []
        for at in fitting:
            own = list(others.get(int(rows["groups"][at]), ()))
            for text in examples[at].negatives:
                own.append(len(pairs))
                pairs.append((examples[at].text, text))
            negatives.append([row for row in own if pairs[row][1] != pairs[at][1]])
        first, second = (sequencer.tokens(texts) for texts in zip(*pairs, strict=True))
        sequences = [sequencer.join(*sequencer.cut(a.ids, b.ids)) for a, b in zip(first, second, strict=True)]
        leads = np.arange(len(examples), dtype=np.int64)[:, None]
        return Texts(sequences, leads, rows, name_of, fitting, negatives)

    def drawn(self, samples: Encoded) -> Dataset | RandomDataset:
        """All rows as they are for `Pointwise`; else each that fits with others of its query."""
        if not self._loss.grouped:
            return samples
        return expect_samples(samples).training(self._hard, least=1)

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """The model; ConfigError for one that gives more than one number a pair."""
        outputs = getattr(model, "num_classes", 1)
        if outputs != 1:
            raise ConfigError(f"Reranking: the model gives {outputs} numbers a pair; set its num_classes to 1")
        return model

    def losses(self, outputs: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The loss of scores [R, 1], of B samples of 1 + h rows, or of single rows."""
        scores = self._scores(outputs)
        if self._loss.grouped:
            scores = ops.reshape(scores, shape=(-1, 1 + self._hard))
        return self._loss(scores, {name: inputs[name] for name in self.targets})

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """`scores` [R]."""
        return {"scores": self._scores(outputs)}

    def metric(self, dataset: TextDataset[Labelled], classes: Sequence[str]) -> Metric:
        """MAP, MRR, nDCG and recall among the rows of each query."""
        return RankingScores()

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Labelled], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The scores."""
        return [{"score": round(float(score), 5)} for score in outputs["scores"]]

    def describe(self, example: Labelled, result: dict[str, Any]) -> str:
        """Both texts and the score."""
        return f"{shown_texts(example)} -> {result['score']:.3f}"

    def _scores(self, outputs: Tensor) -> Tensor:
        return ops.squeeze(outputs, axis=1)
