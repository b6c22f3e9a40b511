"""Figures of classes (accuracy, F1, Matthews' correlation, mean reciprocal rank) and of numbers (correlations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Case, Curves, Matrix, Plot


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
        """Takes in `scores` [B, K] with the batch's `targets` [B], and `example` [B] if it tells."""
        examples = examples_of(batch, len(batch["targets"]))
        self.gather(truth=batch["targets"], scores=outputs["scores"], examples=examples)

    def plots(self) -> Sequence[Plot]:
        """The confusions; samples whose scores are no numbers are left out."""
        truth, scores = self.gathered("truth"), self.gathered("scores")
        known, count = np.isfinite(scores).all(axis=1), len(self._names)
        counts = np.bincount(truth[known] * count + scores[known].argmax(axis=1), minlength=count * count)
        return [Matrix("Confusions, % of each true class", self._names, counts.reshape(count, count).tolist())]

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The examples whose wrong class has the highest scores."""
        truth, scores, examples = self.gathered("truth"), self.gathered("scores"), self.gathered("examples")
        found, sure = scores.argmax(axis=1), scores.max(axis=1)
        wrong = np.flatnonzero((found != truth) & np.isfinite(sure) & (examples >= 0))
        best = wrong[np.argsort(-sure[wrong], kind="stable")[:count]]
        why = "{} {:.2f}, but it is {}".format
        cases = [Case(int(examples[at]), why(self._names[found[at]], sure[at], self._names[truth[at]])) for at in best]
        return {"Most confident mistakes": cases}

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
        """Takes in `scores` [B] with the batch's `targets` [B], and `example` [B] if it tells."""
        truth, found = np.asarray(batch["targets"], np.float64), np.asarray(outputs["scores"], np.float64)
        self.gather(truth=truth, found=found, examples=examples_of(batch, len(truth)))

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The examples whose numbers are farthest off."""
        truth, found, examples = self.gathered("truth"), self.gathered("found"), self.gathered("examples")
        off = np.where(np.isfinite(found) & (examples >= 0), np.abs(found - truth), -1.0)
        best = [at for at in np.argsort(-off, kind="stable")[:count] if off[at] > 0]
        return {
            "Largest errors": [Case(int(examples[i]), f"said {found[i]:.3g}, but it is {truth[i]:.3g}") for i in best]
        }

    def plots(self) -> Sequence[Plot]:
        """What was predicted, over what is true, as means of 20 groups of equally many examples."""
        truth, found = self.gathered("truth"), self.gathered("found")
        groups = np.array_split(np.argsort(truth, kind="stable"), 20)
        true = [float(truth[rows].mean()) for rows in groups if len(rows)]
        means = [float(found[rows].mean()) for rows in groups if len(rows)]
        series: dict[str, tuple[list[float], list[float | None]]] = {
            "measured": (true, [y if np.isfinite(y) else None for y in means]),
            "right": (true, [*true]),
        }
        return [Curves("Predicted numbers", "true", "predicted, mean", series, marks=True)]

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


def examples_of(batch: Batch, count: int) -> np.ndarray:
    """int64 [B]: the numbers of a batch's examples, -1 where it does not tell."""
    return np.asarray(batch.get("example", np.full(count, -1)), np.int64)


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
