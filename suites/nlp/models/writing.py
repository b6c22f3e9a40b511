"""WritingModel: what a model that tells the next word is to problems and writers.

Letters: T new words, N hypotheses, P rows that are kept, W numbers of a row, R words whose next is asked for, V words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from framework import ops
from framework.errors import AttributeValueError, NotSupportedError
from framework.tensors import Tensor
from suites.nlp.models.base import TextModel
from suites.nlp.models.outputs import States


class Watched(NamedTuple):
    """Logits [T, V] of the words after T target words, and their attention [T, L] by place in their sources."""

    logits: Tensor
    attention: Tensor


class WritingModel(TextModel):
    """Tells the next word, of all words of a text at once or step by step.

    `forward` takes what its problem gives in training, and returns logits [T, V] of the word after each.

    Attributes:
        past_width: W, numbers that are kept of a word between steps.
        memory_width: the same of a source's word; 0 for a model without a source.
        recurrent: whether `states` has those of a recurrent layer.
        tree: whether words' probabilities come from a tree, which losses need no logits for.
        tables: rows of the source's and of the target's word vectors; None for a model without a source.
        shared: whether these are one table.
        copies: whether words of the source are written as they are, by their numbers.
    """

    past_width: int
    memory_width: int = 0
    tables: tuple[int, int] | None = None
    shared: bool = False
    copies: bool = False

    recurrent: bool = False
    tree: bool = False

    def states(self, ids: Tensor, offsets: Tensor, logits: bool = True) -> States:
        """What stands before the logits, and these where they are asked for; see `forward`.

        By default NotSupportedError: losses without logits are for language models.
        """
        raise NotSupportedError(f"{type(self).__name__}: is no language model, so it tells no states of its words")

    def watched(self, source: Tensor, source_offsets: Tensor, target: Tensor, target_offsets: Tensor) -> Watched:
        """Logits as `forward` gives them, and the attention by which a model that `copies` copies.

        By default NotSupportedError.
        """
        raise NotSupportedError(f"{type(self).__name__}: copies nothing, so it has no attention to copy by")

    def step(self, *args: Any, **arrays: Any) -> dict[str, Tensor]:
        """The next words' scores, of arrays as a `Writer` gives them.

        Returns:
            `scores` [R, V], `totals` [R], `fresh` [T, W], and with sources `encoded` [S, W']; `attention` [R, L], how
            much each place of its source is looked at, of models with sources that are asked for it by
            `attention=True`.
        """
        raise NotImplementedError


def told(logits: Tensor) -> dict[str, Tensor]:
    """`scores` [R, V], log-probabilities, and `totals` [R], which make them logits again.  logits: [R, V]."""
    scores = ops.log_softmax(logits)
    return {"scores": scores, "totals": logits[:, 0] - scores[:, 0]}


def expect_positive(name: str, **sizes: int) -> None:
    """Raise AttributeValueError in a model's name where a size is below 1."""
    if min(sizes.values()) < 1:
        raise AttributeValueError(f"{name}: {', '.join(f'{k} is {v}' for k, v in sizes.items())}; all must be above 0")
