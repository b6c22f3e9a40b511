"""What every classifier of feature sequences is, and what they share.

Letters: N sequences, T rows of all of them, C features of a row, U heads of attention, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.video.models.base import VideoClassifier, check_classes


class SequenceClassifier(VideoClassifier):
    """Sequences of features to logits [N, K].

    Args:
        modalities: what a row holds and how many numbers of it, such as {rgb: 1024, audio: 128}.
        num_classes: K.

    Attributes:
        modalities: in the order given.
    """

    def __init__(self, modalities: Mapping[str, int], num_classes: int) -> None:
        super().__init__()
        who = type(self).__name__
        if not modalities or min(modalities.values()) < 1:
            raise AttributeValueError(
                f"{who}: modalities is {dict(modalities)}; it must say how many numbers each has, such as "
                "{rgb: 1024, audio: 128}"
            )
        if reserved := {"offsets", "targets", "labels", "name"} & modalities.keys():
            raise AttributeValueError(f"{who}: a modality is called '{min(reserved)}', which batches use otherwise")
        self.modalities = dict(modalities)
        self.num_classes = check_classes(who, num_classes)

    def forward(self, features: Mapping[str, Tensor], offsets: Tensor) -> Tensor:
        """features: [T, C] of each modality; offsets: int64 [N + 1]; logits [N, K]."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")


def segment_softmax(scores: Tensor, offsets: Tensor) -> Tensor:
    """Weights [T, U] that sum to 1 over the rows of each sequence, none of which may be empty."""
    with no_grad():
        largest, _ = ops.segment_max(scores.detach(), offsets)
        largest = ops.segment_spread(largest, offsets, scores)
    shares = ops.exp(scores - largest)
    return shares / ops.segment_spread(ops.segment_sum(shares, offsets), offsets, scores)
