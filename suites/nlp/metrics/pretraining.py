"""Figures of pretraining: how well hidden words are guessed, and whether two texts fit.

Letters: M hidden tokens, V words, B sequences.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric


class PretrainingScores(ArrayMetric):
    """Figures: `word_accuracy`, `word_loss`, `perplexity` (e to the loss); `pair_accuracy` where there are pairs."""

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `words` [M, V], log-probabilities, and `pairs` [B, 2]; a batch has `targets` [M], `related` [B]."""
        truth, related = np.asarray(batch["targets"]), np.asarray(batch["related"])
        known = related >= 0
        pairs = outputs["pairs"].argmax(axis=1) if "pairs" in outputs else np.zeros(len(known), np.int64)
        self.gather(
            losses=-outputs["words"][np.arange(len(truth)), truth].astype(np.float64),
            right=outputs["words"].argmax(axis=1) == truth,
            pairs=pairs[known] == related[known],
        )

    def result(self) -> dict[str, float]:
        """The figures."""
        loss = float(self.gathered("losses").mean())
        figures = {
            "word_accuracy": float(self.gathered("right").mean()),
            "word_loss": loss,
            "perplexity": float(np.exp(min(loss, 700.0))),
        }
        pairs = self.gathered("pairs")
        return figures | ({"pair_accuracy": float(pairs.mean())} if len(pairs) else {})
