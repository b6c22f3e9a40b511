"""Tagging: a tag for each word, such as the names in a sentence (NER)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from framework import ops
from framework.errors import DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Marked, Tally
from suites.nlp.datasets import Tagged, TextDataset
from suites.nlp.losses import IGNORED, CrossEntropy
from suites.nlp.metrics import ChunkScores, chunks_of
from suites.nlp.problems.base import Problem
from suites.nlp.sequences import Encoded, Sequencer

_PREFIXES = "BIMES"  # in the order that class numbers follow


@register("problem")
class Tagging(Problem):
    """A tag for each word.

    A word of several pieces is tagged by its first; a sentence that is too long is cut between words and its parts
    are predicted one by one.

    Args:
        words: how a line to predict on falls into words: single "characters" or at "spaces".
        loss: what is minimised.
    """

    example_type: ClassVar[type] = Tagged
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "segment_ids", "words", "targets")
    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "segment_ids": 0, "targets": IGNORED}
    token_outputs: ClassVar[tuple[str, ...]] = ("tags",)
    main_metric = "f1"

    def __init__(self, words: Literal["characters", "spaces"] = "characters", loss: CrossEntropy | None = None) -> None:
        self._words = words
        self._loss = loss or CrossEntropy()

    def classes(self, dataset: TextDataset[Tagged]) -> list[str]:
        """O and, of all types in the set, each prefix in the set."""
        tags = {tag for example in dataset.examples for tag in example.tags} - {"O"}
        prefixes = [p for p in _PREFIXES if any(tag.startswith(p) for tag in tags)]
        return ["O", *(f"{p}-{kind}" for kind in sorted({tag[2:] for tag in tags}) for p in prefixes)]

    def encode(
        self,
        examples: Sequence[Tagged],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Sequences of `ids` with `words` (which word of the sentence a token starts, -1 for none) and `targets`."""
        numbers = {tag: number for number, tag in enumerate(classes)}
        samples, names = [], []
        for i, example in enumerate(examples):
            tags = _numbers(example.tags, numbers, classes, name_of(i)) if truth else [IGNORED] * len(example.words)
            pieces = sequencer.tokenizer.encode_words([sequencer.change(word) for word in example.words])
            for first, last in _parts([len(p) for p in pieces], sequencer.room(pair=False)):
                samples.append(_part(sequencer, pieces[first:last], tags[first:last], first, i))
                names.append(name_of(i))
        return Encoded(samples, self.token_keys, names.__getitem__)

    def losses(self, outputs: Any, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of logits [T, K] over the first tokens of words."""
        return self._loss(outputs, inputs["targets"])

    def predictions(self, outputs: Any) -> dict[str, Tensor]:
        """`tags` int64 [T], the most probable tag of each token; outputs: logits [T, K]."""
        return {"tags": ops.argmax(outputs, axis=-1)}

    def metric(self, dataset: TextDataset[Tagged], classes: Sequence[str]) -> Metric:
        """Precision, recall and F1 of chunks."""
        return ChunkScores([example.tags for example in dataset.examples], classes)

    def parse(self, line: str) -> Tagged:
        """A sentence; its words are what `words` says."""
        words = tuple(line.split()) if self._words == "spaces" else tuple(c for c in line if not c.isspace())
        if not words:
            raise DataError(f"'{line[:40]}': there are no words in it")
        return Tagged(words)

    def from_json(self, value: Any) -> Tagged:
        """A sentence; or the list of its words."""
        if isinstance(value, str):
            return self.parse(value)
        if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
            raise DataError(f"takes a sentence or a list of words, got {value!r:.40}")
        return Tagged(tuple(value))

    def sample(self) -> Any:
        """A sentence."""
        return "a"

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Tagged], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The tags of all words, and the chunks they make."""
        tags: list[list[str]] = [[] for _ in examples]
        for row, example in enumerate(np.asarray(batch["example"]).tolist()):
            own = slice(batch["offsets"][row], batch["offsets"][row + 1])
            starts = np.asarray(batch["words"][own]) >= 0
            tags[example] += [classes[k] for k in outputs["tags"][own][starts].tolist()]
        between = "" if self._words == "characters" else " "
        return [
            {
                "tags": own,
                "chunks": [
                    {"type": kind, "text": between.join(example.words[first : last + 1]), "words": [first, last]}
                    for kind, first, last in chunks_of(own)
                ],
            }
            for example, own in zip(examples, tags, strict=True)
        ]

    def show_mistake(self, example: Tagged, detail: Mapping[int, str]) -> Marked:
        """The sentence; a word with a wrong tag is marked and says what was found, and what is right."""
        between = "" if self._words == "characters" else " "
        runs: list[tuple[str, str]] = []
        for place, word in enumerate(example.words):
            found, true = detail.get(place, example.tags[place]), example.tags[place]
            if found == true:
                runs.append((word + between, "" if true == "O" else "right"))
            else:
                runs += [(word, "wrong"), (f" ({found}, not {true}) ", "")]
        return runs

    def count(self, tally: Tally, examples: Sequence[Tagged]) -> None:
        """Chunks by type, and words a sentence."""
        kinds = Counter(kind for example in examples for kind, _, _ in chunks_of(example.tags))
        tally.add("chunks", kinds, len(examples), whole=True)
        tally.measure("words of a sentence", np.array([len(e.words) for e in examples]), len(examples), whole=True)

    def describe(self, example: Tagged, result: dict[str, Any]) -> str:
        """The sentence and its chunks."""
        text = ("" if self._words == "characters" else " ").join(example.words)
        found = ", ".join(f"{chunk['text']} ({chunk['type']})" for chunk in result["chunks"])
        return f"{text if len(text) <= 80 else text[:80] + '...'} -> {found or 'nothing'}"


def _numbers(tags: Sequence[str], numbers: Mapping[str, int], classes: Sequence[str], where: str) -> list[int]:
    unseen = [tag for tag in tags if tag not in numbers]
    if unseen:
        raise DataError(f"{where}: tag '{unseen[0]}' was not seen in training; known are {listing(classes)}")
    return [numbers[tag] for tag in tags]


def _parts(lengths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """First word and one after the last of runs of words whose tokens fit into `room`; one longer than it is alone."""
    first = used = 0
    for place, length in enumerate(lengths):
        if used + length > room and place > first:
            yield first, place
            first, used = place, 0
        used += length
    yield first, len(lengths)


def _part(
    sequencer: Sequencer, pieces: Sequence[np.ndarray], tags: Sequence[int], first: int, example: int
) -> dict[str, Any]:
    room = sequencer.room(pair=False)
    sequence = sequencer.join(np.concatenate(pieces)[:room])
    words = np.full(len(sequence.ids), -1, np.int64)
    targets = np.full(len(sequence.ids), IGNORED, np.int64)
    places = sequence.first + np.cumsum([0, *(len(p) for p in pieces[:-1])])
    words[places] = np.arange(first, first + len(pieces))
    targets[places] = tags
    return {
        "ids": sequence.ids,
        "segment_ids": sequence.segment_ids,
        "words": words,
        "targets": targets,
        "example": np.int64(example),
    }
