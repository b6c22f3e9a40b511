"""ChainTagging: a tag for each word by a model that scores whole sequences of tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from framework import ops
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.nlp.datasets import TextDataset
from suites.nlp.filling import COUNTED
from suites.nlp.losses import over_sequences
from suites.nlp.models.crf import ChainScores
from suites.nlp.problems.tagging import Tagging
from suites.nlp.sequences import Sequencer


@register("problem")
class ChainTagging(Tagging):
    """A tag for each word, by a model with a conditional random field (CrfTagger).

    The loss is the negative log-likelihood of a sentence's tags, the mean over sentences; the prediction is the path
    of the highest score.

    Args:
        words: how a line to predict on falls into words: single "characters" or at "spaces".
    """

    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "segment_ids": 0, "targets": 0}

    def __init__(self, words: Literal["characters", "spaces"] = "characters") -> None:
        super().__init__(words)

    def check(self, dataset: TextDataset[Any], sequencer: Sequencer) -> None:
        """Raise ConfigError for a data set of other examples, or a tokenizer whose tokens are not words."""
        super().check(dataset, sequencer)
        if sequencer.tokenizer.opening is not None:
            raise ConfigError(
                f"ChainTagging: every token must be a word with a tag, but {type(sequencer.tokenizer).__name__} cuts "
                "words to pieces and adds its own tokens; use WordTokenizer, or the problem Tagging"
            )

    def losses(self, outputs: ChainScores, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The negative log-likelihood, the mean over sentences."""
        emissions, transitions, start, stop, offsets = outputs
        each = ops.crf_loss(emissions, transitions, start, stop, inputs["targets"], offsets)
        ends = inputs["offsets"][1:]
        return {"crf": over_sequences(each, ends, inputs.get(COUNTED))}

    def predictions(self, outputs: ChainScores) -> dict[str, Tensor]:
        """`tags` int64 [T], the best path."""
        return {"tags": ops.crf_decode(*outputs)[0]}
