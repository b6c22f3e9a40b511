"""How well scores rank the rows of a query, and vectors find what belongs to a text or how alike two are.

Letters: N rows, D numbers of a vector, C texts of a corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Case
from suites.nlp.metrics.classes import NumberScores, examples_of

RANKS = (1, 2, 5, 10)
_CELLS = 1 << 22  # cosines that are in memory together: 16 MB
Judged = Literal["groups", "corpus", "scores"]


def query_figures(scores: np.ndarray, gains: np.ndarray) -> dict[str, float]:
    """The figures of one query, of whose rows one or more fit.

    Args:
        scores: [n]; what is no number ranks last, and equal scores count against rows that fit.
        gains: [n], 0 for rows that do not fit.

    Returns:
        `map` (the average precision), `mrr` (1 / the place of the first that fits), `ndcg@10` (gains 2^g - 1, Burges et
        al. 2005), `recall@k` (the share of those that fit among the first k), `precision@1`.
    """
    order = np.lexsort((gains, -np.where(np.isfinite(scores), scores, -np.inf)))
    ranked = gains[order]
    places = np.flatnonzero(ranked > 0) + 1
    discount = 1.0 / np.log2(np.arange(2, 12))
    best = np.sort(gains)[::-1][:10]
    ideal = ((2.0**best - 1) * discount[: len(best)]).sum()
    found = ((2.0 ** ranked[:10] - 1) * discount[: len(ranked[:10])]).sum()
    return {
        "map": float(np.mean(np.arange(1, len(places) + 1) / places)),
        "mrr": float(1.0 / places[0]),
        "ndcg@10": float(found / ideal),
        **{f"recall@{k}": float(np.mean(places <= k)) for k in RANKS},
        "precision@1": float(places[0] == 1),
    }


def ranking_figures(scores: np.ndarray, gains: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """The mean of `query_figures` over queries, of N rows: scores, gains and the query of each, [N].

    Queries whose rows all fit, or all do not, say nothing about the order and are left out, as from TREC QA's clean
    set; `queries` counts the others. DataError where none is left.
    """
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    each = [
        query_figures(scores[rows], gains[rows])
        for rows in np.split(order, cuts)
        if (gains[rows] > 0).any() and not (gains[rows] > 0).all()
    ]
    if not each:
        raise DataError(
            "ranking: no query has rows that fit and rows that do not; rows of one query share their `group`, or "
            "their first text"
        )
    return _mean(each)


class RankingScores(ArrayMetric):
    """The figures of `ranking_figures`."""

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [B] with the batch's `gains` and `groups` [B], and `example` [B] if it tells.

        DataError for scores that are no numbers.
        """
        examples = examples_of(batch, len(batch["gains"]))
        scores = _numbers(np.asarray(outputs["scores"], np.float64), "scores")
        self.gather(scores=scores, gains=batch["gains"], groups=batch["groups"], examples=examples)

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The rows that fit and are ranked the lowest."""
        scores, gains, groups = (self.gathered(name) for name in ("scores", "gains", "groups"))
        examples, places = self.gathered("examples"), np.ones(len(scores), np.int64)
        for at in np.flatnonzero((gains > 0) & (examples >= 0)):
            others = (groups == groups[at]) & (gains == 0)
            places[at] += int((scores[others] >= scores[at]).sum())
        best = [at for at in np.argsort(-places, kind="stable")[:count] if places[at] > 1]
        return {"Ranked too low": [Case(int(examples[at]), f"at place {places[at]} of its query") for at in best]}

    def result(self) -> dict[str, float]:
        """The figures."""
        return ranking_figures(self.gathered("scores"), self.gathered("gains"), self.gathered("groups"))


class VectorScores(ArrayMetric):
    """The figures of vectors of pairs of texts.

    Args:
        judged: "groups" ranks the rows of each anchor by their cosine with it (`ranking_figures`); "corpus" ranks the
            second texts of the whole set for each anchor (`corpus_figures`); "scores" gives `spearman` and `pearson`
            between cosines and scores.
        sizes: first numbers of the vectors that are also judged alone, as `map@64`.
    """

    def __init__(self, judged: Judged, sizes: Sequence[int] = ()) -> None:
        super().__init__()
        self._judged, self._sizes = judged, sizes

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `vectors` [2 B, D] with the batch's `gains`, `groups`, `anchors` and `matches` [B].

        DataError for vectors that are no numbers.
        """
        vectors = _numbers(np.asarray(outputs["vectors"], np.float32), "vectors")
        pairs = vectors.reshape(-1, 2, vectors.shape[1])
        rows = {name: batch[name] for name in ("gains", "groups", "anchors", "matches")}
        self.gather(vectors=pairs, examples=examples_of(batch, len(pairs)), **rows)

    def result(self) -> dict[str, float]:
        """The figures."""
        vectors = self.gathered("vectors")
        figures = self._of(vectors)
        for size in self._sizes:
            if size < vectors.shape[2]:
                found = self._of(vectors[:, :, :size])
                figures |= {f"{name}/{size}": value for name, value in found.items() if name != "queries"}
        return figures

    def _of(self, vectors: np.ndarray) -> dict[str, float]:
        lengths = np.linalg.norm(vectors, axis=2, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, 1)
        gains = self.gathered("gains")
        if self._judged == "corpus":
            groups, matches = self.gathered("groups"), self.gathered("matches")
            return corpus_figures(vectors[:, 0], vectors[:, 1], groups, matches, gains)
        cosines = np.einsum("nd,nd->n", vectors[:, 0], vectors[:, 1], dtype=np.float64)
        if self._judged == "groups":
            return ranking_figures(cosines, gains, self.gathered("groups"))
        numbers_ = NumberScores()
        numbers_.update({"scores": cosines}, {"targets": gains})
        return {name: value for name, value in numbers_.result().items() if name in ("spearman", "pearson")}


