"""Samples of several sequences: an anchor, a text that fits it and texts that do not; or pairs of one query.

Letters: N samples, S sequences, M sequences of a sample, h of them negatives, t tokens of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from framework.data import RaggedCollate
from framework.errors import DataError
from suites.nlp.datasets import Labelled
from suites.nlp.sequences import Encoded, Sequence_

KEYS = ("ids", "segment_ids")
SIZES = "sizes"  # int64 [M]: tokens of each sequence of a sample


class Lesson(NamedTuple):
    """What a teacher is asked before training.

    Attributes:
        teacher: a run or an exported model.
        kind: whether its vectors are wanted, or its scores of pairs.
        items: texts by the number of their sequence (`text` alone), or pairs.
    """

    teacher: str
    kind: Literal["vectors", "scores"]
    items: Sequence[Labelled]


class Grouped(Encoded):
    """Samples of M sequences each.

    Args:
        sequences: the S sequences; each may stand in several samples.
        leads: int64 [N, M], the sequences of each sample.
        rows: arrays with a row for each sample, which go into its batch.
        name_of: file and line of sample i.
    """

    def __init__(
        self,
        sequences: Sequence[Sequence_],
        leads: np.ndarray,
        rows: Mapping[str, np.ndarray],
        name_of: Callable[[int], str],
    ) -> None:
        super().__init__([{"ids": s.ids, "segment_ids": s.segment_ids} for s in sequences], KEYS, str)
        self.leads, self.rows = leads, dict(rows)
        self._sample_names = [name_of(i) for i in range(len(leads))]

    def __len__(self) -> int:
        return len(self.leads)

    @property
    def sequence_lengths(self) -> np.ndarray:
        """Tokens of each sequence, int64 [S]."""
        return np.diff(self._offsets)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample, int64 [N]."""
        return self.sequence_lengths[self.leads].sum(axis=1)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The sequences of a sample end to end, `sizes` [M], and its rows."""
        return self.made_of(index, self.leads[index])

    def made_of(self, index: int, chosen: np.ndarray) -> dict[str, Any]:
        """A sample of these sequences, with the rows of sample `index`."""
        spans = [slice(self._offsets[at], self._offsets[at + 1]) for at in chosen]
        tokens = {key: np.concatenate([self._tokens[key][span] for span in spans]) for key in KEYS}
        sizes = self.sequence_lengths[chosen]
        rows = {key: values[index] for key, values in self.rows.items()}
        return {**tokens, SIZES: sizes, **rows, "name": self.name_of(index)}

    def name_of(self, index: int) -> str:
        """File and line of a sample."""
        return self._sample_names[index]


class WithNegatives:
    """Samples that fit, each with `hard` negatives drawn anew in each epoch.

    A sample's arrays are those of `Grouped`, and `others` int64 [h]: the sequences of the negatives, -1 where there
    were fewer (the sequence that fits stands there again, and losses leave it out); `taught` where there is a teacher.

    Args:
        samples: all samples.
        which: numbers of the samples that fit.
        negatives: of each of these the sequences that do not.
        hard: h.
        where: the file, for messages.
        texts: of the S sequences, where there is a teacher.
        teacher: a run or an exported model and what is wanted of it; None without one.

    Attributes:
        lesson: what is to be asked of the teacher; the answers go to `take`. None without one.
    """

    def __init__(
        self,
        samples: Grouped,
        which: Sequence[int],
        negatives: Sequence[Sequence[int]],
        hard: int,
        where: str,
        texts: Sequence[str] = (),
        teacher: tuple[str, Literal["vectors", "scores"]] | None = None,
    ) -> None:
        if not len(which):
            raise DataError(
                f"{where}: no row holds a text that fits, or none beside one that does not; see problem.positive, and "
                "rows of one query share their `group`, or their first text"
            )
        if hard and not any(len(each) for each in negatives):
            raise DataError(
                f"{where}: no row has a negative, but problem.hard is {hard}; name columns in the data set's "
                "`negatives`, give rows of other labels the same text or `group`, or set problem.hard to 0"
            )
        self._samples, self._which, self._hard = samples, np.asarray(which, np.int64), hard
        self._negatives = np.concatenate([np.asarray(each, np.int64) for each in negatives])
        self._ends = np.cumsum([0, *(len(each) for each in negatives)], dtype=np.int64)
        self._taught: np.ndarray | None = None
        self.lesson = None if teacher is None else Lesson(*teacher, self._items(texts, teacher[1]))

    def _items(self, texts: Sequence[str], kind: str) -> list[Labelled]:
        if kind == "vectors":
            return [Labelled(text) for text in texts]
        found = []
        for index, at in enumerate(self._which):
            anchor, fits = self._samples.leads[at]
            others = self._negatives[self._ends[index] : self._ends[index + 1]]
            found += [Labelled(texts[anchor], texts[other]) for other in (fits, *others)]
        return found

    def take(self, answers: np.ndarray) -> None:
        """The teacher's answers to the items of `lesson`, [S, D] or one number each."""
        self._taught = answers

    def __len__(self) -> int:
        return len(self._which)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample at most, int64 [N]."""
        tokens = self._samples.sequence_lengths
        own = self._samples.lengths[self._which]
        last = tokens[self._samples.leads[self._which, -1]]
        if not self._hard:
            return own
        longest = [
            max(tokens[self._negatives[a:b]].max(initial=0), fits)
            for a, b, fits in zip(self._ends[:-1], self._ends[1:], last, strict=True)
        ]
        return own + self._hard * np.asarray(longest, np.int64)

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """A sample with negatives drawn from `rng`, each at most once."""
        at = int(self._which[index])
        lead = self._samples.leads[at]
        known = self._negatives[self._ends[index] : self._ends[index + 1]]
        places = rng.choice(len(known), min(self._hard, len(known)), replace=False)
        missing = self._hard - len(places)
        chosen = np.concatenate([lead, known[places], np.repeat(lead[-1:], missing)])
        others = np.concatenate([known[places], np.full(missing, -1, np.int64)])
        sample = {**self._samples.made_of(at, chosen), "others": others}
        if self.lesson is None or self._taught is None:
            return sample
        if self.lesson.kind == "vectors":
            return sample | {"taught": self._taught[chosen]}
        begin = self._ends[index] + index  # of the scores of this sample: that of the text that fits, then the others
        rows = begin + np.concatenate([[0], 1 + places, np.zeros(missing, np.int64)]).astype(np.int64)
        return sample | {"taught": self._taught[rows]}

    def name_of(self, index: int) -> str:
        """File and line of a sample."""
        return self._samples.name_of(int(self._which[index]))


def collate_groups(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A batch: all sequences of all samples end to end; `offsets` [B M + 1] are those of the sequences.

    Samples without `sizes` are one sequence each.
    """
    if SIZES not in samples[0]:
        return RaggedCollate([key for key in KEYS if key in samples[0]])(samples)
    sizes = np.concatenate([sample[SIZES] for sample in samples])
    batch = RaggedCollate(KEYS)([{k: v for k, v in sample.items() if k != SIZES} for sample in samples])
    return {**batch, "offsets": np.cumsum([0, *sizes], dtype=np.int64)}
