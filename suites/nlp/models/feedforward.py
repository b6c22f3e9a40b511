"""FeedforwardLanguageModel: the next word from the last few, by one hidden layer.

Letters: T words, N texts, K words of texts with those before, W width of a word vector, M words that are looked at, V
words of the vocabulary.
"""

from __future__ import annotations

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.outputs import States, TreeSoftmax, output_layer
from suites.nlp.models.writing import WritingModel, expect_positive, told


@register("text_model", exclusive=(("cutoffs", "tree"),))
class FeedforwardLanguageModel(WritingModel):
    """The neural probabilistic language model of Bengio et al. 2003 (section 2, equation 1), known as NNLM.

    The vectors x of the last `window` words stand side by side: y = b + A x + U tanh(d + H x). Before a text's first
    word stand vectors of zeros.

    Args:
        vocab_size: V.
        width: W.
        window: M, n - 1 of the paper's n-grams.
        hidden: units of the hidden layer.
        direct: the word vectors reach the output past the hidden layer, too (A).
        dropout: share of word vectors' and hidden units' values that is 0 in training; the paper has none.
        max_length: words of a text at most.
        cutoffs: where clusters of rarer words begin, for adaptive softmax (Grave et al. 2017). Words should have their
            numbers by frequency.
        tree: hierarchical softmax (Morin and Bengio 2005): words are leaves of a tree. Numbers by frequency, too.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int = 60,
        window: int = 4,
        hidden: int = 100,
        direct: bool = False,
        dropout: float = 0.0,
        max_length: int = 1024,
        cutoffs: tuple[int, ...] = (),
        tree: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        expect_positive(name, vocab_size=vocab_size, width=width, window=window, hidden=hidden, max_length=max_length)
        self.vocab_size, self.max_length, self.past_width, self.tree = vocab_size, max_length, width, tree
        self._window, self._direct = window, direct
        self.words = nn.Embedding(vocab_size, width, initializer=nn.init.Normal(width**-0.5))
        self.hidden = nn.Linear(window * width, hidden)
        self.dropout = nn.Dropout(dropout)
        self.head = output_layer(hidden + direct * window * width, vocab_size, cutoffs, tree)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Logits [T, V] of the word after each.  ids: int64 [T]; offsets: integer [N + 1]."""
        logits: Tensor = self.head(self._read(ids, offsets))
        return logits

    def states(self, ids: Tensor, offsets: Tensor, logits: bool = True) -> States:
        """See `WritingModel.states`."""
        x = self._read(ids, offsets)
        told = self.head(x) if logits else None
        if isinstance(self.head, nn.Linear):
            return States(x, self.head.weight, self.head.bias, told)
        return States(x, None, None, told, tree=self.head if isinstance(self.head, TreeSoftmax) else None)

    def step(
        self,
        ids: Tensor,
        offsets: Tensor,
        places: Tensor,
        past: Tensor,
        order: Tensor,
        key_offsets: Tensor,
        rows: Tensor,
    ) -> dict[str, Tensor]:
        """See `WritingModel.step`; a row of `past` is a word's vector."""
        fresh = self.words(ids)
        known = ops.gather(ops.concat([past, fresh], axis=0), order)
        begins = ops.gather(key_offsets[:-1], ops.ragged_segments(offsets, fresh))
        return told(self.head(ops.gather(self._seen(known, begins, places), rows))) | {"fresh": fresh}

    def _read(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """What the output reads, of whole texts."""
        x = self.dropout(self.words(ids))
        begins = ops.gather(offsets[:-1], ops.ragged_segments(offsets, x))
        return self._seen(x, begins, ops.ragged_positions(offsets, x))

    def _seen(self, known: Tensor, begins: Tensor, places: Tensor) -> Tensor:
        """What the output reads of words, [T, D].

        known: [K, W], vectors of all words; begins, places: integer [T], the row of each word's text's first word, and
        how many words stand before it in its text.
        """
        padded = ops.concat([ops.full(shape=[1, self.past_width], value=0.0), known], axis=0)
        row = begins + places + 1
        last = [ops.gather(padded, ops.where(ops.greater_equal(places, k), row - k, 0)) for k in range(self._window)]
        x = ops.concat(last, axis=1)
        hidden = self.dropout(ops.tanh(self.hidden(x)))
        return ops.concat([hidden, x], axis=1) if self._direct else hidden
