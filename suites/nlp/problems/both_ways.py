"""BiLanguageModeling: the next word and the one before, as ELMo's language model learns (Peters et al. 2018, 3.1).

Letters: B windows, T tokens, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from framework import ops
from framework.errors import DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.nlp.datasets import Passage, TextDataset
from suites.nlp.losses import IGNORED, CrossEntropy
from suites.nlp.metrics.language import BothWays
from suites.nlp.problems.base import Problem
from suites.nlp.problems.writing import shortened
from suites.nlp.sequences import Encoded, Sequencer


@register("problem")
class BiLanguageModeling(Problem):
    """The next word after those before it, and the one before after those behind it, of running text.

    Documents, each between its opening and closing token where the tokenizer has these, are cut to windows of
    `data.max_length` tokens. Every token is predicted from both sides, but a document's first one and last one once.
    """

    example_type: ClassVar[type] = Passage
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "targets", "before")
    inputs: ClassVar[tuple[str, ...]] = ("ids", "offsets")
    targets: ClassVar[tuple[str, ...]] = ("targets", "before")
    token_outputs: ClassVar[tuple[str, ...]] = ("next", "previous")
    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "targets": IGNORED, "before": IGNORED}
    spells: ClassVar[bool] = True
    main_metric = "loss_nats"
    lower_is_better: ClassVar[bool] = True

    def __init__(self) -> None:
        self._loss = CrossEntropy()

    def classes(self, dataset: TextDataset[Passage]) -> list[str]:
        """None."""
        return []

    def encode(
        self,
        examples: Sequence[Passage],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Windows as `ids`, the next token of each in `targets` and the one before in `before`."""
        tokenizer, width = sequencer.tokenizer, sequencer.max_length
        samples, owners = [], []
        for i, tokens in enumerate(sequencer.tokens(example.text for example in examples)):
            opening = [] if tokenizer.opening is None else [tokenizer.opening]
            closing = [] if tokenizer.closing is None else [tokenizer.closing]
            whole = np.array([IGNORED, *opening, *tokens.ids.tolist(), *closing, IGNORED], np.int64)
            spelled = sequencer.spelled(whole[1:-1], [(len(opening), tokens.characters)])
            for first in range(1, len(whole) - 1, width):
                last = min(first + width, len(whole) - 1)
                around = {"targets": whole[first + 1 : last + 1], "before": whole[first - 1 : last - 1]}
                own = {key: rows[first - 1 : last - 1] for key, rows in spelled.items()}
                samples.append({"ids": whole[first:last], **around, **own, "example": np.int64(i)})
                owners.append(i)
        if not samples:
            raise DataError(f"{name_of(0)}: the texts hold no tokens")
        return Encoded(samples, self.token_keys, lambda k: name_of(owners[k]))

    def losses(self, outputs: tuple[Tensor, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of both ways."""
        (after,) = self._loss(outputs[0], inputs["targets"]).values()
        (before,) = self._loss(outputs[1], inputs["before"]).values()
        return {"next": after, "previous": before}

    def predictions(self, outputs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Log-probabilities [T, V] of both ways."""
        return {"next": ops.log_softmax(outputs[0]), "previous": ops.log_softmax(outputs[1])}

    def metric(self, dataset: TextDataset[Passage], classes: Sequence[str]) -> Metric:
        """Loss and perplexity of both ways."""
        return BothWays()

    def parse(self, line: str) -> Passage:
        """A text."""
        if not line.strip():
            raise DataError("the text is empty")
        return Passage(line)

    def from_json(self, value: Any) -> Passage:
        """A text."""
        if not isinstance(value, str):
            raise DataError(f"takes a text, got {value!r:.40}")
        return self.parse(value)

    def sample(self) -> Any:
        """A text."""
        return "a"

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Passage], classes: Sequence[str]
    ) -> list[dict[str, float]]:
        """`perplexity` of each text, over both ways."""
        owners = np.repeat(np.asarray(batch["example"]), np.diff(np.asarray(batch["offsets"])))
        found = []
        for i in range(len(examples)):
            own = BothWays()
            rows = owners == i
            own.update({name: outputs[name][rows] for name in self.token_outputs},
                       {name: np.asarray(batch[name])[rows] for name in self.targets})  # fmt: skip
            found.append({"perplexity": round(own.result()["perplexity"], 3)})
        return found

    def describe(self, example: Passage, result: dict[str, float]) -> str:
        """The text and its perplexity."""
        return f"{shortened(example.text)} -> perplexity {result['perplexity']:g}"
