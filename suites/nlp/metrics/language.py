"""Figures of language models: how surprised they are by a text.

Letters: T tokens, V words, B windows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.nlp.losses import IGNORED


class LanguageScores(ArrayMetric):
    """Figures: `loss_nats` a token, `perplexity` (e to it), `bits_per_character`, `bits_per_byte`, `token_accuracy`.

    Bits are over the characters and bytes of the texts themselves, so that they compare models of different tokens.
    """

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `scores` [T, V], log-probabilities; a batch has `targets` [T], `characters` and `bytes` [B]."""
        scores, truth = outputs["scores"], np.asarray(batch["targets"])
        chosen = np.take_along_axis(scores, truth[:, None], axis=1)[:, 0]
        self.gather(
            surprise=np.array([-chosen.sum(dtype=np.float64)]),
            tokens=np.array([len(truth)]),
            right=np.array([(scores.argmax(axis=1) == truth).sum()]),
            characters=np.array([np.sum(batch["characters"])]),
            bytes=np.array([np.sum(batch["bytes"])]),
        )

    def result(self) -> dict[str, float]:
        """The figures."""
        total = {name: float(self.gathered(name).sum()) for name in self._parts}
        loss, bits = total["surprise"] / total["tokens"], total["surprise"] / math.log(2)
        return {
            "loss_nats": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_character": bits / max(total["characters"], 1.0),
            "bits_per_byte": bits / max(total["bytes"], 1.0),
            "token_accuracy": total["right"] / total["tokens"],
        }


class BothWays(ArrayMetric):
    """Figures of a language model in both directions.

    `loss_nats` a token, the mean of both ways; `perplexity`, e to it; `perplexity_next` and `perplexity_previous`.
    """

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `next` and `previous` [T, V], log-probabilities; a batch has `targets` and `before` [T]."""
        for name, truth in (("next", np.asarray(batch["targets"])), ("previous", np.asarray(batch["before"]))):
            there = truth != IGNORED
            chosen = np.take_along_axis(outputs[name][there], truth[there][:, None], axis=1)
            self.gather(**{name: np.array([-chosen.sum(dtype=np.float64)]), f"{name}_count": np.array([there.sum()])})

    def result(self) -> dict[str, float]:
        """The figures."""
        losses = {
            name: float(self.gathered(name).sum()) / max(float(self.gathered(f"{name}_count").sum()), 1.0)
            for name in ("next", "previous")
        }
        mean = sum(losses.values()) / 2
        named = {f"perplexity_{name}": math.exp(min(loss, 700.0)) for name, loss in losses.items()}
        return {"loss_nats": mean, "perplexity": math.exp(min(mean, 700.0)), **named}
