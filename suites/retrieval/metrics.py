"""How well vectors find pictures of their class, and how well they tell pairs apart.

Letters: N pictures, D numbers of a vector, P pairs, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suites.retrieval.datasets.pairs import Pairs

RANKS = (1, 2, 4, 8)
_CELLS = 1 << 22  # similarities that are in memory together: 16 MB
_EXACT = 20_000  # pictures up to which clusters are those of k-means; beyond, of mini-batches


class Neighbours(ArrayMetric):
    """Each picture against all others of the set: `recall@k`, `mAP@R`, `R_precision` and `nmi`.

    `recall@k` is the share that have one of their class among the k nearest by cosine; equally near ones count by their
    numbers. R is how many others a picture's class has: `R_precision` is the share of its class among the R nearest,
    `mAP@R` the mean over these of the precision where they are right (Musgrave et al. 2020, arXiv:2003.08505).
    `nmi` is the mutual information of the classes with k-means clusters, K of them, over the mean of both entropies.
    Pictures that are alone in their class are asked about nothing but stand among the others; `asked` counts the rest.

    It keeps the vectors, 4 N D bytes; similarities of 16 MB at a time.

    Args:
        class_names: K names.
    """

    def __init__(self, class_names: Sequence[str] = ()) -> None:
        super().__init__()
        self._class_names = class_names
        self._found: tuple[dict[str, float], np.ndarray] | None = None

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `vectors` [n, D] with the batch's `labels` and `numbers` [n]."""
        self._found = None
        self.gather(vectors=outputs["vectors"], labels=batch["labels"], numbers=batch["numbers"])

    def merge(self, state: Mapping[str, Any]) -> None:
        """See `Metric`."""
        self._found = None
        super().merge(state)

    def result(self) -> dict[str, float]:
        """The figures; a DataError where no class has two pictures."""
        return dict(self._ranked()[0])

    def worst(self, count: int) -> Mapping[str, Sequence[Case]]:
        """Pictures with others among their R nearest, the lowest R-precision first."""
        _, precision = self._ranked()
        numbers = np.sort(self.gathered("numbers"))
        order = np.argsort(precision, kind="stable")[:count]
        cases = [Case(int(numbers[i]), f"R-precision {precision[i]:.2f}") for i in order if precision[i] < 1]
        return {"least found": cases}

    def _ranked(self) -> tuple[dict[str, float], np.ndarray]:
        if self._found is None:
            order = np.argsort(self.gathered("numbers"), kind="stable")
            vectors, labels = self.gathered("vectors")[order], self.gathered("labels")[order]
            self._found = neighbour_figures(vectors, labels)
        return self._found


