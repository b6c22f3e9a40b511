"""Figures of videos with any number of classes: those of YouTube-8M (Abu-El-Haija et al. 2016, arXiv:1609.08675).

Letters: N videos, K classes, P predictions kept of a video.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suites.vision.recognition.metrics import MultiLabel, average_precision

_KEPT = 20  # predictions of a video that count for GAP


class TaggedVideos(MultiLabel):
    """`GAP`, `Hit@1` and `PERR` beside the figures of `MultiLabel`.

    GAP pools the 20 best predictions of all videos and is their average precision, over all classes that the videos
    have. Hit@1 is the share of videos whose best prediction is right. PERR is the share of right ones among as many
    best predictions as a video has classes, averaged over videos that have some.

    Args:
        class_names: K names.
        kept: P of GAP.
    """

    def __init__(self, class_names: Sequence[str], kept: int = _KEPT) -> None:
        super().__init__(class_names)
        self._kept = kept

    def result(self) -> dict[str, float]:
        """The figures, as shares of 1."""
        truth, scores = self.gathered("truth"), self.gathered("scores")
        return {
            "GAP": global_average_precision(truth, scores, self._kept),
            "Hit@1": float(truth[np.arange(len(truth)), scores.argmax(axis=1)].mean()),
            "PERR": equal_recall_precision(truth, scores),
            **super().result(),
        }


def global_average_precision(truth: np.ndarray, scores: np.ndarray, kept: int = _KEPT) -> float:
    """Average precision of the `kept` best predictions of all videos together; truth and scores: [N, K].

    Classes that are not among them count as missed.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :kept]
    right, value = (np.take_along_axis(array, best, axis=1).ravel() for array in (truth, scores))
    return average_precision(right, value) * right.sum() / max(int(truth.sum()), 1)


def equal_recall_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Precision at as many predictions as a video has classes, the mean over videos that have some."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(truth, order, axis=1)
    counts = truth.sum(axis=1)
    inside = np.arange(truth.shape[1]) < counts[:, None]
    shares = (ranked & inside).sum(axis=1)[counts > 0] / counts[counts > 0]
    return float(shares.mean()) if len(shares) else 0.0
