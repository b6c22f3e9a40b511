"""What the label of a pair says: how well its texts fit. Letters: N rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.names import listing
from suites.nlp.datasets import Labelled

_SHOWN = 40


class Gains:
    """Labels to gains, from 0 (does not fit) to `highest`.

    Args:
        positive: labels of pairs that fit, as 1; all others are 0. None where labels are numbers; a row without a label
            fits.
        scores: the gain of each label, in place of `positive`.
        highest: the largest gain that a label may be.
        who: the problem, for messages.
    """

    def __init__(
        self, positive: Sequence[str] | None, scores: Mapping[str, float] | None, highest: float, who: str
    ) -> None:
        if positive is not None and scores is not None:
            raise AttributeValueError(f"{who}: positive and scores both say what labels mean; leave one out")
        if not 0 < highest < float("inf"):
            raise AttributeValueError(f"{who}: highest is {highest}; it must be above 0")
        wrong = [f"{name}: {score}" for name, score in (scores or {}).items() if not 0 <= score <= highest]
        if wrong:
            raise AttributeValueError(f"{who}: scores has {wrong[0]}; each must be from 0 to highest, {highest:g}")
        self._positive, self._scores, self.highest = positive, scores, highest

    def __call__(self, examples: Sequence[Labelled], name_of: Callable[[int], str]) -> np.ndarray:
        """float32 [N]; DataError with file and line for a label that says nothing, or a number out of range."""
        labels = {example.label for example in examples}
        unseen = [name for name in self._positive or () if name not in labels]
        if self._positive is not None and len(unseen) == len(self._positive):
            raise DataError(
                f"{name_of(0)}: no row of the file is labelled {listing(unseen)} (problem.positive); its labels are "
                f"{listing(sorted(labels)[:12])}"
            )
        if "" in labels and len(labels) > 1:  # where no row has one, there are none
            at = next(i for i, example in enumerate(examples) if not example.label)
            raise DataError(f"{name_of(at)}: its label is empty, and other rows have one; fill it, or take the row out")
        return np.array([self._of(example.label, name_of(i)) for i, example in enumerate(examples)], np.float32)

    def _of(self, label: str, where: str) -> float:
        if self._positive is not None:
            return float(label in self._positive)
        if self._scores is not None:
            if label not in self._scores:
                raise DataError(
                    f"{where}: label '{label[:_SHOWN]}' is not in problem.scores, which has {listing(self._scores)}"
                )
            return self._scores[label]
        if not label:
            return self.highest
        try:
            gain = float(label)
        except ValueError:
            raise DataError(
                f"{where}: label '{label[:_SHOWN]}' is no number; say in problem.positive which labels fit, or in "
                "problem.scores what each is worth"
            ) from None
        if not 0 <= gain <= self.highest:
            raise DataError(f"{where}: score {gain:g} is not from 0 to {self.highest:g}; set problem.highest")
        return gain


def numbers_of(names: Sequence[str]) -> np.ndarray:
    """int64 [N]: the same number for the same name, in the order in which they come."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)
