"""What problems of pairs and their negatives have in common: labelled pairs as samples to train and judge on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.matching.gains import Gains, numbers_of
from suites.nlp.matching.groups import Grouped, WithNegatives, collate_groups
from suites.nlp.metrics.ranking import Judged
from suites.nlp.problems.classification import RowProblem
from suites.nlp.sequences import Encoded, Sequence_

_MOST = 64  # negatives of a sample at most


class MatchedProblem(RowProblem):
    """Base of SentenceVectors and Reranking.

    Args:
        pair: whether two texts stand in each input to predict on.
        gains: what labels say.
        negative: labels of rows whose second text is a hard negative; None for all rows that do not fit.
        hard: hard negatives of each sample.
    """

    fillers: ClassVar[Mapping[str, float] | None] = None
    spells: ClassVar[bool] = False

    def __init__(self, pair: bool, gains: Gains, negative: Sequence[str] | None, hard: int) -> None:
        super().__init__(pair)
        if not 0 <= hard <= _MOST:
            raise AttributeValueError(f"{type(self).__name__}: hard is {hard}; it must be from 0 to {_MOST}")
        self._gains, self._negative, self._hard = gains, negative, hard

    def classes(self, dataset: TextDataset[Labelled]) -> list[str]:
        """There are none."""
        return []

    def collate(self, present: Any) -> Callable[[list[Any]], dict[str, Any]]:
        """Lays all sequences of all samples end to end."""
        return collate_groups

    def parse(self, line: str) -> Labelled:
        """See `RowProblem.parse`; DataError for an empty text, which would get a score like any other."""
        return _not_empty(super().parse(line))

    def from_json(self, value: Any) -> Labelled:
        """See `RowProblem.from_json`; DataError for an empty text."""
        return _not_empty(super().from_json(value))

    def expect_judged(self, dataset: TextDataset[Labelled], judged: Judged) -> None:
        """Raise DataError for a set of which nothing can be said; see `VectorScores` for `judged`."""
        self._expect_texts(dataset.examples, dataset.name_of)
        gains = self._gains(dataset.examples, dataset.name_of)
        if judged == "scores":
            self._expect_different(dataset, gains)
        elif judged == "corpus":
            if not (gains > 0).any() or len({example.pair for example in dataset.examples}) < 2:
                raise DataError(
                    f"{dataset.path}: there is one second text, or none that fits its first one, so nothing is to be "
                    "found; judge on more rows"
                )
        else:
            groups = groups_of(dataset.examples)
            fitting, others = set(groups[gains > 0].tolist()), set(groups[gains == 0].tolist())
            if not fitting & others:
                raise DataError(
                    f"{dataset.path}: no query has rows that fit and rows that do not, so nothing is to be ranked; "
                    "rows of one query share their `group`, or their first text; `negatives` are for training alone"
                )

    def expect_scores(self, dataset: TextDataset[Labelled]) -> None:
        """Raise DataError for a set whose rows all have one score, from whose order nothing can be learned."""
        self._expect_different(dataset, self._gains(dataset.examples, dataset.name_of))

    def _expect_different(self, dataset: TextDataset[Labelled], gains: np.ndarray) -> None:
        if float(np.ptp(gains)) == 0:
            raise DataError(
                f"{dataset.path}: all rows have the score {float(gains[0]):g}, so none is higher than another; give "
                "rows of different scores, or see problem.scores"
            )

    def rows_of_pairs(
        self, examples: Sequence[Labelled], name_of: Callable[[int], str]
    ) -> tuple[list[int], dict[str, np.ndarray]]:
        """The rows that are pairs, which of them fit, and their arrays; DataError for an empty text."""
        self._expect_texts(examples, name_of)
        gains = self._gains(examples, name_of)
        rows = {
            "gains": gains,
            "targets": gains / np.float32(self._gains.highest),
            "groups": groups_of(examples),
            "example": np.arange(len(examples), dtype=np.int64),
        }
        return np.flatnonzero(gains > 0).tolist(), rows

    def _expect_texts(self, examples: Sequence[Labelled], name_of: Callable[[int], str]) -> None:
        for i, example in enumerate(examples):
            for side, text in (("first", example.text), ("second", example.pair)):
                if text is None:
                    raise DataError(
                        f"{name_of(i)}: has one text; {type(self).__name__} needs pairs: name the data set's column "
                        "`pair`"
                    )
                if not text.strip():
                    raise DataError(f"{name_of(i)}: its {side} text is empty; take the row out")

    def negatives_of(self, examples: Sequence[Labelled], rows: Mapping[str, np.ndarray]) -> dict[int, list[int]]:
        """By the number of a group, its rows that are hard negatives."""
        found: dict[int, list[int]] = {}
        for i, (group, gain) in enumerate(zip(rows["groups"].tolist(), rows["gains"].tolist(), strict=True)):
            if gain == 0 and (self._negative is None or examples[i].label in self._negative):
                found.setdefault(group, []).append(i)
        return found


def _not_empty(example: Labelled) -> Labelled:
    for side, text in (("first", example.text), ("second", example.pair)):
        if text is not None and not text.strip():
            raise DataError("the text is empty" if example.pair is None else f"the {side} text is empty")
    return example


def groups_of(examples: Sequence[Labelled]) -> np.ndarray:
    """int64 [N]: the number of each row's query, which its `group` names, or else its first text."""
    return numbers_of([example.group or example.text for example in examples])


class Texts(Grouped):
    """Rows of pairs, judged as they are; `training` makes samples with negatives of them.

    Args:
        sequences, leads, rows, name_of: see `Grouped`.
        which: rows that fit.
        negatives: of each of these the sequences that do not.
        texts: of the sequences, for a teacher.
    """

    def __init__(
        self,
        sequences: Sequence[Sequence_],
        leads: np.ndarray,
        rows: Mapping[str, np.ndarray],
        name_of: Callable[[int], str],
        which: Sequence[int],
        negatives: Sequence[Sequence[int]],
        texts: Sequence[str] = (),
    ) -> None:
        super().__init__(sequences, leads, rows, name_of)
        self._which, self._others, self._texts = which, negatives, texts

    def training(
        self, hard: int, teacher: tuple[str, Literal["vectors", "scores"]] | None = None, least: int = 0
    ) -> WithNegatives:
        """Samples of rows that fit and have `least` negatives, with `hard` of these each."""
        kept = [i for i, each in enumerate(self._others) if len(each) >= least]
        which, others = [self._which[i] for i in kept], [self._others[i] for i in kept]
        where = self.name_of(0).rpartition(":")[0]
        return WithNegatives(self, which, others, hard, where, self._texts, teacher)


def expect_samples(samples: Encoded) -> Texts:
    """The samples, which are those of a problem of this room."""
    assert isinstance(samples, Texts)
    return samples
