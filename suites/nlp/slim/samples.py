"""What a student trains on: its own encoding of each text, and the teacher's answer or the teacher's encoding.

Letters: N samples, K classes, B sequences of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.data import RaggedCollate
from suites.nlp.sequences import Encoded

PREFIX = "teacher_"  # of the batch's arrays in the teacher's encoding


class StudentSamples:
    """Samples of a student.

    Args:
        own: the student's encoding.
        targets: int64 [N], the labels' numbers.
        scores: the teacher's probabilities, float32 [N, K]; None where it runs in the step.
        theirs: the teacher's encoding, where it runs in the step.
    """

    def __init__(
        self, own: Encoded, targets: np.ndarray, scores: np.ndarray | None = None, theirs: Encoded | None = None
    ) -> None:
        self._own, self._targets, self._scores, self._theirs = own, targets, scores, theirs

    def __len__(self) -> int:
        return len(self._own)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample, int64 [N]: those of whom has more of them."""
        return self._own.lengths if self._theirs is None else np.maximum(self._own.lengths, self._theirs.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The sample's arrays and numbers, and its name."""
        sample = {**self._own[index], "targets": self._targets[index]}
        if self._scores is not None:
            sample["teacher"] = self._scores[index]
        if self._theirs is not None:
            theirs = self._theirs[index]
            sample |= {f"{PREFIX}{key}": theirs[key] for key in ("ids", "segment_ids")}
        return sample

    def name_of(self, index: int) -> str:
        """What messages call a sample."""
        return self._own.name_of(index)


class TwoEncodings:
    """Collates samples that carry two encodings, each ragged with offsets of its own ("offsets", "teacher_offsets").

    Args:
        keys: token keys of the student's encoding.
        two: whether there is the teacher's encoding.
    """

    def __init__(self, keys: Sequence[str], two: bool) -> None:
        self._own = RaggedCollate(keys)
        self._theirs = RaggedCollate(("ids", "segment_ids")) if two else None

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The batch."""
        if self._theirs is None:
            return self._own(samples)
        own = [{k: v for k, v in s.items() if k not in (f"{PREFIX}ids", f"{PREFIX}segment_ids")} for s in samples]
        theirs = [{key: s[f"{PREFIX}{key}"] for key in ("ids", "segment_ids")} for s in samples]
        return {**self._own(own), **{f"{PREFIX}{key}": value for key, value in self._theirs(theirs).items()}}
