"""What stands around a text model when it predicts: tokenizer, transforms and class names, without a data set."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import CheckpointError, DataError
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch, Found
from suites.engine.contract.capabilities.generating import CacheSettings, TextGenerator
from suites.engine.contract.processor import ServedProcessor
from suites.engine.data.intake.mistyped import is_like_path, missing_file
from suites.nlp.filling import Filling
from suites.nlp.generator import generator_of
from suites.nlp.models.base import TextModel
from suites.nlp.problems import Problem
from suites.nlp.problems.reranking import Reranking
from suites.nlp.problems.writing import WritingProblem
from suites.nlp.sequences import CountingSequencer, Encoded, RememberingSequencer, Sequencer
from suites.nlp.tokenizers import tokenizer_from
from suites.nlp.tokenizers.characters import Characters
from suites.nlp.transforms import TextTransform
from suites.nlp.writing import Limits, Writer, steps

_QUICK_CHARACTERS = 2048


class TextProcessor(ServedProcessor):
    """Texts to ragged batches, outputs to what they say; an item is an example of the problem.

    Args:
        problem: what is asked of a text.
        sequencer: texts to sequences.
        classes: names of the classes.
    """

    batch_size: ClassVar[int] = 32
    endings: ClassVar[tuple[str, ...]] = (
        ".txt", ".text", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".conll", ".conllu", ".iob", ".bio", ".tags",
        ".md", ".xml", ".parquet", ".gz", ".zip",
    )  # fmt: skip
    _only_texts = False

    def __init__(self, problem: Problem, sequencer: Sequencer, classes: Sequence[str]) -> None:
        self._problem = problem
        self._problem.take_tokenizer(sequencer.writing)
        self.sequencer = RememberingSequencer(
            sequencer.tokenizer, sequencer.transforms, sequencer.max_length, sequencer.truncation, sequencer.target,
            sequencer.characters,
        )  # fmt: skip
        self.classes = list(classes)
        self.poolings = self._problem.poolings
        self.ranks_pairs = isinstance(self._problem, Reranking)

    def metadata(self) -> dict[str, Any]:
        """All parts, the vocabulary too."""
        sequencer = self.sequencer
        more = {} if sequencer.target is None else {"target_tokenizer": sequencer.target.metadata()}
        more |= {} if sequencer.characters is None else {"characters": sequencer.characters.metadata()}
        return {
            "problem": plain(self._problem, suite="nlp"),
            "transforms": plain(sequencer.transforms, suite="nlp"),
            "max_length": sequencer.max_length,
            "truncation": sequencer.truncation,
            "classes": self.classes,
            "tokenizer": sequencer.tokenizer.metadata(),
            **more,
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
                tokenizer_from(metadata["target_tokenizer"]) if "target_tokenizer" in metadata else None,
                Characters.restore(metadata["characters"]) if "characters" in metadata else None,
            )
            problem: Problem = build_value(metadata["problem"], Problem, suite="nlp")
            if isinstance(problem, WritingProblem):
                return WritingProcessor(problem, sequencer, metadata["classes"], Limits(**metadata["limits"]))
            return cls(problem, sequencer, metadata["classes"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"TextProcessor: the model's metadata lack {error}") from error

    def fitting(self) -> Filling | None:
        """Sequences that do not count; see `Filling`."""
        return None if self._problem.fillers is None else Filling(self._problem, few=True)

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """The lines of a file of this name; else the word itself is a text."""
        if not self._only_texts and _names(word, Path.is_file):
            return self._problem.parse_file(Path(word))
        return [(word[:40], lambda: self._problem.parse(word))]

    def with_texts(self) -> TextProcessor:
        """The same, for which each word is a text, whatever it looks like."""
        found = copy.copy(self)
        found._only_texts = True
        return found

    def require_input(self, word: str) -> None:
        """DataError for a folder, and for what looks like the name of a file that is not there."""
        if self._only_texts or _names(word, Path.is_file):
            return
        how = "if it is a text, say --text"
        if _names(word, Path.is_dir):
            raise DataError(f"{word}: is a folder; name its files, such as '{word.rstrip('/')}/*.txt'; {how}")
        if is_like_path(word, self.endings):
            raise DataError(f"{missing_file(word)} ({how})")

    def read(self, path: Path) -> Any:
        """The first input of a file."""
        return self._problem.parse_file(path)[0][1]()

    def is_quick(self, value: Any, length: int) -> bool:
        """Short texts: tokenizers take milliseconds for the worst of them, see the test."""
        return length <= _QUICK_CHARACTERS

    def item(self, given: Any) -> Any:
        """An example, or what a request may have; a tuple is a list of texts."""
        if is_dataclass(given) and not isinstance(given, type):
            return given
        return self.from_json(list(given) if isinstance(given, tuple) else given)

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

    def relevance(self, result: Any) -> float:
        """The score of a pair, of models whose problem is `Reranking`."""
        return float(result["score"])

    def draw(self, item: Any, result: Any) -> str:
        """The item and what is predicted for it, as text; told are a text of unknown words, and one that was cut."""
        told = self._problem.describe(item, result)
        if self.truncated(item):
            told += "\n(it is longer than the model reads at once; a part of it was not read)"
        seen = CountingSequencer(self.sequencer)
        self._problem.encode([item], seen, self.classes, lambda i: f"input {i}", truth=False)
        return f"{told}\n(no word of it is in the model's vocabulary)" if seen.all_unknown else told


class WritingProcessor(TextProcessor):
    """The processor of a model that writes, whose next batch depends on the words so far.

    Args:
        problem: what is written.
        sequencer: texts to sequences.
        classes: none.
        limits: of the model.
    """

    def __init__(self, problem: WritingProblem, sequencer: Sequencer, classes: Sequence[str], limits: Limits) -> None:
        super().__init__(problem, sequencer, classes)
        self._writes, self._limits = problem, limits

    def metadata(self) -> dict[str, Any]:
        """All parts, and the model's limits."""
        return {**super().metadata(), "limits": asdict(self._limits)}

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """See `TextProcessor.inputs`; an input that nothing can be written to is a DataError when it is read."""
        return [(name, partial(self._required, read)) for name, read in super().inputs(word)]

    def from_json(self, value: Any) -> Any:
        """See `TextProcessor.from_json`; DataError where nothing can be written to it."""
        return self._required(lambda: super(WritingProcessor, self).from_json(value))

    def _required(self, read: Callable[[], Any]) -> Any:
        item = read()
        self._writes.require(item, self.sequencer, self._limits)
        return item

    def truncated(self, item: Any) -> bool:
        """Whether a text has more tokens than the model has places for."""
        return self._writes.is_cut(item, self.sequencer, self._limits)

    def on_host(self, arrays: Mapping[str, Any]) -> bool:
        """Each step of writing has other shapes than the one before."""
        return self._writes.on_host(arrays)

    def generator(self, model: TextModel) -> Callable[[CacheSettings], TextGenerator] | None:
        """What makes a generator of a model; None of one whose steps are not computed in pages."""
        return generator_of(model, self._writes, self.sequencer, self._limits)

    def prepare(self, items: Sequence[Any]) -> Batch:
        """The first step for a few examples; they go along as "item"."""
        return next(iter(self.batches(items)))

    def batches(self, items: Sequence[Any]) -> Iterable[Batch]:
        """The steps of writing, of which each has the words of the one before."""
        writer = Writer(
            self._writes.prompts(items, self.sequencer, self._limits), self._limits, self._writes.search,
            self.sequencer.writing.continued,
        )  # fmt: skip
        for arrays in steps(writer):
            yield {**arrays, "writer": writer, "item": list(items)}

    def joined(self, found: Iterable[Found]) -> list[Any]:
        """What was written to each item."""
        results: list[Any] = []
        for outputs, batch in found:
            self.follow(outputs, batch)
            if batch["writer"].is_done:
                results += self._writes.written(batch["writer"], batch["item"])
        return results

    def follow(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in what the model gave for the last step."""
        batch["writer"].take(outputs)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """What is written to each item after one more step, so far as it is done."""
        self.follow(outputs, batch)
        return self._writes.written(batch["writer"], batch["item"])


def _names(word: str, what: Callable[[Path], bool]) -> bool:
    """Whether a word is the path of `what`; a long one and one of several lines is a text."""
    try:
        return 0 < len(word) < 1024 and "\n" not in word and what(Path(word))
    except (OSError, ValueError):
        return False
