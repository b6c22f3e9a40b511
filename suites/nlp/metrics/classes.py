"""Figures of classes (accuracy, F1, Matthews' correlation, mean reciprocal rank) and of numbers (correlations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from suites.engine.gathering import ArrayMetric
from suites.engine.reporting import Matrix, Plot
from suites.engine.task import Batch


class ClassScores(ArrayMetric):
    """Figures: `accuracy`, `macro_f1`, `mcc`; of two classes `f1` of the second; `mrr` where rows have groups.

    Each class has an F1 of its own, `f1/<name>`. Scores that are no numbers count as wrong.

    Args:
        class_names: K names.
        groups: what each sample is ranked within, int64 [N], in the order of the evaluation set; None for none.
            Parts that are merged must then follow each other in that order.
    """

    def __init__(self, class_names: Sequence[str], groups: np.ndarray | None = None) -> None:
        super().__init__()
        self._names = class_names
        self._groups = groups

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [B, K] with the batch's `targets` [B]."""
        self.gather(truth=batch["targets"], scores=outputs["scores"])

    def plots(self) -> Sequence[Plot]:
        """The confusions; samples whose scores are no numbers are left out."""
        truth, scores = self.gathered("truth"), self.gathered("scores")
        known, count = np.isfinite(scores).all(axis=1), len(self._names)
        counts = np.bincount(truth[known] * count + scores[known].argmax(axis=1), minlength=count * count)
        return [Matrix("Confusions, % of each true class", self._names, counts.reshape(count, count).tolist())]

    def result(self) -> dict[str, float]:
        """The figures, as shares of 1."""
        from sklearn.metrics import f1_score, matthews_corrcoef

        truth, scores = self.gathered("truth"), self.gathered("scores")
        found = scores.argmax(axis=1)
        found[~np.isfinite(scores).all(axis=1)] = -1
        classes = list(range(len(self._names)))
        each = f1_score(truth, found, labels=classes, average=None, zero_division=0.0)
        figures = {
            "accuracy": float((truth == found).mean()),
            "macro_f1": float(each.mean()),
            "mcc": float(matthews_corrcoef(truth, found)),
        }
        if len(classes) == 2:
            figures["f1"] = float(each[1])
        if self._groups is not None:
            figures["mrr"] = mean_reciprocal_rank(scores[:, 1], truth == 1, self._groups[: len(truth)])
        return {**figures, **{f"f1/{n}": float(f) for n, f in zip(self._names, each, strict=True)}}


class NumberScores(ArrayMetric):
    """Figures: `pearson`, `spearman`, their mean `correlation`, and `mean_squared_error`.

    A correlation is 0 where all predictions are equal.
    """

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [B] with the batch's `targets` [B]."""
        self.gather(truth=np.asarray(batch["targets"], np.float64), found=np.asarray(outputs["scores"], np.float64))

    def result(self) -> dict[str, float]:
        """The figures."""
        from scipy.stats import pearsonr, spearmanr

        truth, found = self.gathered("truth"), self.gathered("found")
        varied = len(truth) > 1 and np.ptp(truth) > 0 and np.ptp(found) > 0 and bool(np.isfinite(found).all())
        pearson = float(pearsonr(truth, found).statistic) if varied else 0.0
        spearman = float(spearmanr(truth, found).statistic) if varied else 0.0
        return {
            "pearson": pearson,
            "spearman": spearman,
            "correlation": (pearson + spearman) / 2,
            "mean_squared_error": float(np.mean((truth - found) ** 2)),
        }


def mean_reciprocal_rank(scores: np.ndarray, right: np.ndarray, groups: np.ndarray) -> float:
    """Mean over groups of 1 / the place of the first right row, by falling score; equal scores count against it.

    scores: [N]; right: bool [N]; groups: int64 [N]. Groups without a right row are left out, as in NLPCC's DBQA.
    """
    shares = []
    for group in np.unique(groups[right]):
        own = groups == group
        best = scores[own & right].max()
        shares.append(1.0 / (1 + int((scores[own & ~right] >= best).sum())))
    return float(np.mean(shares)) if shares else 0.0
