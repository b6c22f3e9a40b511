"""The losses of the NLP suite: over classes, tags, numbers and places of answers."""

from __future__ import annotations

from dataclasses import dataclass

from framework import ops
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, SmoothedLabels, count_of

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

    def __call__(self, logits: Tensor, targets: Tensor, counted: Tensor | None = None) -> dict[str, Loss]:
        """The loss by name. logits: [B, 1]; targets: float32 [B]; counted: see `over_sequences`."""
        difference = ops.reshape_like(logits, targets) - targets
        return {"squared_error": over_sequences(ops.square(difference), targets, counted)}


@dataclass(frozen=True)
class SpanCrossEntropy:
    """Cross entropy of the first and the last token of the answer, each over the tokens of its sequence."""

    def __call__(
        self, starts: Tensor, ends: Tensor, offsets: Tensor, targets: Tensor, counted: Tensor | None = None
    ) -> dict[str, Loss]:
        """The losses by name.

        starts, ends: [T], logits; offsets: int64 [B + 1]; targets: int64 [B, 2], places in the sequence of the first
        and the last token of the answer, 0 where it holds none; counted: see `over_sequences`.
        """
        first = offsets[:-1]
        places = ops.expand_dims(first, axis=1) + targets
        return {
            "start": over_sequences(_surprise(starts, offsets, places[:, 0]), targets, counted),
            "end": over_sequences(_surprise(ends, offsets, places[:, 1]), targets, counted),
        }


def coverage_loss(attention: Tensor, offsets: Tensor, targets: Tensor) -> Loss:
    """How much is looked at again: the mean over words of sum_i min(a_i, c_i) (See et al. 2017, equation 12).

    c_i is all the attention that place i of the source got from the words before (equation 10).

    Args:
        attention: [T, L], of each target word by place in its source.
        offsets: integer [B + 1], of the targets.
        targets: int64 [T]; IGNORED counts nothing.
    """
    begun = ops.cast(ops.greater(ops.ragged_positions(offsets, attention), 0), attention.dtype)
    summed = ops.linear_scan(ops.expand_dims(begun, axis=1) + ops.full_like(attention, value=0.0), attention, axis=0)
    again = ops.sum(ops.minimum(attention, summed - attention), axes=(1,))
    return over_sequences(again, targets, ops.cast(ops.not_equal(targets, IGNORED), "float32"))


def over_sequences(each: Tensor, targets: Tensor, counted: Tensor | None) -> Loss:
    """The mean of a number for each sequence, [B].

    targets: [B, ...], of which there is one for each sequence; counted: float32 [B], 1 for a sequence that counts and 0
    for one that fills the batch up, None where all count.
    """
    if counted is None:
        return Loss(ops.mean(each), count_of(targets))
    sequences = ops.sum(counted)
    return Loss(ops.sum(each * counted) / ops.maximum(sequences, 1.0), sequences)


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
