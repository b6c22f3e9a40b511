"""LanguageModeling: the next word of running text.

Letters: B windows, T tokens, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from framework.data import RandomDataset
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.nlp.datasets import Passage, TextDataset
from suites.nlp.losses import IGNORED, CrossEntropy
from suites.nlp.metrics.language import LanguageScores
from suites.nlp.models.base import TextModel
from suites.nlp.models.outputs import States
from suites.nlp.models.writing import WritingModel
from suites.nlp.problems.writing import WritingProblem, shortened
from suites.nlp.sampling import Calm, Sampled, over_tree
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.writing import Limits, Prompt, Search, Writer
from suites.nlp.writing.search import CONTINUED
from suites.nlp.writing.writer import STEP


@register("problem", exclusive=(("sampled", "loss"),))
class LanguageModeling(WritingProblem):
    """The next word, after all words of the window before it.

    Documents lie one after the other, each with its closing token, and are cut to windows of `data.max_length` tokens.
    A window holds tokens of one document only: short documents are sequences of their own beside others in a batch,
    without padding. In training a document that is longer is cut anew in each epoch. In evaluation every token but a
    window's first is predicted once, after at most `data.max_length` - 1 others.

    Args:
        search: how words are chosen where a text is continued.
        loss: what is minimised.
        opens: whether the opening token stands before a text; not for published models whose tokenizer has none.
        ends: whether documents end with the closing token, which the model then learns to write.
        sampled: learn against a few words that are drawn, in place of `loss`; null for the whole vocabulary.
        calm: penalties on the activations of a recurrent model; null for none.
    """

    example_type: ClassVar[type] = Passage
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "targets")
    inputs: ClassVar[tuple[str, ...]] = STEP
    learned: ClassVar[tuple[str, ...] | None] = ("ids", "offsets")
    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "targets": IGNORED}
    main_metric = "loss_nats"
    lower_is_better: ClassVar[bool] = True

    def __init__(
        self,
        search: Search | None = None,
        loss: CrossEntropy | None = None,
        opens: bool = True,
        ends: bool = True,
        sampled: Sampled | None = None,
        calm: Calm | None = None,
    ) -> None:
        super().__init__(search or CONTINUED)
        if self.search.coverage_penalty:
            raise AttributeValueError("LanguageModeling: search.coverage_penalty is for texts that have a source")
        self._loss, self._opens, self._ends = loss or CrossEntropy(), opens, ends
        self._sampled, self._calm = sampled, calm

    @property
    def opens(self) -> bool:
        """Whether the opening token stands before a text."""
        return self._opens

    def encode(
        self,
        examples: Sequence[Passage],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Windows as `ids` and `targets`, the next token of each, with how many characters and bytes that is."""
        tokenizer, width = sequencer.tokenizer, sequencer.max_length
        stop = tokenizer.closing
        start = stop if tokenizer.opening is None else tokenizer.opening
        samples, owners = [], []
        for i, (example, tokens) in enumerate(
            zip(examples, sequencer.tokens(each.text for each in examples), strict=True)
        ):
            whole = np.array([start] * self._opens + tokens.ids.tolist() + [stop] * self._ends, np.int64)
            if len(whole) < 2:
                continue
            rooms = np.arange(0, len(whole) - 1, width)
            shares = np.minimum(width, len(whole) - 1 - rooms) / (len(whole) - 1)
            text = sequencer.change(example.text)
            characters, size = len(text), len(text.encode("utf-8", "surrogatepass"))
            for first, share in zip(rooms.tolist(), shares.tolist(), strict=True):
                window = whole[first : first + width + 1]
                numbers = {"characters": np.float64(share * characters), "bytes": np.float64(share * size)}
                samples.append({"ids": window[:-1], "targets": window[1:], **numbers})
                owners.append(i)
        if not samples:
            raise DataError(f"{name_of(0)}: the texts hold no tokens")
        return Windows(samples, self.token_keys, lambda k: name_of(owners[k]), width, np.array(owners))

    def drawn(self, samples: Encoded) -> RandomDataset:
        """Windows that begin anywhere in their document."""
        assert isinstance(samples, Windows)
        return Shifted(samples)

    def on_host(self, arrays: Mapping[str, Any]) -> bool:
        """Where texts are written; in evaluation all words' next are asked for at once, of few shapes."""
        return "past" in arrays and (len(arrays["past"]) > 0 or len(arrays["rows"]) != len(arrays["ids"]))

    def asked(self, model: TextModel, *, training: bool) -> Callable[..., Any]:
        """The model's states in training, where losses look at these; else see `WritingProblem.asked`."""
        found = super().asked(model, training=training)
        assert isinstance(model, WritingModel)
        if not training or (self._sampled is None and self._calm is None and not model.tree):
            return found
        if self._calm is not None and not model.recurrent:
            raise AttributeValueError(
                f"LanguageModeling: calm is for recurrent models; {type(model).__name__} is none, take it away"
            )
        if model.tree and self._loss.label_smoothing:
            raise AttributeValueError("LanguageModeling: model.tree has no loss.label_smoothing; take one of them away")
        return partial(model.states, logits=self._sampled is None and not model.tree)

    def losses(self, outputs: Tensor | States, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of logits [T, V]; of states what is asked for."""
        targets = inputs["targets"]
        if not isinstance(outputs, States):
            return self._loss(outputs, targets)
        if self._sampled is None and outputs.tree is not None:
            found = over_tree(outputs.tree, outputs.x, targets)
        elif self._sampled is None:
            assert outputs.logits is not None
            found = self._loss(outputs.logits, targets)
        elif outputs.weight is None:
            raise AttributeValueError(
                "LanguageModeling: sampled needs one output matrix; take the model's cutoffs or tree away"
            )
        else:
            found = self._sampled(outputs, targets)
        return found if self._calm is None else found | self._calm(outputs, targets, inputs["offsets"])

    def parts(self, batch: Batch, model: TextModel) -> Iterable[Batch]:
        """The batch as a model that writes takes it: nothing is before, and all words' next are asked for."""
        self.asked(model, training=False)
        assert isinstance(model, WritingModel)
        offsets, count = np.asarray(batch["offsets"]), len(batch["ids"])
        places = np.arange(count) - np.repeat(offsets[:-1], np.diff(offsets))
        rows = np.arange(count)
        past = np.zeros((0, model.past_width), np.float32)
        more = {"places": places, "past": past, "order": rows, "key_offsets": offsets, "rows": rows}
        return ({**batch, **more},)

    def metric(self, dataset: TextDataset[Passage], classes: Sequence[str]) -> Metric:
        """Loss, perplexity, and bits per character and byte."""
        return LanguageScores()

    def prompts(self, items: Sequence[Passage], sequencer: Sequencer, limits: Limits) -> list[Prompt]:
        """The texts, of which only the ends are looked at where they are longer than the model's places."""
        room = self._room(sequencer, limits)
        found = sequencer.tokens(item.text for item in items)
        ends = [tuple(tokens.ids[max(len(tokens.ids) - room, 0) :].tolist()) for tokens in found]
        return [Prompt(ids) if self._opens or not ids else Prompt(ids[1:], start=ids[0]) for ids in ends]

    def _room(self, sequencer: Sequencer, limits: Limits | None = None) -> int:
        """Tokens of a prompt at most, so that what is written fits behind it."""
        most = sequencer.max_length if limits is None or limits.length is None else limits.length
        return max(most - 1 - self.search.max_length, (most - 1) // 2, 1)

    def written(self, writer: Writer, items: Sequence[Passage]) -> list[dict[str, Any]]:
        """How the texts go on, without them."""
        return self.texts_of(writer, whole=False)

    def parse(self, line: str) -> Passage:
        """A text to be continued."""
        return Passage(line)

    def from_json(self, value: Any) -> Passage:
        """A text to be continued."""
        if not isinstance(value, str):
            raise DataError(f"takes a text, got {value!r:.40}")
        return Passage(value)

    def sample(self) -> Any:
        """A text."""
        return "a"

    def is_cut(self, example: Passage, sequencer: Sequencer, limits: Limits | None = None) -> bool:
        """Whether its beginning is not looked at."""
        return len(sequencer.tokens([example.text])[0].ids) > self._room(sequencer, limits)

    def describe(self, example: Passage, result: dict[str, Any]) -> str:
        """The text's end, and how it goes on."""
        return f"{shortened(example.text)} -> {result['text']}"


class Windows(Encoded):
    """Windows of documents in flat arrays, see `Encoded`.

    Args:
        samples: of each its arrays and numbers.
        token_keys: keys of arrays with a row for each token.
        name_of: of a sample, for messages.
        width: tokens of a window at most.
        owners: int64 [N], the document of each; those of one stand together.
    """

    def __init__(
        self,
        samples: Sequence[Mapping[str, Any]],
        token_keys: Sequence[str],
        name_of: Callable[[int], str],
        width: int,
        owners: np.ndarray,
    ) -> None:
        super().__init__(samples, token_keys, name_of)
        self._width = width
        ends = np.append(np.flatnonzero(np.diff(owners)) + 1, len(owners))
        self._document_end = self._offsets[np.repeat(ends, np.diff(np.append(0, ends)))]

    def shifted(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """A window of the same length that begins up to a window later, where its document goes on."""
        found = self[index]
        first, last = int(self._offsets[index]), int(self._offsets[index + 1])
        room = min(self._width - 1, int(self._document_end[index]) - last)
        by = int(rng.integers(room + 1)) if room > 0 else 0
        return {**found, **{key: values[first + by : last + by] for key, values in self._tokens.items()}}


class Shifted:
    """What training draws of `windows`, anew in each epoch."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def __len__(self) -> int:
        return len(self._windows)

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """See `Windows.shifted`."""
        return self._windows.shifted(index, rng)

    def name_of(self, index: int) -> str:
        """Which document."""
        return self._windows.name_of(index)
