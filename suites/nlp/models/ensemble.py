"""Ensemble: several models that write as one, by the mean of their logits at each word.

Letters: T new words, P rows that are kept, W numbers of a row of all members, R words whose next is asked for, V words.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.nlp.models.writing import WritingModel, told


class Ensemble(WritingModel):
    """Models of one vocabulary; a row that is kept holds those of all members side by side.

    The mean of logits is, but for a constant, that of log-probabilities: the members' geometric mean.

    Args:
        members: two or more, all with a source or all without.

    Attributes:
        words: V, that all members know.

    Raises AttributeValueError for others.
    """

    def __init__(self, members: Sequence[WritingModel]) -> None:
        super().__init__()
        if len(members) < 2 or len({member.tables is None for member in members}) > 1:
            kinds = ", ".join(type(member).__name__ for member in members)
            raise AttributeValueError(
                f"Ensemble: there are {len(members)} members ({kinds}); two or more are needed, all with a source or "
                "all without"
            )
        self.members = nn.LayerList(members)
        self.vocab_size = min(member.vocab_size for member in members)
        tables = [member.tables for member in members if member.tables is not None]
        self.tables = (min(s for s, _ in tables), min(t for _, t in tables)) if tables else None
        self.shared, self.copies = any(m.shared for m in members), any(m.copies for m in members)
        self._pasts = [member.past_width for member in members]
        self._memories = [member.memory_width for member in members]
        self.past_width, self.memory_width = sum(self._pasts), sum(self._memories)
        places = [member.max_length for member in members if member.max_length is not None]
        self.max_length = min(places) if places else None
        self.words = self.vocab_size if self.tables is None else self.tables[1]

    def forward(self, *args: Tensor) -> Tensor:
        """The mean of the members' logits, [T, V]; see `WritingModel`."""
        return self._mean([member(*args) for member in self.members])

    def step(self, *, past: Tensor, attention: bool = False, **arrays: Tensor) -> dict[str, Tensor]:
        """See `WritingModel.step`; attention is the mean of the members'."""
        pasts = ops.split(past, axis=1, sizes=self._pasts)
        given = [dict(arrays) for _ in self.members]
        if self.memory_width:
            for own, memory in zip(given, ops.split(arrays["memory"], axis=1, sizes=self._memories), strict=True):
                own |= {"memory": memory}
        asked = {"attention": True} if attention else {}
        found = [
            member.step(past=before, **own, **asked)  # type: ignore[attr-defined]
            for member, before, own in zip(self.members, pasts, given, strict=True)
        ]
        logits = self._mean([each["scores"] + ops.expand_dims(each["totals"], axis=1) for each in found])
        kept = {name: ops.concat([each[name] for each in found], axis=1) for name in ("fresh", "encoded")
                if name in found[0]}  # fmt: skip
        if attention:
            shown = [each["attention"][:, : self.max_length] for each in found]
            kept["attention"] = _sum(shown) / float(len(found))
        return told(logits) | kept

    def _mean(self, logits: Sequence[Tensor]) -> Tensor:
        return _sum([each[:, : self.words] for each in logits]) / float(len(logits))


def _sum(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
