"""WritingProblem: what is written word by word, and how a model that writes is asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from framework.errors import AttributeValueError, ConfigError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.nlp.datasets import TextDataset
from suites.nlp.models.base import TextModel
from suites.nlp.models.writing import WritingModel
from suites.nlp.problems.base import Problem
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.writing import Limits, Prompt, Search, Writer

_SHOWN = 60  # characters of a text in a line for people


class WritingProblem(Problem):
    """Something that is written.

    Args:
        search: how words are chosen.
    """

    def __init__(self, search: Search | None = None) -> None:
        self.search = search or Search()
        self._tokenizer: Tokenizer | None = None

    def classes(self, dataset: TextDataset[Any]) -> list[str]:
        """None: what is written are texts."""
        return []

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Keep what makes texts of ids."""
        self._tokenizer = tokenizer

    @property
    def tokenizer(self) -> Tokenizer:
        """What makes texts of ids; NotSupportedError before there is one."""
        if self._tokenizer is None:
            raise NotSupportedError(f"{type(self).__name__}: it has no tokenizer yet")
        return self._tokenizer

    def check(self, dataset: TextDataset[Any], sequencer: Sequencer) -> None:
        """Raise ConfigError for a data set of other examples, or a tokenizer that makes no texts."""
        super().check(dataset, sequencer)
        self.take_tokenizer(sequencer.writing)

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """The model in training, its `step` afterwards; AttributeValueError for a model that does not write."""
        if not isinstance(model, WritingModel):
            raise AttributeValueError(
                f"{type(self).__name__}: {type(model).__name__} writes no texts; Transformer and LanguageModel do"
            )
        if training:
            return model
        return partial(model.step, attention=True) if self.search.coverage_penalty else model.step

    def on_host(self, arrays: Mapping[str, Any]) -> bool:
        """Each step has other shapes than the one before."""
        return "past" in arrays

    def predictions(self, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """What `WritingModel.step` gives."""
        return outputs

    def limits(self, model: TextModel, tokenizer: Tokenizer) -> Limits:
        """What a writer has to know of the model; ConfigError where its tokenizer begins and ends no texts."""
        self.asked(model, training=False)
        assert isinstance(model, WritingModel)
        stop = tokenizer.closing
        start = stop if tokenizer.opening is None else tokenizer.opening
        if start is None or stop is None:
            raise ConfigError(f"{type(tokenizer).__name__}: has no tokens that begin and end a text")
        words = len(tokenizer.vocabulary)
        if odd := [number for number in self.search.stop_ids if number >= words]:
            raise ConfigError(f"problem.search.stop_ids: {odd[0]} is no token; they are numbered from 0 to {words - 1}")
        return Limits(start, stop, model.past_width, model.memory_width, words, model.max_length)

    def is_cut(self, example: Any, sequencer: Sequencer, limits: Limits | None = None) -> bool:
        """See `Problem.is_cut`; limits: of the model that writes."""
        return super().is_cut(example, sequencer)

    def require(self, item: Any, sequencer: Sequencer, limits: Limits) -> None:
        """Raise DataError for an item that nothing can be written to, such as a beginning that no result can have."""

    @abstractmethod
    def prompts(self, items: Sequence[Any], sequencer: Sequencer, limits: Limits) -> list[Prompt]:
        """What is written to for each example."""

    @abstractmethod
    def written(self, writer: Writer, items: Sequence[Any]) -> list[dict[str, Any]]:
        """What was written to each example, fit for JSON."""

    def results(
        self, outputs: Mapping[str, Any], batch: Batch, examples: Sequence[Any], classes: Sequence[str]
    ) -> list[Any]:
        """What was written."""
        return self.written(batch["writer"], examples)

    def texts_of(self, writer: Writer, *, whole: bool) -> list[dict[str, Any]]:
        """For each prompt its results, as they go on behind the words that were given; `whole`: with these.

        Stop texts end what is written and not what was given.
        """
        found = []
        for own, before in zip(writer.results(), writer.before, strict=True):
            given = before[1:]
            begun = self.tokenizer.text(given) if whole else ""
            texts = [
                {
                    "text": begun + writer.cut(self.tokenizer.continued(before, h.ids[len(given) :])),
                    "score": round(h.score, 5),
                    "complete": h.complete,
                }
                for h in own
            ]
            found.append(texts[0] if self.search.results == 1 else {**texts[0], "results": texts})
        return found


def shortened(text: str) -> str:
    """A text's start, in a line."""
    line = text.replace("\n", "\\n")
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "..."


def steps_of(writer: Writer, batch: Batch, arrays: Iterable[Mapping[str, Any]]) -> Iterable[Batch]:
    """The steps of a writer as parts of a batch of evaluation."""
    for each in arrays:
        yield {**each, "writer": writer, "example": batch["example"]}