def _numbers(values: np.ndarray, what: str) -> np.ndarray:
    if not np.isfinite(values).all():
        raise DataError(f"ranking: the model's {what} hold NaN or infinity; its weights are damaged")
    return values


def corpus_figures(
    anchors: np.ndarray, texts: np.ndarray, groups: np.ndarray, matches: np.ndarray, gains: np.ndarray
) -> dict[str, float]:
    """The mean of `query_figures` over anchors, each of which ranks the texts of all rows by their cosines.

    Args:
        anchors, texts: [N, D] of length 1, the first and second texts of the rows.
        groups: int64 [N], the anchor's number: rows of one number ask once.
        matches: int64 [N], the second text's number.
        gains: [N], 0 where the texts do not fit.

    Anchors that no text fits ask nothing; `queries` counts the others. DataError where none is left, or the corpus is
    of one text.
    """
    numbers, first, places = np.unique(matches, return_index=True, return_inverse=True)
    if len(numbers) < 2:
        raise DataError("ranking: the corpus is of one text, so nothing can be told apart; add rows")
    corpus = texts[first]
    asked, leads, at = np.unique(groups, return_index=True, return_inverse=True)
    each: list[dict[str, float]] = []
    step = max(_CELLS // len(corpus), 1)
    by_query = np.split(np.argsort(at, kind="stable"), np.cumsum(np.bincount(at))[:-1])
    for start in range(0, len(asked), step):
        scores = anchors[leads[start : start + step]] @ corpus.T
        for row, rows in zip(scores, by_query[start : start + step], strict=True):
            gain = np.zeros(len(corpus), np.float32)
            np.maximum.at(gain, places[rows], gains[rows])
            if (gain > 0).any():
                each.append(query_figures(row, gain))
    if not each:
        raise DataError("ranking: no row's texts fit each other, so there is nothing to be found; see problem.positive")
    return _mean(each)


def _mean(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names: Iterable[str] = each[0]
    return {**{name: float(np.mean([one[name] for one in each])) for name in names}, "queries": float(len(each))}