def neighbour_figures(vectors: np.ndarray, labels: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """The figures of `Neighbours`, and the R-precision of each picture, NaN of one that is alone in its class.

    Args:
        vectors: float32 [N, D] of length 1.
        labels: int64 [N].

    Raises:
        DataError: no class has two pictures.
    """
    vectors = np.ascontiguousarray(vectors, np.float32)
    _, kinds, counts = np.unique(labels, return_inverse=True, return_counts=True)
    wanted = counts[kinds] - 1
    asked = np.flatnonzero(wanted > 0)
    if not len(asked):
        raise DataError("Neighbours: each class of the evaluation set has one picture, so there is nothing to find")
    deepest = min(max(int(wanted.max()), max(RANKS)), len(labels) - 1)
    places = np.arange(1, deepest + 1)
    first, precision, average = np.zeros(len(asked)), np.full(len(labels), np.nan), np.zeros(len(asked))
    step = max(_CELLS // len(labels), 1)
    for start in range(0, len(asked), step):
        rows = asked[start : start + step]
        similar = vectors[rows] @ vectors.T
        similar[np.arange(len(rows)), rows] = -np.inf
        nearest = np.argsort(-similar, axis=1, kind="stable")[:, :deepest]
        right = kinds[nearest] == kinds[rows][:, None]
        first[start : start + step] = np.where(right.any(axis=1), right.argmax(axis=1) + 1, np.inf)
        within = right & (places <= wanted[rows][:, None])
        precision[rows] = within.sum(axis=1) / wanted[rows]
        average[start : start + step] = (within * (right.cumsum(axis=1) / places)).sum(axis=1) / wanted[rows]
    figures = {f"recall@{k}": float((first <= k).mean()) for k in RANKS}
    figures |= {"mAP@R": float(average.mean()), "R_precision": float(np.nanmean(precision))}
    return {**figures, "nmi": _nmi(vectors, kinds, len(counts)), "asked": float(len(asked))}, precision


def _nmi(vectors: np.ndarray, kinds: np.ndarray, count: int) -> float:
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.metrics import normalized_mutual_info_score

    way = KMeans if len(vectors) <= _EXACT else MiniBatchKMeans
    clusters = way(n_clusters=count, n_init=1, random_state=0).fit_predict(vectors)
    return float(normalized_mutual_info_score(kinds, clusters))


class Verification(ArrayMetric):
    """Pairs that show the same or not, by a threshold on their cosine (LFW, Huang et al. 2007).

    The threshold of a fold is that with the most right pairs of all others. `accuracy` is the mean over folds of the
    share that it decides rightly, `accuracy_spread` its standard deviation over folds. `auc` is the area under the
    curve of true against false accepts, `tar@far0.01` the share of the same accepted where 1 % of others are.

    Args:
        pairs: of the pictures by their numbers.
    """

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self._pairs = pairs

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `vectors` [n, D] with the batch's `numbers` [n]."""
        self.gather(vectors=outputs["vectors"], numbers=batch["numbers"])

    def result(self) -> dict[str, float]:
        """The figures; pairs with a picture that could not be read are left out, and `pairs` counts the others."""
        numbers, vectors = self.gathered("numbers"), self.gathered("vectors")
        place = np.full(int(max(self._pairs.first.max(), self._pairs.second.max(), numbers.max())) + 1, -1)
        place[numbers] = np.arange(len(numbers))
        first, second = place[self._pairs.first], place[self._pairs.second]
        there = (first >= 0) & (second >= 0)
        similar = np.einsum("pd,pd->p", vectors[first[there]], vectors[second[there]])
        return verification_figures(similar, self._pairs.same[there], self._pairs.fold[there])


def verification_figures(similar: np.ndarray, same: np.ndarray, fold: np.ndarray) -> dict[str, float]:
    """The figures of `Verification`, of cosines, truths and folds [P] each.

    Raises:
        DataError: a fold has all pairs, or there are no pairs of one kind.
    """
    from sklearn.metrics import roc_auc_score

    folds = np.unique(fold)
    if len(folds) < 2 or same.all() or not same.any():
        raise DataError("Verification: needs pairs of the same and of two, in two folds or more")
    shares = []
    for one in folds:
        threshold = best_threshold(similar[fold != one], same[fold != one])
        shares.append(np.mean((similar[fold == one] >= threshold) == same[fold == one]))
    others = np.sort(similar[~same])[::-1]
    least = others[min(int(len(others) * 0.01), len(others) - 1)]  # as many others lie above it as may be accepted
    return {
        "accuracy": float(np.mean(shares)),
        "accuracy_spread": float(np.std(shares)),
        "auc": float(roc_auc_score(same, similar)),
        "tar@far0.01": float(np.mean(similar[same] > least)),
        "pairs": float(len(similar)),
    }


def best_threshold(similar: np.ndarray, same: np.ndarray) -> float:
    """The cosine from which on pairs count as the same, with the most right pairs; between two pairs' cosines."""
    order = np.argsort(similar, kind="stable")
    values, truth = similar[order], same[order]
    right = np.concatenate([[truth.sum()], truth.sum() + np.cumsum(np.where(truth, -1, 1))])  # with the first i refused
    cuts = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    between = np.concatenate([[True], values[1:] > values[:-1], [True]])  # equal cosines stay together
    return float(cuts[np.where(between, right, -1).argmax()])
