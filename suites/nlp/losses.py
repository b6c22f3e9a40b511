"""The losses of the NLP suite: over classes, tags, numbers and places of answers."""

from __future__ import annotations

from dataclasses import dataclass

from framework import ops
from framework.tensor import Tensor
from suites.engine.losses import Loss, SmoothedLabels, count_of

IGNORED = -100  # the target of a token that has no tag of its own


@dataclass(frozen=True)
class CrossEntropy(SmoothedLabels):
    """Softmax cross entropy, the mean over sequences, or over the tokens that have a tag."""

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [B, K] or [T, K]; targets: int64 [B] or [T], IGNORED counts nothing."""
        loss = ops.cross_entropy(logits, targets, ignore_index=IGNORED, label_smoothing=self.label_smoothing)
        counted = ops.sum(ops.cast(ops.not_equal(targets, IGNORED), "float32"))
        return {"cross_entropy": Loss(ops.sum(loss) / ops.maximum(counted, 1.0), counted)}


@dataclass(frozen=True)
class SquaredError:
    """The squared difference, the mean over sequences."""

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [B, 1]; targets: float32 [B]."""
        difference = ops.reshape_like(logits, targets) - targets
        return {"squared_error": Loss(ops.mean(ops.square(difference)), count_of(targets))}


@dataclass(frozen=True)
class SpanCrossEntropy:
    """Cross entropy of the first and the last token of the answer, each over the tokens of its sequence."""

    def __call__(self, starts: Tensor, ends: Tensor, offsets: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The losses by name.

        starts, ends: [T], logits; offsets: int64 [B + 1]; targets: int64 [B, 2], places in the sequence of the first
        and the last token of the answer, 0 where it holds none.
        """
        first = ops.slice(offsets, starts=(0,), ends=(-1,), axes=(0,))
        places = ops.expand_dims(first, axis=1) + targets
        sequences = count_of(targets)
        return {
            "start": Loss(ops.mean(_surprise(starts, offsets, places[:, 0])), sequences),
            "end": Loss(ops.mean(_surprise(ends, offsets, places[:, 1])), sequences),
        }


def two_way_divergence(first: Tensor, second: Tensor) -> Tensor:
    """Mean over rows of (KL(p | q) + KL(q | p)) / 2 of two softmax distributions, a scalar.

    first, second: [B, K], logits.
    """
    p, q = ops.log_softmax(first), ops.log_softmax(second)
    rows = ops.sum((ops.exp(p) - ops.exp(q)) * (p - q), axes=(1,))
    return ops.mean(rows) * 0.5


def _surprise(logits: Tensor, offsets: Tensor, places: Tensor) -> Tensor:
    """[B]: -log softmax over each sequence's tokens, at `places`. logits: [T]; places: int64 [B], rows of logits."""
    highest = ops.segment_max(logits, offsets)[0].detach()  # any constant a sequence will do, so it needs no gradient
    shifted = logits - ops.segment_spread(highest, offsets, logits)
    return ops.log(ops.segment_sum(ops.exp(shifted), offsets)) - ops.gather(shifted, places)
