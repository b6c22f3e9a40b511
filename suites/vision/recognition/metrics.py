"""Figures of recognition: Accuracy where each sample has one class, MultiLabel where it may have any number.

Both tell of each class in a report, as a table in Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.reporting import Case, Matrix, Plot

_WHOLE = 20  # classes up to which a report has the whole table of confusions
_WORST = 20  # confusions that it has of more classes
MISTAKES = "Most confident mistakes"


@dataclass(frozen=True)
class Mistake:
    """A sample that was taken for something else.

    Attributes:
        true: names of its classes.
        said: (name, score) of those that were predicted, best first.
    """

    true: tuple[str, ...]
    said: tuple[tuple[str, float], ...]


class Accuracy(ArrayMetric):
    """Figures: `top1`, `top5` (where there are more than 5 classes), `mean_class`, the mean over classes of top-1, and
    `macro_f1`, the mean over classes of F1.

    A class without samples does not count in the means. Equal scores count against the prediction; scores that are
    no numbers are wrong.

    Args:
        class_names: K names.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(class_names)

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [N, K] with the batch's `labels` [N]."""
        labels, scores = np.asarray(batch["labels"]), outputs["scores"]
        places = ranks(scores, labels)
        others = np.array(scores, np.float64)
        np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
        found = np.where(places < 1, labels, np.nan_to_num(others, nan=-np.inf).argmax(axis=1))
        sure = np.take_along_axis(np.asarray(scores, np.float64), found[:, None], axis=1)[:, 0]
        sure[~np.isfinite(scores).all(axis=1)] = np.nan  # nothing was predicted
        self.gather(labels=labels, ranks=places, found=found, sure=sure, numbers=numbers_of(batch, len(labels)))

    def result(self) -> dict[str, float]:
        """The figures, as shares of 1."""
        labels, places = self.gathered("labels"), self.gathered("ranks")
        figures = {"top1": float((places < 1).mean())}
        if len(self._names) > 5:
            figures["top5"] = float((places < 5).mean())
        figures["mean_class"] = float(np.mean([(places[labels == k] < 1).mean() for k in np.unique(labels)]))
        counts = self.confusions()
        seen = counts.sum(axis=1) > 0
        figures["macro_f1"] = float(_precision_recall_f1(counts)[2][seen].mean())
        return figures

    def confusions(self) -> np.ndarray:
        """int64 [K, K]: how many samples of the class of a row were taken for that of a column."""
        count = len(self._names)
        pairs = self.gathered("labels") * count + self.gathered("found")
        return np.bincount(pairs, minlength=count * count).reshape(count, count)

    def plots(self) -> Sequence[Plot]:
        """The confusions."""
        return [Matrix("Confusions, % of each true class", self._names, self.confusions().tolist())]

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The wrong samples whose wrong class has the highest scores."""
        places, sure, numbers = self.gathered("ranks"), self.gathered("sure"), self.gathered("numbers")
        wrong = np.flatnonzero((places >= 1) & np.isfinite(sure) & (numbers >= 0))
        best = wrong[np.argsort(-sure[wrong], kind="stable")[:count]]
        labels, found = self.gathered("labels"), self.gathered("found")
        return {MISTAKES: [self._case(numbers[at], labels[at], found[at], sure[at]) for at in best]}

    def _case(self, number: int, label: int, found: int, score: float) -> Case:
        true, said = self._names[label], self._names[found]
        return Case(int(number), f"{said} {score:.2f}, but it is {true}", Mistake((true,), ((said, float(score)),)))

    def report(self) -> str:
        """Precision, recall and F1 of each class, and which classes were taken for which."""
        counts = self.confusions()
        table = _class_table(self._names, counts.sum(axis=1), *_precision_recall_f1(counts))
        return "\n\n".join([table, *_confusion_text(self._names, counts)]) + "\n"


class MultiLabel(ArrayMetric):
    """Figures of samples with any number of classes: `mAP`, the mean over classes of average precision (the area under
    precision over recall, of samples by descending score), and at a score of `threshold` `micro_f1`, of all answers
    together, `macro_f1`, the mean over classes, and `exact`, the share of samples with every answer right.

    A class without samples does not count in the means.

    Args:
        class_names: K names.
        threshold: lowest score that says yes.
    """

    def __init__(self, class_names: Sequence[str], threshold: float = 0.5) -> None:
        super().__init__()
        self._names, self._threshold = tuple(class_names), threshold

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [N, K] with the batch's `targets` [N, K]."""
        truth = np.asarray(batch["targets"]) > 0.5
        numbers = numbers_of(batch, len(truth))
        self.gather(truth=truth, scores=np.nan_to_num(outputs["scores"], nan=0.0), numbers=numbers)

    def result(self) -> dict[str, float]:
        """The figures, as shares of 1."""
        truth, scores = self.gathered("truth"), self.gathered("scores")
        found, seen = scores >= self._threshold, truth.any(axis=0)
        both, said, there = (truth & found).sum(), found.sum(), truth.sum()
        each = self._by_class()[2]
        return {
            "mAP": float(
                np.mean([average_precision(truth[:, k], scores[:, k]) for k in np.flatnonzero(seen)] or [0.0])
            ),
            "micro_f1": float(2 * both / max(said + there, 1)),
            "macro_f1": float(each[seen].mean()) if seen.any() else 0.0,
            "exact": float((truth == found).all(axis=1).mean()),
        }

    def _by_class(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        truth, found = self.gathered("truth"), self.gathered("scores") >= self._threshold
        return _f1_of((truth & found).sum(axis=0), found.sum(axis=0), truth.sum(axis=0))

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The samples with the surest wrong answer: a class with a high score that they do not have, or the reverse."""
        truth, scores, numbers = self.gathered("truth"), self.gathered("scores"), self.gathered("numbers")
        wrong = np.where(truth != (scores >= self._threshold), np.abs(scores - self._threshold), -1.0)
        surest = wrong.max(axis=1)
        rows = [at for at in np.argsort(-surest, kind="stable") if surest[at] >= 0 and numbers[at] >= 0][:count]
        return {MISTAKES: [self._case(numbers[at], truth[at], scores[at], int(wrong[at].argmax())) for at in rows]}

    def _case(self, number: int, truth: np.ndarray, scores: np.ndarray, worst: int) -> Case:
        true = tuple(self._names[k] for k in np.flatnonzero(truth))
        order = [k for k in np.argsort(-scores, kind="stable").tolist() if scores[k] >= self._threshold]
        said = tuple((self._names[k], float(scores[k])) for k in order)
        what = "which it has" if truth[worst] else "which it has not"
        why = f"{self._names[worst]} {scores[worst]:.2f}, {what}; it is {', '.join(true) or 'of no class'}"
        return Case(int(number), why, Mistake(true, said))

    def report(self) -> str:
        """Precision, recall and F1 of each class at the threshold."""
        return _class_table(self._names, self.gathered("truth").sum(axis=0), *self._by_class()) + "\n"


def numbers_of(batch: Batch, count: int) -> np.ndarray:
    """int64 [N]: the numbers of a batch's samples in their set, -1 where it does not tell."""
    return np.asarray(batch.get("numbers", np.full(count, -1)), np.int64)


def ranks(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """int64 [N]: how many other classes score as high as the right one or higher; scores: [N, K], labels: [N]."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    return (~(scores < own)).sum(axis=1) - 1  # the right one itself is not lower than itself


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Mean of the precision at each true sample, samples [N] by descending score; equal scores come together."""
    order = np.argsort(-scores, kind="stable")
    right, value = truth[order], scores[order]
    last = np.append(value[1:] != value[:-1], True)  # where a group of equal scores ends
    true, said = np.cumsum(right)[last], np.flatnonzero(last) + 1
    gained = np.diff(true, prepend=0)
    return float((gained * true / said).sum() / max(int(truth.sum()), 1))


def _precision_recall_f1(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _f1_of(counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1))


def _f1_of(both: np.ndarray, said: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1 of each class; 0 where nothing was said or nothing is there."""
    return both / np.maximum(said, 1), both / np.maximum(there, 1), 2 * both / np.maximum(said + there, 1)


def _class_table(names: Sequence[str], there: np.ndarray, *figures: np.ndarray) -> str:
    rows = ["| class | samples | precision | recall | F1 |", "|---|---|---|---|---|"]
    for k, name in enumerate(names):
        rows.append(f"| {name} | {there[k]} | " + " | ".join(f"{figure[k]:.3f}" for figure in figures) + " |")
    return "\n".join(rows)


def _confusion_text(names: Sequence[str], counts: np.ndarray) -> list[str]:
    if len(names) <= _WHOLE:
        rows = [f"| true \\ said | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        rows += [f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, counts, strict=True)]
        return ["\n".join(rows)]
    wrong = counts - np.diag(counts.diagonal())
    worst = np.argsort(-wrong, axis=None, kind="stable")[:_WORST]
    pairs = [divmod(int(place), len(names)) for place in worst if wrong.flat[place]]
    rows = ["| true | said | samples |", "|---|---|---|"]
    rows += [f"| {names[i]} | {names[j]} | {wrong[i, j]} |" for i, j in pairs]
    return ["\n".join(rows)] if pairs else []
