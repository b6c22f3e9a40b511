"""Problem: what is asked of a text. It says which examples it takes, how they become arrays, what is minimised and
measured, and how predictions read.

Letters: B sequences, T tokens, K classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from framework.data import Dataset, RaggedCollate, RandomDataset
from framework.errors import ConfigError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register_role
from suites.engine.reporting import Marked, Tally
from suites.nlp.datasets import TextDataset
from suites.nlp.datasets.base import read_lines
from suites.nlp.models.base import TextModel
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.tokenizers.characters import SPELLING


class Problem(ABC):
    """What is asked.

    Attributes:
        example_type: the examples it takes.
        token_keys: batch arrays with a row for each token, [T, ...].
        inputs: batch arrays that the model takes, the first two in this order, others by name.
        targets: batch arrays that the losses need besides.
        learned: batch arrays that the model takes in training, where these are others than `inputs`.
        fillers: what `inputs` and `targets`, but for `offsets`, hold in rows that fill a batch up for a device; None
            where losses do not leave such rows out, so that batches stay as they are. Where `inputs` of `losses` have
            `counted`, float32 [B], it is 0 for sequences to leave out.
        token_outputs: predictions with a row for each token.
        main_metric: the figure that decides which weights are best.
        lower_is_better: whether the lower one is the better.
        spells: whether its batches hold `spelling` [T, L] where a Sequencer spells tokens.
        writes_targets: whether its examples have a side that is written, which may have a tokenizer of its own.
        poolings: ways in which `embeddings` makes a vector of each example; none if there are no vectors.
    """

    example_type: ClassVar[type]
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "segment_ids")
    inputs: ClassVar[tuple[str, ...]] = ("ids", "offsets", "segment_ids")
    targets: ClassVar[tuple[str, ...]] = ("targets",)
    learned: ClassVar[tuple[str, ...] | None] = None
    fillers: ClassVar[Mapping[str, float] | None] = None
    token_outputs: ClassVar[tuple[str, ...]] = ()
    main_metric: str
    lower_is_better: ClassVar[bool] = False
    poolings: tuple[str, ...] = ()
    writes_targets: ClassVar[bool] = False
    spells: ClassVar[bool] = False

    def rows_of(self, name: str) -> Literal["token", "sequence", "hidden"]:
        """What a row of an array or a prediction of this name stands for; `hidden` tokens are those in `masked`."""
        return "token" if name in (*self.token_keys, SPELLING, *self.token_outputs) else "sequence"

    def sides(self) -> Mapping[str, tuple[str, ...]]:
        """Names of offsets, each with the batch arrays that they cut into sequences."""
        return {"offsets": (*self.token_keys, SPELLING)}

    def on_host(self, arrays: Mapping[str, Any]) -> bool:
        """Whether the model is asked about such arrays on the CPU, as they come in ever new shapes."""
        return False

    def check(self, dataset: TextDataset[Any], sequencer: Sequencer) -> None:
        """Raise ConfigError for a data set of other examples."""
        if dataset.example_type is not self.example_type:
            raise ConfigError(
                f"{type(self).__name__}: takes {self.example_type.__name__} examples but {type(dataset).__name__} "
                f"has {dataset.example_type.__name__}; choose a data set of the problem, see docs/howto/nlp.md"
            )

    def check_training(self, dataset: TextDataset[Any]) -> None:  # noqa: B027  (an offer, not a duty)
        """Raise DataError for a training set that teaches nothing."""

    def check_evaluation(self, dataset: TextDataset[Any]) -> None:  # noqa: B027  (an offer, not a duty)
        """Raise DataError for an evaluation set that `metric` can say nothing of; asked before training."""

    @abstractmethod
    def classes(self, dataset: TextDataset[Any]) -> list[str]:
        """The names of the classes that a training set shows, in the model's order; empty where there are none."""

    @abstractmethod
    def encode(
        self,
        examples: Sequence[Any],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """The examples as arrays; with "targets", unless `truth` is off.

        Raises DataError that names file and line of an example whose truth is none of `classes`.
        """

    def drawn(self, samples: Encoded) -> Dataset | RandomDataset:
        """What training draws from: `samples` as they are, unless the problem draws them anew in each epoch."""
        return samples

    def collate(self, present: Container[str]) -> Callable[[list[Any]], dict[str, Any]]:
        """What makes a batch of samples that have the arrays `present`."""
        return RaggedCollate([key for key in (*self.token_keys, SPELLING) if key in present])

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:  # noqa: B027  (an offer, not a duty)
        """Keep of the tokenizer what `results` needs; by default nothing."""

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """What of the model is called with `inputs`, or with `learned` in training; by default the model."""
        return model

    def parts(self, batch: Batch, model: TextModel) -> Iterable[Batch]:
        """What is predicted on one after the other for a batch of evaluation; by default the batch."""
        return (batch,)

    @abstractmethod
    def losses(self, outputs: Any, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name, scalars, from what the model returned and the batch's arrays."""

    @abstractmethod
    def predictions(self, outputs: Any) -> dict[str, Tensor]:
        """What is predicted, arrays by name, from what the model returned."""

    @abstractmethod
    def metric(self, dataset: TextDataset[Any], classes: Sequence[str]) -> Metric:
        """A new, empty metric for a data set."""

    @abstractmethod
    def parse(self, line: str) -> Any:
        """The example that a line of text stands for; DataError says what is wrong with it."""

    @abstractmethod
    def from_json(self, value: Any) -> Any:
        """The example that a request's JSON value stands for; DataError says what is wrong with it."""

    @abstractmethod
    def sample(self) -> Any:
        """A JSON value that `from_json` takes."""

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """A vector for each example, float32 [B, D]; by default NotSupportedError."""
        raise NotSupportedError(f"{type(self).__name__}: gives no vectors")

    def is_cut(self, example: Any, sequencer: Sequencer) -> bool:
        """Whether `encode` leaves out a part of an example; by default none does."""
        return False

    def parse_file(self, path: Path) -> list[tuple[str, Callable[[], Any]]]:
        """(file and line, what parses it) of each line of a text file that is not empty."""
        lines = read_lines(str(path))
        return [(f"{path}:{number}", partial(self.parse, line)) for number, line in lines if line.strip()]

    @abstractmethod
    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Any], classes: Sequence[str]
    ) -> list[Any]:
        """What is predicted for each example, fit for JSON."""

    def show_mistake(self, example: Any, detail: Any) -> Marked:
        """An example as a text with marks, and the `detail` of its case in the metric's `worst`; see `ShowsCases`.

        By default nothing, where no metric has a `worst`.
        """
        return []

    def count(self, tally: Tally, examples: Sequence[Any]) -> None:  # noqa: B027  (an offer, not a duty)
        """Count what the examples say of themselves, such as their labels; by default nothing."""

    @abstractmethod
    def describe(self, example: Any, result: Any) -> str:
        """An example and what is predicted for it, in a line or a few."""


register_role("problem", Problem, doc="What is asked of a text.")
