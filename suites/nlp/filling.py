"""Ragged batches of few shapes: sequences that count for nothing stand behind a batch's own.

Letters: B sequences, T tokens, M hidden tokens, B' T' M' the same with what was filled up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from suites.engine.contract.fitting import Arrays, size_above
from suites.nlp.tokenizers.characters import SPELLING

if TYPE_CHECKING:
    from suites.nlp.problems.base import Problem

COUNTED = "counted"  # float32 [B']: 1 for a sequence of the batch, 0 for one that fills it up
_STEPS = 8  # sizes between two powers of two: at most an eighth of the tokens is filler
_LEAST = 64  # tokens


class Filling:
    """Fills a batch up with whole sequences, so that every operator on ragged rows gives the batch's own what it gave.

    The number of tokens, of each side where there are two, becomes one of eight between two powers of two. The filler
    is shared out over about a sixth of the batch's number of sequences, so that none of them is longer than the batch's
    longest may be.

    Args:
        problem: says what a filler row of each array is (`fillers`) and which arrays have a row for each token.
        few: whether the number of sequences becomes one of few, too; for batches that have no fixed number.
    """

    def __init__(self, problem: Problem, *, few: bool) -> None:
        assert problem.fillers is not None
        self._problem, self._fillers, self._few = problem, {**problem.fillers, SPELLING: 0}, few
        self._sides = problem.sides()

    def fill(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """The arrays with filler behind them; with targets also `counted`, float32 [B'].

        Arrays that the problem has no filler for, as those of a step of writing, stay as they are.
        """
        if not self._applies(arrays):
            return dict(arrays)
        sequences = self._sequences(arrays)
        filled = sequences + -(-sequences // 6) + 1
        filled = size_above(filled, steps=2) if self._few else filled
        more = filled - sequences
        rows = {"sequence": filled}
        if "masked" in arrays:
            rows["hidden"] = size_above(len(arrays["masked"]) + 1, steps=_STEPS)
        found: dict[str, np.ndarray] = {}
        totals: dict[str, int] = {}
        for name, own in self._sides.items():
            offsets = np.asarray(arrays[name])
            tokens = int(offsets[-1])
            total = max(size_above(tokens + more, steps=_STEPS), _LEAST)
            ends = tokens + np.linspace(0, total - tokens, more + 1)[1:].astype(offsets.dtype)
            found[name] = np.concatenate([offsets, ends])
            totals |= dict.fromkeys(own, total)
        for name, array in arrays.items():
            if name not in found:
                value = max(totals.values()) - 1 if name == "masked" else self._fillers[name]
                wide = totals[name] if name in totals else rows[self._problem.rows_of(name)]
                found[name] = _longer(array, wide, value)
        if any(name in arrays for name in self._problem.targets):
            found[COUNTED] = (np.arange(filled) < sequences).astype(np.float32)
        return found

    def cut(self, outputs: Arrays, arrays: Arrays) -> dict[str, np.ndarray]:
        """Rows of tokens, sequences and hidden tokens that are the batch's own."""
        if not self._applies(arrays):
            return dict(outputs)
        tokens = int(arrays[next(iter(self._sides))][-1])
        rows = {"token": tokens, "sequence": self._sequences(arrays), "hidden": len(arrays.get("masked", ()))}
        return {name: array[: rows[self._problem.rows_of(name)]] for name, array in outputs.items()}

    def _sequences(self, arrays: Arrays) -> int:
        return len(arrays[next(iter(self._sides))]) - 1

    def _applies(self, arrays: Arrays) -> bool:
        """Whether all is known; of what does not go together the Program says what is wrong."""
        if any(name not in self._fillers and name not in self._sides and name != "masked" for name in arrays):
            return False
        return all(
            len(arrays[name]) > 1 and all(len(arrays[key]) == int(arrays[name][-1]) for key in own if key in arrays)
            for name, own in self._sides.items()
        )


def _longer(array: np.ndarray, rows: int, value: float) -> np.ndarray:
    array = np.asarray(array)
    return np.concatenate([array, np.full((rows - len(array), *array.shape[1:]), value, array.dtype)])
