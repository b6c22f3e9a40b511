"""Which of the student's layers learns from which of the teacher's, and projections where their widths differ.

Letters: T tokens, D the student's width, E the teacher's.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework import nn
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.nlp.models.base import TextModel
from suites.nlp.models.bert import Bert


class Projections(nn.Layer):
    """A linear layer for each layer that learns, from the student's width to the teacher's.

    Args:
        width: D.
        teacher_width: E.
        count: of layers.
    """

    def __init__(self, width: int, teacher_width: int, count: int) -> None:
        super().__init__()
        self.linears = nn.LayerList(nn.Linear(width, teacher_width) for _ in range(count))

    @classmethod
    def between(cls, student: TextModel, teacher: TextModel, count: int) -> Projections | None:
        """Those between two models on a Bert; None where their widths are equal."""
        ours, theirs = (_encoder(model, who).hidden_size for model, who in ((student, "student"), (teacher, "teacher")))
        return None if ours == theirs else cls(ours, theirs, count)

    def forward(self, x: Tensor, place: int) -> Tensor:
        """x: [T, D], of the layer that stands at `place` among those that learn; y: [T, E]."""
        y: Tensor = self.linears[place](x)
        return y


def layer_pairs(wanted: Mapping[int, int] | None, student: TextModel, teacher: TextModel) -> list[tuple[int, int]]:
    """(student's layer, teacher's layer) pairs, from the embeddings, 0, to the last.

    Args:
        wanted: teacher's layer by the student's; None spreads the teacher's evenly.
        student: a model on a Bert.
        teacher: likewise.

    Raises:
        ConfigError: a model has no such layer, or is on no Bert.
    """
    ours, theirs = (len(_encoder(m, who).layers) for m, who in ((student, "student"), (teacher, "teacher")))
    if wanted is None:
        return [(i, round(i * theirs / ours)) for i in range(ours + 1)]
    for who, count, layers in (("student", ours, list(wanted)), ("teacher", theirs, list(wanted.values()))):
        wrong = next((layer for layer in layers if not 0 <= layer <= count), None)
        if wrong is not None:
            raise ConfigError(
                f"distil.layers.map: the {who} has no layer {wrong}; it has 0 (the embeddings) to {count}; a map is "
                "written {student's layer: teacher's layer}"
            )
    return sorted(wanted.items())


def _encoder(model: TextModel, who: str) -> Bert:
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, Bert):
        raise ConfigError(
            f"distil.layers: the {who} is a {type(model).__name__} without a Bert, so it has no layers to compare; "
            "learn by logits alone (distil.layers: null)"
        )
    return encoder
