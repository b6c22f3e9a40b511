"""From what a recogniser says of each column to a text: CTC without blanks and repetitions (Graves et al. 2006).

Letters: N lines, T columns, K classes; class 0 is the blank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from suites.ocr.alphabet import Alphabet


class Read(NamedTuple):
    """A text, and the mean probability of its characters; 0 of an empty one."""

    text: str
    score: float


def greedy(classes: np.ndarray, scores: np.ndarray, alphabet: Alphabet) -> list[Read]:
    """The text of each line, of the most probable class of each column.

    Args:
        classes: integer [N, T].
        scores: float [N, T], their probabilities.
        alphabet: the characters.
    """
    found = []
    for row, probabilities in zip(classes, scores, strict=True):
        kept = row != 0
        kept[1:] &= row[1:] != row[:-1]
        score = float(probabilities[kept].mean()) if kept.any() else 0.0
        found.append(Read(alphabet.text(row[kept].tolist()), score))
    return found
