"""Losses of the next word that look at a few words only, and penalties on a recurrent model's activations.

Letters: T words, W width of a state, V words of the vocabulary, N words that are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from framework import no_grad, ops, random
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.nlp.losses import IGNORED
from suites.nlp.models.outputs import States, TreeSoftmax

_FAR = -1e9  # stands for minus infinity among logits


@dataclass(frozen=True)
class Sampled:
    """Learns the next word against a few others that are drawn, in place of the whole vocabulary.

    Drawn are `count` words an update, with replacement, the same ones for all words of a batch, by a log-uniform
    distribution: P(k) = log((k + 2) / (k + 1)) / log(V + 1). So words should have their numbers by frequency, as those
    of `CharacterTokenizer` and `WordTokenizer` have. Evaluation takes the whole vocabulary.

    Args:
        kind: "softmax": cross entropy over the right word and those drawn, whose logits are less log(N P), so that the
            sum of exponentials is right in the mean (Bengio and Senécal 2008, Jean et al. 2015); "nce": which of right
            and drawn words are right, by logits less log(N P) (Gutmann and Hyvärinen 2010, Mnih and Teh 2012).
        count: N.
    """

    kind: Literal["softmax", "nce"] = "softmax"
    count: int = 64

    def __post_init__(self) -> None:
        if self.count < 1:
            raise AttributeValueError(f"Sampled: count is {self.count}; it must be 1 or more")

    def __call__(self, states: States, targets: Tensor) -> dict[str, Loss]:
        """The loss by name.  targets: int64 [T], IGNORED counts nothing."""
        assert states.weight is not None
        words = states.weight.shape[0]
        return self.of(states, targets, drawn(words, self.count))

    def of(self, states: States, targets: Tensor, others: Tensor) -> dict[str, Loss]:
        """The same with the words that are drawn, int64 [N]."""
        assert states.weight is not None
        words = states.weight.shape[0]
        there = ops.not_equal(targets, IGNORED)
        right = ops.where(there, targets, 0)
        known = ops.sum(states.x * ops.gather(states.weight, right), axes=(1,))
        unknown = ops.matmul(states.x, ops.gather(states.weight, others), transpose_b=True)
        if states.bias is not None:
            known, unknown = known + ops.gather(states.bias, right), unknown + ops.gather(states.bias, others)
        unknown = unknown - ops.expand_dims(log_expected(others, words, self.count), axis=0)  # [T, N]
        if self.kind == "nce":
            known = known - log_expected(right, words, self.count)
            each = ops.softplus(-known) + ops.sum(ops.softplus(unknown), axes=(1,))
        else:  # the right word always takes part, so its logit stands as it is, and it counts once
            hit = ops.equal(ops.expand_dims(right, axis=1), ops.expand_dims(others, axis=0))
            both = ops.concat([ops.expand_dims(known, axis=1), ops.where(hit, _FAR, unknown)], axis=1)
            each = ops.logsumexp(both, axes=(1,)) - known
        counted = ops.cast(there, dtype="float32")
        weight = ops.sum(counted)
        name = "nce" if self.kind == "nce" else "sampled_softmax"
        return {name: Loss(ops.sum(each * counted) / ops.maximum(weight, 1.0), weight)}


def drawn(words: int, count: int) -> Tensor:
    """Words, int64 [N], by the log-uniform distribution over `words`."""
    with no_grad():
        u = ops.random_uniform(random.default_generator.key(), shape=[count], dtype="float64")
        numbers = ops.cast(ops.floor(ops.exp(u * math.log(words + 1))), dtype="int64") - 1
        return ops.minimum(ops.maximum(numbers, 0), words - 1)


def log_expected(ids: Tensor, words: int, count: int) -> Tensor:
    """log(N P) of words, float32: how often each is expected among those drawn.  ids: int64 [...]."""
    k = ops.cast(ids, dtype="float64")
    share = ops.log((k + 2.0) / (k + 1.0)) * (count / math.log(words + 1))
    return ops.cast(ops.log(share), dtype="float32")


def over_tree(tree: TreeSoftmax, x: Tensor, targets: Tensor) -> dict[str, Loss]:
    """The loss of words as leaves of a tree, by name.  x: [T, W]; targets: int64 [T], IGNORED counts nothing."""
    there = ops.not_equal(targets, IGNORED)
    each = tree.surprise(x, ops.where(there, targets, 0))
    return {"tree": _mean(each, ops.cast(there, dtype="float32"), 1.0)}


@dataclass(frozen=True)
class Calm:
    """Penalties on what the last recurrent layer gives (Merity et al. 2017, arXiv:1708.01009), as AWD-LSTM has them.

    Args:
        size: alpha of the mean square of activations behind dropout (AR; 2 there).
        change: beta of the mean square of differences between neighbouring words of a text (TAR; 1 there).
    """

    size: float = 0.0
    change: float = 0.0

    def __post_init__(self) -> None:
        if not min(self.size, self.change) >= 0 or not max(self.size, self.change) > 0:
            raise AttributeValueError(
                f"Calm: size is {self.size} and change {self.change}; both must be 0 or more, and one above 0"
            )

    def __call__(self, states: States, targets: Tensor, offsets: Tensor) -> dict[str, Loss]:
        """Terms by name.  targets: int64 [T], of which IGNORED fill up; offsets: integer [N + 1]."""
        assert states.last is not None and states.dropped is not None
        there = ops.cast(ops.not_equal(targets, IGNORED), dtype="float32")
        found = {}
        if self.size:
            found["activation"] = _mean(ops.mean(ops.square(states.dropped), axes=(1,)), there, self.size)
        if self.change:
            texts = ops.ragged_segments(offsets, targets)
            same = ops.cast(ops.equal(texts[1:], texts[:-1]), dtype="float32") * there[1:] * there[:-1]
            moved = ops.mean(ops.square(states.last[1:] - states.last[:-1]), axes=(1,))
            found["change"] = _mean(moved, same, self.change)
        return found


def _mean(rows: Tensor, counted: Tensor, by: float) -> Loss:
    weight = ops.sum(counted)
    return Loss(ops.sum(rows * counted) / ops.maximum(weight, 1.0) * by, weight)
