"""TextToText: a text is written from another one, as its translation, summary or answer.

Letters: B pairs, S tokens of all sources, T tokens of all targets, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from framework.data import collate
from framework.errors import AttributeValueError, ConfigError, DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Marked
from suites.nlp.datasets import Pair, TextDataset
from suites.nlp.losses import IGNORED, CrossEntropy, coverage_loss
from suites.nlp.metrics.writing import Figure, WrittenScores
from suites.nlp.models.base import TextModel
from suites.nlp.models.writing import Watched, WritingModel
from suites.nlp.problems.writing import WritingProblem, shortened, steps_of
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.writing import Limits, Prompt, Search, Writer, steps
from suites.nlp.writing.writer import SOURCE, STEP


@register("problem")
class TextToText(WritingProblem):
    """A text from another one.

    A source is its pieces and the closing token; a target begins with the opening one. Both are cut to
    `data.max_length`.

    Args:
        search: how words are chosen, in evaluation too.
        loss: what is minimised.
        figures: of what is written: "exact" (share of texts that are right), "bleu" and "chrf" by `sacrebleu`,
            "rouge1", "rouge2" and "rougeL" for summaries.
        main: the figure that decides which weights are best; null for the first.
        words: how BLEU cuts words: "13a" as WMT does, "zh", "char", "intl", or "none" for texts in tokens.
        lower_case: whether BLEU takes capital letters as small ones.
        coverage: weight of the loss for looking again at what was looked at (See et al. 2017, section 2.3, who take 1
            at the end of training), by the attention of a model that copies; 0 for none. It keeps summaries from
            saying things twice.
    """

    example_type: ClassVar[type] = Pair
    token_keys: ClassVar[tuple[str, ...]] = ("source", "target", "words")
    inputs: ClassVar[tuple[str, ...]] = (*STEP, *SOURCE)
    learned: ClassVar[tuple[str, ...] | None] = ("source", "source_offsets", "target", "target_offsets")
    targets: ClassVar[tuple[str, ...]] = ("words",)
    writes_targets: ClassVar[bool] = True
    fillers: ClassVar[Mapping[str, float] | None] = {"source": 0, "target": 0, "words": IGNORED}

    def __init__(
        self,
        search: Search | None = None,
        loss: CrossEntropy | None = None,
        figures: Sequence[Figure] = ("exact",),
        main: Figure | None = None,
        words: Literal["13a", "zh", "char", "intl", "none"] = "13a",
        lower_case: bool = False,
        coverage: float = 0.0,
    ) -> None:
        super().__init__(search)
        if not 0 <= coverage < float("inf"):
            raise AttributeValueError(f"TextToText: coverage is {coverage}; it must be 0 or more, and finite")
        self._coverage = coverage
        self._loss = loss or CrossEntropy(label_smoothing=0.1)
        self._figures, self._words, self._lower_case = tuple(figures), words, lower_case
        self.main_metric = main or self._figures[0]

    def sides(self) -> Mapping[str, tuple[str, ...]]:
        """Sources and targets."""
        return {"source_offsets": ("source",), "target_offsets": ("target", "words")}

    def encode(
        self,
        examples: Sequence[Pair],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Pairs as `source`, `target` (what is there before each word) and `words` (what is to come)."""
        tokenizer, most = sequencer.writing, sequencer.max_length
        stop = tokenizer.closing
        start = stop if tokenizer.opening is None else tokenizer.opening
        sources = self._sources(examples, sequencer)
        samples = []
        for i, tokens in enumerate(sequencer.target_tokens(example.target for example in examples)):
            whole = sequencer.head(np.array([start, *tokens.ids.tolist(), stop], np.int64), most + 1)
            sample = {"source": sources[i], "target": whole[:-1], "words": whole[1:], "example": np.int64(i)}
            samples.append(sample)
        return PairSamples(samples, name_of)

    def _sources(self, examples: Sequence[Pair], sequencer: Sequencer) -> list[np.ndarray]:
        stop, room = sequencer.tokenizer.closing, sequencer.max_length - 1
        found = sequencer.tokens(example.source for example in examples)
        return [np.array([*sequencer.head(tokens.ids, room).tolist(), stop], np.int64) for tokens in found]

    def collate(self, present: Container[str]) -> Callable[[list[Any]], dict[str, Any]]:
        """Batches of both sides one after the other, each with its offsets."""
        return _collate

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """See `WritingProblem.asked`; with `coverage` also the attention, of a model that copies, else ConfigError."""
        found = super().asked(model, training=training)
        if not self._coverage or not training:
            return found
        if not isinstance(model, WritingModel) or not model.copies:
            raise ConfigError(
                f"TextToText: coverage is {self._coverage:g}, but {type(model).__name__} copies nothing; set "
                "model.copying to true, or coverage to 0"
            )
        return model.watched

    def losses(self, outputs: Tensor | Watched, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of logits [T, V], and the loss of their attention with `coverage`."""
        if not isinstance(outputs, Watched):
            return self._loss(outputs, inputs["words"])
        again = coverage_loss(outputs.attention, inputs["target_offsets"], inputs["words"])
        return {**self._loss(outputs.logits, inputs["words"]), "coverage": again * self._coverage}

    def parts(self, batch: Batch, model: TextModel) -> Iterable[Batch]:
        """The steps of writing to a batch's sources."""
        sources = np.split(np.asarray(batch["source"]), np.asarray(batch["source_offsets"])[1:-1])
        writer = Writer(
            [Prompt(source=source) for source in sources],
            self.limits(model, self.tokenizer),
            self.search,
            self.tokenizer.continued,
        )
        return steps_of(writer, batch, steps(writer))

    def metric(self, dataset: TextDataset[Pair], classes: Sequence[str]) -> Metric:
        """The figures that are asked for."""
        references = [example.target for example in dataset.examples]
        return WrittenScores(references, self._text, self._figures, self._words, self._lower_case)

    def _text(self, writer: Writer) -> list[str]:
        return [each["text"] for each in self.texts_of(writer, whole=True)]

    def require(self, item: Pair, sequencer: Sequencer, limits: Limits) -> None:
        """Raise DataError for a beginning of characters that no token stands for, or without room behind it."""
        ids = sequencer.target_tokens([item.target])[0].ids
        if (ids == sequencer.writing.unknown).any():
            raise DataError(
                f"no text can begin with {item.target[:40]!r}: the vocabulary of what is written has no token for a "
                "part of it"
            )
        if limits.length is not None and len(ids) + 1 >= limits.length:
            raise DataError(
                f"the beginning {item.target[:40]!r} has {len(ids)} tokens; the model has places for "
                f"{limits.length - 2}, and one to follow"
            )

    def prompts(self, items: Sequence[Pair], sequencer: Sequencer, limits: Limits) -> list[Prompt]:
        """Sources, each with the beginning that its result must have."""
        begun = sequencer.target_tokens(item.target for item in items)
        sources = self._sources(items, sequencer)
        return [Prompt(tuple(b.ids.tolist()), s) for b, s in zip(begun, sources, strict=True)]

    def written(self, writer: Writer, items: Sequence[Pair]) -> list[dict[str, Any]]:
        """The texts, with the beginnings that were given."""
        return self.texts_of(writer, whole=True)

    def parse(self, line: str) -> Pair:
        """A text; behind a tab the beginning of what is written from it."""
        source, _, begun = line.partition("\t")
        if not source.strip():
            raise DataError("the text is empty")
        return Pair(source, begun)

    def from_json(self, value: Any) -> Pair:
        """A text, or {"text": ..., "prefix": ...} with the beginning of what is written."""
        fields = {"text": value} if isinstance(value, str) else value
        if not isinstance(fields, dict) or not set(fields) <= {"text", "prefix"}:
            raise DataError(f'takes a text or {{"text": ..., "prefix": ...}}, got {value!r:.60}')
        source, begun = fields.get("text"), fields.get("prefix", "")
        if not isinstance(source, str) or not isinstance(begun, str) or not source.strip():
            raise DataError(f"text and prefix must be texts, the first one not empty; got {value!r:.60}")
        return Pair(source, begun)

    def sample(self) -> Any:
        """A text."""
        return "a"

    def is_cut(self, example: Pair, sequencer: Sequencer, limits: Limits | None = None) -> bool:
        """Whether the source has more tokens than fit."""
        return len(sequencer.tokens([example.source])[0].ids) > sequencer.max_length - 1

    def show_mistake(self, example: Pair, detail: Any) -> Marked:
        """The source, what was expected and what was written."""
        return [(f"{example.source}\n\n", ""), (f"{example.target}\n\n", "right"), (str(detail), "wrong")]

    def describe(self, example: Pair, result: dict[str, Any]) -> str:
        """Both texts."""
        return f"{shortened(example.source)} -> {result['text']}"


class PairSamples(Encoded):
    """Samples in flat arrays with sides of different lengths.

    Args:
        samples: of each `source` [s], `target` and `words` [t], and numbers.
        name_of: file and line of sample i, for messages.
    """

    def __init__(self, samples: Sequence[Mapping[str, Any]], name_of: Callable[[int], str]) -> None:
        others = [{key: value for key, value in sample.items() if key != "source"} for sample in samples]
        super().__init__(others, ("target", "words"), name_of)
        sources = [sample["source"] for sample in samples]
        self._source = np.concatenate(sources)
        self._source_ends = np.cumsum([0, *map(len, sources)], dtype=np.int64)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of both sides of each sample, int64 [N]."""
        return super().lengths + np.diff(self._source_ends)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """The arrays and numbers of a sample, and its name."""
        source = self._source[self._source_ends[index] : self._source_ends[index + 1]]
        return {"source": source, **super().__getitem__(index)}


def _collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
    ragged = {key: [sample[key] for sample in samples] for key in TextToText.token_keys}
    batch: dict[str, Any] = {key: np.concatenate(parts) for key, parts in ragged.items()}
    for side in ("source", "target"):
        batch[f"{side}_offsets"] = np.cumsum([0, *map(len, ragged[side])], dtype=np.int64)
    return batch | collate([{k: v for k, v in sample.items() if k not in ragged} for sample in samples])
