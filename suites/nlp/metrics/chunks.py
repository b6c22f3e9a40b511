"""Chunks of tags: precision, recall and F1 as seqeval and conlleval count them (Tjong Kim Sang and Buchholz 2000).

A chunk counts as found if its type, first and last word are right. Illegal tags are read leniently: an I- after O or
after another type starts a chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.engine.reporting import Case

Chunk = tuple[str, int, int]  # type, first word, last word


def chunks_of(tags: Sequence[str]) -> list[Chunk]:
    """The chunks of a sentence's tags in BIO (IOB1, IOB2) or BMES/BIOES; an M- counts as an I-."""
    found: list[Chunk] = []
    before, kind, first = "O", "", 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, new_kind = tag.partition("-")
        prefix = "I" if prefix == "M" else prefix
        if _ends(before, prefix, kind, new_kind):
            found.append((kind, first, place - 1))
        if _starts(before, prefix, kind, new_kind):
            first = place
        before, kind = prefix, new_kind
    return found


def _ends(before: str, prefix: str, kind: str, new_kind: str) -> bool:
    """Whether a chunk ends between two neighbouring words."""
    if before == "O":
        return False
    return before in "ES" or prefix in "BSO" or kind != new_kind


def _starts(before: str, prefix: str, kind: str, new_kind: str) -> bool:
    """Whether a chunk starts with the second of two neighbouring words."""
    if prefix == "O":
        return False
    return prefix in "BS" or before in "ESO" or kind != new_kind


def chunk_figures(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """`precision`, `recall` and `f1` over all chunks, `accuracy` of single tags, and `f1/<type>` of each type.

    truth, found: the tags of each sentence.
    """
    right, expected, predicted = Counter[str](), Counter[str](), Counter[str]()
    for true_tags, found_tags in zip(truth, found, strict=True):
        true_chunks, found_chunks = set(chunks_of(true_tags)), set(chunks_of(found_tags))
        expected.update(kind for kind, _, _ in true_chunks)
        predicted.update(kind for kind, _, _ in found_chunks)
        right.update(kind for kind, _, _ in true_chunks & found_chunks)
    same = sum(a == b for x, y in zip(truth, found, strict=True) for a, b in zip(x, y, strict=True))
    precision, recall, f1 = _scores(right.total(), predicted.total(), expected.total())
    figures = {
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "accuracy": same / max(sum(map(len, truth)), 1),
    }
    types = sorted(expected.keys() | predicted.keys())
    return {**figures, **{f"f1/{k}": _scores(right[k], predicted[k], expected[k])[2] for k in types}}


def _scores(right: int, predicted: int, expected: int) -> tuple[float, float, float]:
    precision = right / predicted if predicted else 0.0
    recall = right / expected if expected else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0


class ChunkScores(Metric):
    """The figures of `chunk_figures` over an evaluation set whose sentences may be cut into several sequences.

    Args:
        truth: the tags of each sentence.
        classes: names of the tags by number.
    """

    def __init__(self, truth: Sequence[Sequence[str]], classes: Sequence[str]) -> None:
        self._truth = truth
        self._classes = classes
        self._found: dict[int, dict[int, str]] = {}  # by sentence and word

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `tags` int64 [T]; the batch's `words` int64 [T] says which word a token starts, -1 for none."""
        for row, example in enumerate(np.asarray(batch["example"]).tolist()):
            own = slice(batch["offsets"][row], batch["offsets"][row + 1])
            words, tags = np.asarray(batch["words"][own]), outputs["tags"][own]
            starts = words >= 0
            found = (self._classes[k] for k in tags[starts].tolist())
            self._found.setdefault(example, {}).update(zip(words[starts].tolist(), found, strict=True))

    def state(self) -> dict[str, Any]:
        """The tags found: of each sentence its number and (word, tag) pairs."""
        return {"found": [[i, [list(pair) for pair in tags.items()]] for i, tags in self._found.items()]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Take in the tags of other sentences, or of other words of the same ones."""
        for example, tags in state["found"]:
            self._found.setdefault(example, {}).update(tags)

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The sentences with the most wrong tags; the detail of each is the tag found of each word."""
        wrong = {i: sum(self._truth[i][word] != tag for word, tag in tags.items()) for i, tags in self._found.items()}
        order = sorted((i for i in wrong if wrong[i]), key=lambda i: (-wrong[i], i))[:count]
        why = "{} of {} tags are wrong".format
        return {"Most wrong tags": [Case(i, why(wrong[i], len(self._truth[i])), dict(self._found[i])) for i in order]}

    def result(self) -> dict[str, float]:
        """The figures over the sentences seen."""
        seen = sorted(self._found)
        found = [[tag for _, tag in sorted(self._found[i].items())] for i in seen]
        return chunk_figures([self._truth[i] for i in seen], found)
