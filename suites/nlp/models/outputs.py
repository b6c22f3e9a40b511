"""What stands behind the states of a language model: its output matrix, adaptive and hierarchical softmax.

Letters: T words, W width that the output matrix reads, D units of the last recurrent layer, V words of the vocabulary.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor, tensor


class States(NamedTuple):
    """What losses see that do without all logits, or look at activations.

    Attributes:
        x: [T, W], what the output matrix reads.
        weight: [V, W], the output matrix; None where there is none in one part.
        bias: [V], or None.
        logits: [T, V]; None where nobody asked for them.
        last: [T, D], what the last recurrent layer gives; None where there is none.
        dropped: [T, D], the same behind dropout.
        tree: what gives a word's probability without all logits, from `x`; None where there is none.
    """

    x: Tensor
    weight: Tensor | None
    bias: Tensor | None = None
    logits: Tensor | None = None
    last: Tensor | None = None
    dropped: Tensor | None = None
    tree: TreeSoftmax | None = None


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


class TreeSoftmax(nn.Layer):
    """Log-probabilities by ways through a tree: hierarchical softmax (Morin and Bengio 2005, Mikolov et al. 2013).

    Words are the leaves of a Huffman tree over the log-uniform distribution P(k) ~ log((k + 2) / (k + 1)), so words
    should have their numbers by frequency. A node goes to its first side by sigmoid(x w + b), and a word has the
    product of the decisions on its way. Learning looks at the nodes on the right word's way alone, at most a few more
    than log2(V), where a softmax looks at V words.

    Args:
        width: W.
        words: V, at least 2.
    """

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        if words < 2:
            raise AttributeValueError(f"TreeSoftmax: there are {words} words; a tree needs 2 or more")
        self.nodes = nn.Embedding(words - 1, width, initializer=nn.init.Normal(width**-0.5))
        self.biases = nn.Embedding(words - 1, 1, initializer=nn.init.Constant(0.0))
        tree = _Tree(words)
        self._ways, self._sides = tensor(tree.ways), tensor(tree.sides)
        self._levels = [(count, tensor(inner), tensor(leaves)) for count, inner, leaves in tree.levels]
        self._words = tensor(tree.places)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities [T, V], which are logits as well.  x: [T, W]."""
        scores = ops.matmul(x, self.nodes.weight, transpose_b=True) + self.biases.weight[:, 0]
        reached = ops.full_like(scores[:, :1], value=0.0)
        found, first = [], 0
        for count, inner, leaves in self._levels:
            level = scores[:, first : first + count]
            sides = ops.concat([reached + ops.log_sigmoid(level), reached + ops.log_sigmoid(-level)], axis=1)
            reached, first = ops.gather(sides, inner, axis=1), first + count
            found.append(ops.gather(sides, leaves, axis=1))
        return ops.gather(ops.concat(found, axis=1), self._words, axis=1)

    def surprise(self, x: Tensor, words: Tensor) -> Tensor:
        """-log of the probabilities of words, [T].  x: [T, W]; words: int64 [T]."""
        ways, sides = ops.gather(self._ways, words), ops.gather(self._sides, words)  # [T, depth]
        scores = ops.sum(ops.expand_dims(x, axis=1) * self.nodes(ways), axes=(2,)) + self.biases(ways)[:, :, 0]
        return ops.sum(ops.softplus(-scores * sides) * ops.abs(sides), axes=(1,))


class _Tree:
    """A Huffman tree as arrays; nodes have their numbers by depth, the root is 0.

    Args:
        words: V.

    Attributes:
        ways: int64 [V, depth], nodes from the root to a word, 0 behind its way.
        sides: float32 [V, depth], 1 where a way goes to the first side, -1 to the second, 0 behind it.
        levels: of each depth its nodes' count, and which of their first, then second sides are nodes and words.
        places: int64 [V], where a word stands among those of all levels.
    """

    def __init__(self, words: int) -> None:
        heap: list[tuple[float, int]] = [(math.log((k + 2) / (k + 1)), k) for k in range(words)]
        heapq.heapify(heap)
        sides: dict[int, tuple[int, int]] = {}
        for node in range(words, 2 * words - 1):  # numbers below V are words
            (a, one), (b, other) = heapq.heappop(heap), heapq.heappop(heap)
            sides[node] = (other, one)
            heapq.heappush(heap, (a + b, node))
        ways: dict[int, list[tuple[int, int]]] = {2 * words - 2: []}
        level, first, order = [2 * words - 2], 0, []
        self.levels: list[tuple[int, np.ndarray, np.ndarray]] = []
        while level:
            below = [sides[node][side] for side in (0, 1) for node in level]
            for i, child in enumerate(below):
                at = i % len(level)
                ways[child] = [*ways[level[at]], (first + at, 1 if i < len(level) else -1)]
            leaves = np.flatnonzero(np.array(below) < words)
            inner = np.flatnonzero(np.array(below) >= words)
            self.levels.append((len(level), inner, leaves))
            order += [below[i] for i in leaves]
            first, level = first + len(level), [below[i] for i in inner]
        self.places = np.argsort(np.array(order)).astype(np.int64)
        self.ways = np.zeros((words, len(self.levels)), np.int64)
        self.sides = np.zeros((words, len(self.levels)), np.float32)
        for word in range(words):
            for depth, (node, side) in enumerate(ways[word]):
                self.ways[word, depth], self.sides[word, depth] = node, side


def _log_uniform(shape: Sequence[int], _: np.random.Generator) -> np.ndarray:
    """log P(k) of words [V] that have their numbers by frequency; see `suites.nlp.sampling.Sampled`."""
    k = np.arange(shape[0])
    return np.log(np.log((k + 2) / (k + 1)) / math.log(shape[0] + 1)).astype(np.float32)


def output_layer(width: int, words: int, cutoffs: Sequence[int], tree: bool) -> nn.Layer:
    """What tells words apart: a linear layer, `AdaptiveSoftmax` where there are cutoffs, or `TreeSoftmax`.

    The linear layer begins with the words' frequencies as its bias (Mnih and Teh 2012, section 4): noise-contrastive
    estimation would take thousands of updates to find them.
    """
    if tree:
        return TreeSoftmax(width, words)
    if cutoffs:
        return AdaptiveSoftmax(width, words, cutoffs)
    found = nn.Linear(width, words)
    found.add_parameter("bias", (words,), _log_uniform)
    return found
