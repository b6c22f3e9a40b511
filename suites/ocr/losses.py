"""The losses of finding and reading text.

Letters: N batch, H W size of maps, T columns, K classes, L characters of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework import ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, count_of
from suites.vision.mining import hardest, negatives_for

_LEAST = 1e-6


@dataclass(frozen=True)
class MapLoss:
    """What DBNet minimises: cross entropy of text with its hardest negatives, overlap of the binary map, thresholds.

    Args:
        text: factor of the cross entropy.
        binary: factor of 1 - Dice of the binary map.
        threshold: factor of the mean distance of thresholds near borders.
        negatives: pixels without text that count, for each with text: the hardest.
    """

    text: float = 5.0
    binary: float = 1.0
    threshold: float = 10.0
    negatives: float = 3.0

    def __post_init__(self) -> None:
        if min(self.text, self.binary, self.threshold, self.negatives) < 0:
            raise AttributeValueError("loss: factors and negatives must be 0 or more")

    def __call__(self, maps: tuple[Tensor, Tensor, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name.

        Args:
            maps: logits, thresholds and the binary map of `DBNet.maps`, [N, H, W] each.
            wanted: `text`, `counted`, `threshold` and `near` of `targets`, [N, H, W] each.
        """
        logits, threshold, binary = maps
        text, counted, near = wanted["text"], wanted["counted"], wanted["near"]
        images = count_of(logits)
        return {
            "text": Loss(self._cross_entropy(logits, text, counted) * self.text, images),
            "binary": Loss(_dice_loss(binary, text, counted) * self.binary, images),
            "threshold": Loss(_distance(threshold, wanted["threshold"], near) * self.threshold, images),
        }

    def _cross_entropy(self, logits: Tensor, text: Tensor, counted: Tensor) -> Tensor:
        """The mean over the pixels of text and as many of the hardest others, of each image; then over images."""
        losses = ops.flatten(ops.sigmoid_cross_entropy(logits, text), start=1)
        positives = ops.flatten(text * counted, start=1)
        others = ops.flatten((1.0 - text) * counted, start=1)
        wanted = negatives_for(positives, self.negatives, least=1.0)
        negative = hardest(losses, others > 0.5, wanted)
        count = ops.sum(positives, axes=(1,)) + ops.minimum(wanted, ops.sum(others, axes=(1,)))
        return ops.mean((ops.sum(losses * positives, axes=(1,)) + negative) / ops.maximum(count, 1.0))


def _dice_loss(found: Tensor, text: Tensor, counted: Tensor) -> Tensor:
    """1 - 2 |both| / (|found| + |text|) over the pixels that count."""
    both = ops.sum(found * text * counted)
    either = ops.sum(found * counted) + ops.sum(text * counted)
    return 1.0 - 2.0 * both / (either + _LEAST)


def _distance(found: Tensor, wanted: Tensor, near: Tensor) -> Tensor:
    """The mean of |found - wanted| where `near` is 1."""
    return ops.sum(ops.abs(found - wanted) * near) / (ops.sum(near) + _LEAST)


def ctc(logits: Tensor, inputs: Mapping[str, Tensor]) -> Loss:
    """The mean over lines of the negative log-likelihood of their texts.

    Args:
        logits: [N, T, K], class 0 the blank.
        inputs: `columns` int64 [N + 1], multiples of T from 0; `labels` int64 [L]; `label_offsets` int64 [N + 1].
    """
    rows = ops.flatten(logits, start=0, end=1)
    labels, ends = inputs["labels"], inputs["label_offsets"]
    loss = ops.ctc_loss(rows, inputs["columns"], labels, ends, blank=0, zero_infinity=True)
    return Loss(ops.mean(loss), count_of(logits))
