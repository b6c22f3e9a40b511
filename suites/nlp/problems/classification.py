"""Classification and Regression: a class or a number for each text or pair of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from framework import ops
from framework.errors import DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.data.classes import expect_several, say_alike
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Marked, Tally
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.filling import COUNTED
from suites.nlp.losses import IGNORED, CrossEntropy, SquaredError
from suites.nlp.metrics import ClassScores, NumberScores
from suites.nlp.problems.base import Problem
from suites.nlp.sequences import Encoded, Sequencer

_SHOWN = 40  # characters of a text in a line for people


class RowProblem(Problem):
    """Something about each text or pair.

    Args:
        pair: whether two texts stand in each input; decides how lines to predict on are read.
    """

    example_type: ClassVar[type] = Labelled
    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "segment_ids": 0, "targets": IGNORED}
    spells: ClassVar[bool] = True

    def __init__(self, pair: bool = False) -> None:
        self._pair = pair

    @property
    def pair(self) -> bool:
        """Whether two texts stand in each input."""
        return self._pair

    def target(self, label: str, classes: Sequence[str]) -> Any:
        """The number a label stands for; ValueError says what is wrong with it."""
        raise NotImplementedError

    def encode(
        self,
        examples: Sequence[Labelled],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """The examples as `ids` and `segment_ids`, and `targets`."""
        self._expect_pairs(examples, name_of)
        first = sequencer.tokens(example.text for example in examples)
        second = sequencer.tokens(example.pair or "" for example in examples) if self._pair else [None] * len(examples)
        samples = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            first_ids, second_ids = sequencer.cut(a.ids, b.ids if b is not None else None)
            sequence = sequencer.join(first_ids, second_ids)
            sample: dict[str, Any] = {"ids": sequence.ids, "segment_ids": sequence.segment_ids}
            spelled = [(sequence.first, a.spelled(0, len(first_ids)))]
            spelled += [] if b is None or second_ids is None else [(sequence.second, b.spelled(0, len(second_ids)))]
            sample |= sequencer.spelled(sequence.ids, spelled)
            if truth:
                sample |= {"targets": self.target_of(examples[i].label, classes, name_of(i)), "example": np.int64(i)}
            samples.append(sample)
        return Encoded(samples, self.token_keys, name_of)

    def parse(self, line: str) -> Labelled:
        """A text, or two texts with a tab between them."""
        if not self._pair:
            return Labelled(line)
        texts = line.split("\t")
        if len(texts) != 2:
            raise DataError(f"'{line[:_SHOWN]}': expects two texts with a tab between them, found {len(texts)}")
        return Labelled(texts[0], texts[1])

    def from_json(self, value: Any) -> Labelled:
        """A text; or a list of two."""
        texts = [value] if isinstance(value, str) else value
        count = 2 if self._pair else 1
        if not isinstance(texts, list) or len(texts) != count or not all(isinstance(text, str) for text in texts):
            raise DataError(f"takes {'a list of two texts' if self._pair else 'a text'}, got {value!r:.40}")
        return Labelled(*texts)

    def sample(self) -> Any:
        """A text; or two."""
        return ["a", "b"] if self._pair else "a"

    def show_mistake(self, example: Labelled, detail: Any) -> Marked:
        """The text, or both."""
        return [(example.text, "")] if example.pair is None else [(f"{example.text}\n\n", ""), (example.pair, "")]

    def is_cut(self, example: Labelled, sequencer: Sequencer) -> bool:
        """Whether its texts have more tokens than fit."""
        texts = [example.text] if example.pair is None else [example.text, example.pair]
        return sum(len(tokens.ids) for tokens in sequencer.tokens(texts)) > sequencer.room(self._pair)

    def target_of(self, label: str, classes: Sequence[str], where: str) -> Any:
        """The number a label stands for; DataError with the place `where` says what is wrong with it."""
        try:
            return self.target(label, classes)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None

    def _expect_pairs(self, examples: Sequence[Labelled], name_of: Callable[[int], str]) -> None:
        for i, example in enumerate(examples):
            if (example.pair is None) == self._pair:
                found, wanted = ("one text", "true: pairs") if self._pair else ("two texts", "false: single texts")
                raise DataError(
                    f"{name_of(i)}: has {found} but problem.pair is {wanted}; set problem.pair and the data set's "
                    "column `pair` alike"
                )
            if example.negatives:
                raise DataError(
                    f"{name_of(i)}: has negatives, which {type(self).__name__} does not take; leave the data set's "
                    "`negatives` out, or set problem.type to SentenceVectors or Reranking"
                )


@register("problem")
class Classification(RowProblem):
    """One class for each text or pair.

    Args:
        pair: whether two texts stand in each input.
        main: the figure that decides which weights are best.
        loss: what is minimised.
    """

    def __init__(
        self,
        pair: bool = False,
        main: Literal["accuracy", "f1", "macro_f1", "mcc", "mrr"] = "accuracy",
        loss: CrossEntropy | None = None,
    ) -> None:
        super().__init__(pair)
        self.main_metric = main
        self._loss = loss or CrossEntropy()

    def classes(self, dataset: TextDataset[Labelled]) -> list[str]:
        """The labels of the set, sorted."""
        return sorted({example.label for example in dataset.examples})

    def check_training(self, dataset: TextDataset[Labelled]) -> None:
        """DataError for a set of one class; names of classes that are alike are told."""
        counts = Counter(example.label for example in dataset.examples if example.label)
        expect_several(dataset.path, counts)
        say_alike(dataset.path, sorted(counts))

    def count(self, tally: Tally, examples: Sequence[Labelled]) -> None:
        """Examples by class."""
        tally.add("examples", Counter(example.label for example in examples), len(examples), whole=True)

    def target(self, label: str, classes: Sequence[str]) -> Any:
        """The class's number."""
        if label not in classes:
            raise ValueError(f"label '{label[:_SHOWN]}' was not seen in training; known are {listing(classes)}")
        return np.int64(classes.index(label))

    def losses(self, outputs: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of logits [B, K]."""
        return self._loss(outputs, inputs["targets"])

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """`scores` [B, K], probabilities of the classes."""
        return {"scores": ops.softmax(outputs, axis=-1)}

    def metric(self, dataset: TextDataset[Labelled], classes: Sequence[str]) -> Metric:
        """Accuracy, F1, Matthews' correlation; mean reciprocal rank where the set has groups."""
        groups = [example.group for example in dataset.examples]
        numbers = np.unique(groups, return_inverse=True)[1] if any(groups) and len(classes) == 2 else None
        return ClassScores(classes, numbers)

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Labelled], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The best class and the probabilities of all."""
        found = []
        for scores in outputs["scores"]:
            each = {name: round(float(score), 5) for name, score in zip(classes, scores, strict=True)}
            found.append({"class": classes[int(scores.argmax())], "scores": each})
        return found

    def describe(self, example: Labelled, result: dict[str, Any]) -> str:
        """The text and its class."""
        return f"{shown_texts(example)} -> {result['class']} ({result['scores'][result['class']]:.3f})"


@register("problem")
class Regression(RowProblem):
    """One number for each text or pair, such as how alike two texts are (STS-B).

    Args:
        pair: whether two texts stand in each input.
        main: the figure that decides which weights are best; `correlation` is the mean of both.
        loss: what is minimised.
    """

    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "segment_ids": 0, "targets": 0.0}

    def __init__(
        self,
        pair: bool = True,
        main: Literal["pearson", "spearman", "correlation"] = "pearson",
        loss: SquaredError | None = None,
    ) -> None:
        super().__init__(pair)
        self.main_metric = main
        self._loss = loss or SquaredError()

    def classes(self, dataset: TextDataset[Labelled]) -> list[str]:
        """One name: what the single output is."""
        return ["score"]

    def target(self, label: str, classes: Sequence[str]) -> Any:
        """The number."""
        try:
            number = float(label)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number):
            raise ValueError(f"label '{label[:_SHOWN]}' is no number; Regression needs one")
        return np.float32(number)

    def losses(self, outputs: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Squared error of logits [B, 1]."""
        return self._loss(outputs, inputs["targets"], counted=inputs.get(COUNTED))

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """`scores` [B], the numbers."""
        return {"scores": ops.squeeze(outputs, axis=1)}

    def metric(self, dataset: TextDataset[Labelled], classes: Sequence[str]) -> Metric:
        """Correlations."""
        return NumberScores()

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Labelled], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The numbers."""
        return [{"score": round(float(score), 5)} for score in outputs["scores"]]

    def describe(self, example: Labelled, result: dict[str, Any]) -> str:
        """The text and its number."""
        return f"{shown_texts(example)} -> {result['score']:.3f}"


def shown_texts(example: Labelled) -> str:
    """The text or both texts of a row, shortened, in a line."""
    texts = [example.text] if example.pair is None else [example.text, example.pair]
    return " | ".join(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..." for text in texts)
