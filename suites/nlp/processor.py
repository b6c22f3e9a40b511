"""What stands around a text model when it predicts: tokenizer, transforms and class names, without a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError
from suites.engine.config import build_value, plain
from suites.engine.contract.task import Batch, Processor
from suites.nlp.filling import Filling
from suites.nlp.problems import Problem
from suites.nlp.sequences import Encoded, RememberingSequencer, Sequencer
from suites.nlp.tokenizers import tokenizer_from
from suites.nlp.transforms import TextTransform


class TextProcessor(Processor):
    """Texts to ragged batches, outputs to what they say; an item is an example of the problem.

    Args:
        problem: what is asked of a text.
        sequencer: texts to sequences.
        classes: names of the classes.
    """

    batch_size: ClassVar[int] = 32

    def __init__(self, problem: Problem, sequencer: Sequencer, classes: Sequence[str]) -> None:
        self._problem = problem
        self._problem.take_tokenizer(sequencer.tokenizer)
        self.sequencer = RememberingSequencer(
            sequencer.tokenizer, sequencer.transforms, sequencer.max_length, sequencer.truncation
        )
        self.classes = list(classes)
        self.poolings = self._problem.poolings

    def metadata(self) -> dict[str, Any]:
        """All parts, the vocabulary too."""
        sequencer = self.sequencer
        return {
            "problem": plain(self._problem, suite="nlp"),
            "transforms": plain(sequencer.transforms, suite="nlp"),
            "max_length": sequencer.max_length,
            "truncation": sequencer.truncation,
            "classes": self.classes,
            "tokenizer": sequencer.tokenizer.metadata(),
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> TextProcessor:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        try:
            sequencer = Sequencer(
                tokenizer_from(metadata["tokenizer"]),
                build_value(metadata["transforms"], list[TextTransform], suite="nlp"),
                metadata["max_length"],
                metadata["truncation"],
            )
            problem: Problem = build_value(metadata["problem"], Problem, suite="nlp")
            return cls(problem, sequencer, metadata["classes"])
        except KeyError as error:
            raise CheckpointError(f"TextProcessor: the model's metadata lack {error}") from error

    def fitting(self) -> Filling | None:
        """Sequences that do not count; see `Filling`."""
        return None if self._problem.fillers is None else Filling(self._problem, few=True)

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """The lines of a file of this name; else the word itself is a text."""
        path = Path(word)
        if len(word) < 1024 and "\n" not in word and path.is_file():
            return self._problem.parse_file(path)
        return [(word[:40], lambda: self._problem.parse(word))]

    def read(self, path: Path) -> Any:
        """The first input of a file."""
        return self._problem.parse_file(path)[0][1]()

    def from_json(self, value: Any) -> Any:
        """The example of a request: a text, a list of two, or an object, as the problem has it."""
        return self._problem.from_json(value)

    def example(self) -> Any:
        """A value that `from_json` takes."""
        return self._problem.sample()

    def cost(self, item: Any) -> int:
        """Tokens of an example."""
        return int(self._encode([item]).lengths.sum())

    def truncated(self, item: Any) -> bool:
        """Whether an example has more tokens than the model takes."""
        return self._problem.is_cut(item, self.sequencer)

    def prepare(self, items: Sequence[Any]) -> Batch:
        """Examples as a batch, exactly as in evaluation; the examples go along as "item"."""
        encoded = self._encode(items)
        samples = [encoded[i] for i in range(len(encoded))]
        return {**self._problem.collate(samples[0])(samples), "item": list(items)}

    def _encode(self, items: Sequence[Any]) -> Encoded:
        return self._problem.encode(items, self.sequencer, self.classes, lambda i: f"input {i}", truth=False)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """What is predicted for each item."""
        return self._problem.results(outputs, batch, batch["item"], self.classes)

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """A vector for each item, float32 [N, D], of models whose problem is `Vectors`."""
        return self._problem.embeddings(outputs, batch, pooling)

    def draw(self, item: Any, result: Any) -> str:
        """The item and what is predicted for it, as text."""
        return self._problem.describe(item, result)
