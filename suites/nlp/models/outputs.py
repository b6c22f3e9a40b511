"""What stands behind the states of a language model: its output matrix, and adaptive softmax.

Letters: T words, W width that the output matrix reads, D units of the last recurrent layer, V words of the vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor


class States(NamedTuple):
    """What losses see that do without all logits, or look at activations.

    Attributes:
        x: [T, W], what the output matrix reads.
        weight: [V, W], the output matrix; None where it is in parts.
        bias: [V], or None.
        logits: [T, V]; None where nobody asked for them.
        last: [T, D], what the last recurrent layer gives; None where there is none.
        dropped: [T, D], the same behind dropout.
    """

    x: Tensor
    weight: Tensor | None
    bias: Tensor | None = None
    logits: Tensor | None = None
    last: Tensor | None = None
    dropped: Tensor | None = None


class AdaptiveSoftmax(nn.Layer):
    """Log-probabilities by clusters of words, the rare ones narrower (Grave et al. 2017, sections 4.2 and 4.3).

    The first cluster's words and one number a further cluster share a softmax; a word of cluster c >= 1 has the product
    of that number's probability and its own within the cluster, whose matrix reads a projection of width W / 4^c. Words
    have their numbers by frequency, as tokenizers that count give them.

    Args:
        width: W.
        words: V.
        cutoffs: where further clusters begin, rising, between 0 and V.
        factor: by which each cluster is narrower than the one before.
    """

    def __init__(self, width: int, words: int, cutoffs: Sequence[int], factor: int = 4) -> None:
        super().__init__()
        bounds = [0, *cutoffs, words]
        if any(a >= b for a, b in itertools.pairwise(bounds)) or factor < 1 or not cutoffs:
            raise AttributeValueError(
                f"AdaptiveSoftmax: cutoffs are {list(cutoffs)} of {words} words, factor {factor}; cutoffs must rise "
                "between 0 and the words, and factor be 1 or more"
            )
        self.first, self.clusters = cutoffs[0], len(cutoffs)
        self.head = nn.Linear(width, cutoffs[0] + len(cutoffs), bias=False)
        narrow = [max(width // factor**c, 1) for c in range(1, len(cutoffs) + 1)]
        self.projections = nn.LayerList(nn.Linear(width, size, bias=False) for size in narrow)
        sizes = [b - a for a, b in itertools.pairwise(bounds[1:])]
        self.tails = nn.LayerList(nn.Linear(n, size, bias=False) for n, size in zip(narrow, sizes, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities [T, V], which are logits as well.  x: [T, W]."""
        first, *ways = ops.split(ops.log_softmax(self.head(x)), axis=1, sizes=[self.first] + [1] * self.clusters)
        parts = [first]
        for way, projection, tail in zip(ways, self.projections, self.tails, strict=True):
            parts.append(way + ops.log_softmax(tail(projection(x))))
        return ops.concat(parts, axis=1)
