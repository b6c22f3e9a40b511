"""Decoding of a Transformer in Python, without a config: ids of sources to ids of results."""

from __future__ import annotations

import itertools

import numpy as np

import framework
<<<<<<< HEAD
from framework import nn, ops
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.nlp.models.transformer import Encoded, Transformer


@dataclass(frozen=True)
class Hypothesis:
    """A decoded sequence.

    Attributes:
        ids: its words, without start and stop.
        score: sum of the words' log-probabilities (that of stop with them), over the length penalty.
        complete: whether it ended with stop, and not at the length allowed.
    """

    ids: tuple[int, ...]
    score: float
    complete: bool


class Stepper(Protocol):
    """Gives the logits of the next word of every hypothesis, a step at a time."""

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """Logits [N, V].

        Args:
            words: int64 [N], the last word of each hypothesis.
            parents: int64 [N], which hypothesis of the step before each one continues.
            groups: int64 [B + 1], where the hypotheses of each source begin and end.
        """


class CachedStepper:
    """Computes the new word's row alone: keys and values of the words before are kept, the source's made once."""

    def __init__(self, model: Transformer, encoded: Encoded) -> None:
        self._model, self._offsets = model, encoded.offsets
        self._caches: Sequence[nn.DecoderCache] = model.caches(encoded)
        self._place = 0
        self._count = 0

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """See Stepper."""
        if self._place and not np.array_equal(parents, np.arange(self._count)):
            order = framework.tensor(parents)
            self._caches = [cache.reordered(order) for cache in self._caches]
        logits, self._caches = self._model.step(
            framework.tensor(words), self._place, self._caches, framework.tensor(groups), self._offsets
        )
        self._place, self._count = self._place + 1, len(words)
        return logits


class PlainStepper:
    """Decodes all words of every hypothesis again in each step: what a cache saves, for comparison."""

    def __init__(self, model: Transformer, encoded: Encoded) -> None:
        self._model = model
        self._memory = encoded.memory
        self._offsets = encoded.offsets.numpy()
        self._words = np.zeros((0, 0), np.int64)

    def __call__(self, words: np.ndarray, parents: np.ndarray, groups: np.ndarray) -> Tensor:
        """See Stepper."""
        before = self._words[parents] if self._words.size else np.zeros((len(words), 0), np.int64)
        self._words = np.concatenate([before, words[:, None]], axis=1)
        count, length = self._words.shape
        sources = np.repeat(np.arange(len(groups) - 1), np.diff(groups))
        lengths = np.diff(self._offsets)[sources]
        rows = np.concatenate([np.arange(self._offsets[s], self._offsets[s + 1]) for s in sources])
        memory = Encoded(
            ops.gather(self._memory, framework.tensor(rows)), framework.tensor(np.cumsum([0, *lengths.tolist()]))
        )
        offsets, last = np.arange(count + 1) * length, np.arange(1, count + 1) * length - 1
        words = self._words.reshape(-1)
        return self._model.decode(memory, framework.tensor(words), framework.tensor(offsets), framework.tensor(last))


@dataclass(frozen=True)
class Search:
    """How to decode.

    Args:
        beam: hypotheses kept of each source; 1 takes the likeliest word each time.
        max_length: words of a result at most, without stop.
        length_penalty: alpha of ((5 + length) / 6)^alpha, by which scores are divided (Wu et al. 2016); 0 for none.
        cached: keep keys and values between steps. The results are the same without.
    """

    beam: int = 1
    max_length: int = 128
    length_penalty: float = 0.6
    cached: bool = True

    def __post_init__(self) -> None:
        if min(self.beam, self.max_length) < 1 or self.length_penalty < 0:
            raise AttributeValueError(
                f"Search: beam is {self.beam}, max_length {self.max_length} and length_penalty {self.length_penalty}; "
                "they must be at least 1, 1 and 0"
            )

    def penalty(self, length: int) -> float:
        """What the score of `length` words, stop among them, is divided by."""
        return ((5 + length) / 6) ** self.length_penalty
=======
from framework.errors import DataError
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Hypothesis, Limits, Prompt, Search, Writer
>>>>>>> h-writes


def decode(
    model: Transformer, source: np.ndarray, offsets: np.ndarray, search: Search | None = None
) -> list[list[Hypothesis]]:
    """The best results of each source, best first.

    Args:
        model: is put into evaluation mode while it decodes.
        source: int64 [S], the words of all sources.
        offsets: int64 [B + 1], where each begins and ends; none may be empty.
        search: how; greedily if left out.

    Raises:
        DataError: a source is empty, or longer than the model's places.
    """
    offsets = np.asarray(offsets)
    _check(model, offsets)
    prompts = [Prompt(source=np.asarray(source[a:b])) for a, b in itertools.pairwise(offsets)]
    limits = Limits(model.start, model.stop, model.past_width, model.memory_width, length=model.max_length)
    writer = Writer(prompts, limits, search or Search())
    training = model.mode_now()
    model.eval()
    try:
        with framework.no_grad():
            while (arrays := writer.batch()) is not None:
                found = model.step(**{name: framework.from_numpy(array) for name, array in arrays.items()})
                writer.take({name: tensor.numpy() for name, tensor in found.items()})
    finally:
        model.train(training)
    return writer.results()


def _check(model: Transformer, offsets: np.ndarray) -> None:
    lengths = np.diff(offsets)
    if len(lengths) and not (lengths.min() >= 1 and lengths.max() <= model.max_length):
        b = int(np.argmax((lengths < 1) | (lengths > model.max_length)))
        raise DataError(f"decode: source {b} has {lengths[b]} words; it must have 1 ... {model.max_length}")
