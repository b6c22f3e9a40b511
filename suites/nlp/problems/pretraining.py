"""Pretraining: hidden words are guessed from those around them, and whether two texts follow each other.

BERT's two tasks (Devlin et al. 2019) with the masks of ERNIE 1.0 (Sun et al. 2019); ALBERT's order of sentences (Lan et
al. 2020) in place of the second. A trained model fills [MASK] in texts.

Letters: T tokens, M hidden tokens, B sequences, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from framework import ops
from framework.data import RandomDataset
from framework.data.streams import sample_rng
from framework.errors import DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.nlp.datasets import Document, TextDataset
from suites.nlp.datasets.documents import plain_document
from suites.nlp.losses import IGNORED, CrossEntropy
from suites.nlp.masking import Hidden, Masker, Masks, tokens_in
from suites.nlp.metrics import PretrainingScores
from suites.nlp.pairing import Drawn, Passages, Relation
from suites.nlp.problems.base import Problem
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.tokenizers import Tokenizer

_BEST = 5  # words that are told for a hidden token
_SHOWN = 40  # characters of a text in a line for people


@register("problem")
class Pretraining(Problem):
    """Hidden words, and whether a second text follows the first.

    Which tokens are hidden, where a passage is split in two, and what takes the place of the second text are drawn anew
    in each epoch, by (seed, epoch, passage); in evaluation they are always the same.

    Args:
        sentences: "next": does the second text follow the first, or is it of another document; "order": does it follow
            the first, or come before it; "none": there is but one text. A passage of one sentence has no second text.
        masks: which tokens are hidden, and how.
    """

    example_type: ClassVar[type] = Document
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "segment_ids", "labels")
    inputs: ClassVar[tuple[str, ...]] = ("ids", "offsets", "segment_ids", "masked")
    targets: ClassVar[tuple[str, ...]] = ("targets", "related")
    fillers: ClassVar[Mapping[str, float] | None] = {
        "ids": 0,
        "segment_ids": 0,
        "targets": IGNORED,
        "related": IGNORED,
    }
    main_metric = "word_accuracy"

    def __init__(self, sentences: Relation = "next", masks: Masks | None = None) -> None:
        self._relation: Relation = sentences
        self._masks = masks or Masks()
        self._loss = CrossEntropy()
        self._vocabulary: Sequence[str] = ()

    def rows_of(self, name: str) -> Literal["token", "sequence", "hidden"]:
        """See `Problem.rows_of`."""
        return "hidden" if name in ("masked", "targets", "words") else super().rows_of(name)

    def classes(self, dataset: TextDataset[Document]) -> list[str]:
        """None: what is guessed are tokens."""
        return []

    def take_tokenizer(self, tokenizer: Tokenizer) -> None:
        """Keep the names of tokens."""
        self._vocabulary = tokenizer.vocabulary

    def encode(
        self,
        examples: Sequence[Document],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Passages that are drawn from; without `truth`, one sequence for each example, cut to fit."""
        if not sequencer.keeps_places:
            raise DataError(
                "Pretraining: data.transforms moves characters, but words are places in a text; take it out"
            )
        masker = Masker(self._masks, sequencer.tokenizer)
        if truth:
            return Passages(examples, sequencer, masker, self._relation, name_of)
        samples = [_to_fill(example, sequencer, masker) for example in examples]
        return Encoded(samples, self.token_keys, name_of)

    def drawn(self, samples: Encoded) -> RandomDataset:
        """The passages, drawn from anew in each epoch."""
        assert isinstance(samples, Passages)
        return Drawn(samples)

    def collate(self, present: Container[str]) -> Callable[[list[Any]], dict[str, Any]]:
        """Batches with `masked` int64 [M], the hidden tokens among all T, and `targets` int64 [M], what stood there."""
        return _WithMasked(super().collate(present))

    def losses(self, outputs: tuple[Tensor, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of the hidden words; and of the pairs, where there are any."""
        words = {"words": self._loss(outputs[0], inputs["targets"])["cross_entropy"]}
        if self._relation == "none":
            return words
        return words | {"pairs": self._loss(outputs[1], inputs["related"])["cross_entropy"]}

    def predictions(self, outputs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """`words` [M, V], log-probabilities; `pairs` [B, 2], probabilities that the second text fits, and does not."""
        return {"words": ops.log_softmax(outputs[0], axis=-1), "pairs": ops.softmax(outputs[1], axis=-1)}

    def metric(self, dataset: TextDataset[Document], classes: Sequence[str]) -> Metric:
        """Accuracy and perplexity of hidden words, accuracy of pairs."""
        return PretrainingScores()

    def parse(self, line: str) -> Document:
        """A text with [MASK] for each token to guess."""
        return plain_document(line)

    def from_json(self, value: Any) -> Document:
        """A text with [MASK] for each token to guess."""
        if not isinstance(value, str):
            raise DataError(f"takes a text, got {value!r:.40}")
        return self.parse(value)

    def sample(self) -> Any:
        """A text."""
        return "a [MASK]"

    def is_cut(self, example: Document, sequencer: Sequencer) -> bool:
        """Whether its text has more tokens than fit."""
        return sum(len(tokens.ids) for tokens in sequencer.tokens(s.text for s in example.sentences)) > sequencer.room(
            False
        )

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Document], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """For each [MASK] the most probable tokens; for tokens that were hidden here also what stood there."""
        owners = np.searchsorted(np.asarray(batch["offsets"]), np.asarray(batch["masked"]), side="right") - 1
        found: list[dict[str, Any]] = [{"hidden": []} for _ in examples]
        for owner, scores, truth in zip(owners.tolist(), outputs["words"], np.asarray(batch["targets"]), strict=True):
            known = scores[: len(self._vocabulary)]  # a model may have more rows than the vocabulary has tokens
            best = np.argsort(-known, kind="stable")[:_BEST]
            words = [{"token": self._vocabulary[i], "probability": round(float(np.exp(scores[i])), 5)} for i in best]
            found[owner]["hidden"].append({"token": self._vocabulary[truth], "words": words})
        return found

    def describe(self, example: Document, result: dict[str, Any]) -> str:
        """The text's start and the best guess for each hidden token."""
        text = "".join(sentence.text for sentence in example.sentences)
        guesses = ", ".join(f"{h['token']}: {h['words'][0]['token']}" for h in result["hidden"])
        return f"{text if len(text) <= _SHOWN else text[:_SHOWN] + '...'} -> {guesses}"


@register("problem")
class FillMask(Pretraining):
    """Hidden words alone, for a `MaskedLanguageModel`: for each mask token of a text the most probable tokens.

    Args:
        masks: in training, which tokens are hidden, and how.
    """

    targets: ClassVar[tuple[str, ...]] = ("targets",)

    def __init__(self, masks: Masks | None = None) -> None:
        super().__init__("none", masks)

    def encode(
        self,
        examples: Sequence[Document],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """See `Pretraining.encode`; DataError for a text to fill that has no mask token."""
        number = sequencer.tokenizer.mask
        if number is None:
            raise DataError("FillMask: the tokenizer has no mask token")
        for example in () if truth else examples:
            texts = [sentence.text for sentence in example.sentences]
            if not any(number in tokens.ids for tokens in sequencer.tokens(texts)):
                mask = sequencer.tokenizer.vocabulary[number]
                raise DataError(f"'{''.join(texts)[:_SHOWN]}': has no {mask}, which stands for the word to guess")
        return super().encode(examples, sequencer, classes, name_of, truth=truth)

    def losses(self, outputs: Any, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of the hidden words.  outputs: logits [M, V]."""
        return {"words": self._loss(outputs, inputs["targets"])["cross_entropy"]}

    def predictions(self, outputs: Any) -> dict[str, Tensor]:
        """`words` [M, V], log-probabilities, of logits [M, V]."""
        return {"words": ops.log_softmax(outputs, axis=-1)}


class _WithMasked:
    """Adds to a batch where its hidden tokens are."""

    def __init__(self, collate: Callable[[list[Any]], dict[str, Any]]) -> None:
        self._collate = collate

    def __call__(self, samples: list[Any]) -> dict[str, Any]:
        batch = self._collate(samples)
        masked = np.flatnonzero(batch["labels"] != IGNORED)
        return {**batch, "masked": masked, "targets": batch["labels"][masked]}


def _to_fill(example: Document, sequencer: Sequencer, masker: Masker) -> dict[str, np.ndarray]:
    """One sequence of a document's text; where it has no [MASK], tokens are hidden as in evaluation."""
    room, mask = sequencer.room(pair=False), sequencer.tokenizer.mask
    tokens = sequencer.tokens(sentence.text for sentence in example.sentences)
    ids = np.concatenate([found.ids for found in tokens])[:room]
    sequence = sequencer.join(ids)
    labels = np.where(sequence.ids == mask, sequence.ids, IGNORED)
    hidden = Hidden(sequence.ids, labels)
    if mask not in ids and len(ids):
        numbers = np.full((2, len(sequence.ids)), -1, np.int64)
        parts = [tokens_in(t.spans, (s.words, s.names)) for t, s in zip(tokens, example.sentences, strict=True)]
        for row, values in zip(numbers, zip(*parts, strict=True), strict=True):
            row[sequence.first : sequence.first + len(ids)] = np.concatenate(values)[:room]
        hidden = masker(sequence.ids, numbers[0], numbers[1], sample_rng(0, 0, 0))
    return {"ids": hidden.ids, "segment_ids": sequence.segment_ids, "labels": hidden.labels}
