"""SentenceVectors: a vector for each text, trained so that texts that belong together lie together.

Letters: T tokens, S texts, B samples, M texts of a sample, h of them negatives, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from framework import nn, ops
from framework.data import Dataset, RandomDataset
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.matching.gains import Gains
from suites.nlp.matching.losses import InBatchNegatives, MarginError, VectorLoss
from suites.nlp.metrics import VectorScores
from suites.nlp.models.base import TextModel
from suites.nlp.models.recurrent import pooled
from suites.nlp.models.vectors import vector_width
from suites.nlp.problems.matched import MatchedProblem, Texts, expect_samples
from suites.nlp.sequences import Encoded, Sequencer

_SHOWN = 4  # numbers of a vector in a line for people
_MAIN = {"groups": "map", "corpus": "ndcg@10", "scores": "spearman"}


@register("problem", exclusive=(("positive", "scores"),))
class SentenceVectors(MatchedProblem):
    """A vector for each text, learnt from pairs that fit, with or without texts that do not, or from pairs with scores.

    Inputs to predict on are single texts.

    Args:
        loss: what is minimised; `InBatchNegatives` by default.
        pooling: how the vectors of a text's tokens become one: their "mean", the largest of each number ("max"), the
            first token's ("cls") or the last one's ("last").
        normalize: whether vectors that are given have length 1.
        size: give only so many first numbers of each vector, of a model trained with `Matryoshka`; null for all.
        judged: how vectors are evaluated. "corpus": each first text looks for its second ones among those of all rows;
            "groups": the rows of each `group`, or of each first text, are ranked by their cosine; "scores": the
            correlation of cosines with the rows' scores.
        positive: labels of rows whose texts fit; null where labels are numbers, or where there are none and all fit.
        negative: labels of rows whose second text is a hard negative of the first; null for all that do not fit.
        scores: what each label is worth, in place of `positive`.
        highest: the largest score; a row with another one is an error.
        hard: hard negatives of each pair, drawn anew in each epoch from the rows of its `group` or first text and from
            the data set's `negatives`.
        main: the figure that decides which weights are best; null for `ndcg@10`, `map` or `spearman`.
    """

    def __init__(
        self,
        loss: VectorLoss | None = None,
        pooling: Literal["mean", "max", "cls", "last"] = "mean",
        normalize: bool = True,
        size: int | None = None,
        judged: Literal["corpus", "groups", "scores"] = "corpus",
        positive: list[str] | None = None,
        negative: list[str] | None = None,
        scores: dict[str, float] | None = None,
        highest: float = 1.0,
        hard: int = 0,
        main: str | None = None,
    ) -> None:
        super().__init__(False, Gains(positive, scores, highest, "SentenceVectors"), negative, hard)
        self._loss = loss or InBatchNegatives()
        self._pooling, self._normalize, self._size, self._judged = pooling, normalize, size, judged
        if size is not None and size < 1:
            raise AttributeValueError(f"SentenceVectors: size is {size}; it must be 1 or more, or null")
        inner = self._loss.inner
        self._scored = "targets" in inner.known
        if hard < inner.least_hard or (hard and not isinstance(inner, (InBatchNegatives, MarginError))):
            takes = f"{inner.least_hard} or more" if inner.least_hard else "0"
            raise AttributeValueError(f"SentenceVectors: hard is {hard}; {type(inner).__name__} takes {takes}")
        self.targets = tuple(name for name in inner.known if hard or name != "others")  # type: ignore[misc]
        self.poolings = (pooling,)
        self.main_metric = main or _MAIN[judged]

    def check_training(self, dataset: TextDataset[Labelled]) -> None:
        """DataError for a loss of scores where all rows have the same."""
        if self._scored:
            self.expect_scores(dataset)

    def check_evaluation(self, dataset: TextDataset[Labelled]) -> None:
        """DataError for a set of which `judged` says nothing."""
        self.expect_judged(dataset, self._judged)

    def encode(
        self,
        examples: Sequence[Labelled],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """The examples as `ids` and `segment_ids`, each text a sequence; with the truth both texts of each row."""
        if not truth:
            alone = [Labelled(example.text) for example in examples]
            return super().encode(alone, sequencer, classes, name_of, truth=False)
        fitting, rows = self.rows_of_pairs(examples, name_of)
        known: dict[str, int] = {}

        def number(text: str) -> int:
            return known.setdefault(text, len(known))

        leads = np.array([(number(e.text), number(e.pair or "")) for e in examples], np.int64)
        others = self.negatives_of(examples, rows)
        negatives = []
        for at in fitting:
            wrong = {int(leads[row, 1]) for row in others.get(int(rows["groups"][at]), ())}
            wrong |= {number(text) for text in examples[at].negatives}
            negatives.append(sorted(wrong - {int(x) for x in leads[at]}))
        rows |= {"anchors": leads[:, 0], "matches": leads[:, 1]}
        texts = list(known)
        sequences = [sequencer.join(*sequencer.cut(tokens.ids, None)) for tokens in sequencer.tokens(texts)]
        return Texts(sequences, leads, rows, name_of, fitting, negatives, texts)

    def drawn(self, samples: Encoded) -> Dataset | RandomDataset:
        """Rows with their scores as they are; else those that fit, with negatives drawn anew in each epoch."""
        if self._scored:
            return samples
        loss, kind = self._loss, self._loss.inner.taught
        teacher = (loss.inner.taught_by, kind) if kind else None
        return expect_samples(samples).training(self._hard, teacher, loss.inner.least_hard)

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """The model's vectors of tokens, pooled: [S, D].

        Raises ConfigError where `size` or a width of `Matryoshka` is beyond D.
        """
        width = vector_width(model)
        widest = max(self._loss.sizes, default=None)
        for what, wanted in (("size is", self._size), ("a width of Matryoshka is", widest)):
            if wanted is not None and width is not None and wanted > width:
                raise ConfigError(f"SentenceVectors: {what} {wanted} but the model's vectors have {width} numbers")

        def vectors(**inputs: Any) -> Tensor:
            return pooled(model.token_vectors(**inputs), inputs["offsets"], self._pooling)

        return vectors

    def losses(self, outputs: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The loss of the vectors [S, D], B samples of M texts after each other."""
        texts = 2 if self._scored else 2 + self._hard
        vectors = ops.reshape(ops.expand_dims(outputs, axis=1), shape=(-1, texts, 0))
        return self._loss(vectors, {name: inputs[name] for name in self.targets})

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """`vectors` [S, D], or their first `size` numbers."""
        found = outputs if self._size is None else outputs[:, : self._size]
        return {"vectors": nn.unit(found) if self._normalize else found}

    def metric(self, dataset: TextDataset[Labelled], classes: Sequence[str]) -> Metric:
        """What `judged` says, also of the widths of a `Matryoshka`."""
        return VectorScores(self._judged, () if self._size is not None else self._loss.sizes)

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """The texts' vectors, float32 [S, D]."""
        return np.asarray(outputs["vectors"], np.float32)

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Labelled], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The texts' vectors as lists."""
        return [{"vector": row} for row in outputs["vectors"].tolist()]

    def describe(self, example: Labelled, result: dict[str, Any]) -> str:
        """The text and the vector's first numbers."""
        shown = ", ".join(f"{number:.3f}" for number in result["vector"][:_SHOWN])
        return f"{example.text[:40]} -> [{shown}, ...], {len(result['vector'])} numbers"
