"""Recurrent models that write: an LSTM or GRU language model, and one that looks at a source by attention.

Letters: T words, N texts that are written, S words of sources, B sources, D units, V words of the vocabulary, W numbers
of a state.
"""

from __future__ import annotations

import math

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.nlp.models.copying import Copying, numbered, numbers_of
from suites.nlp.models.outputs import States, TreeSoftmax, output_layer
from suites.nlp.models.recurrent import Cell
from suites.nlp.models.writing import Watched, WritingModel, expect_positive, told

_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class LockedDropout(nn.Layer):
    """Drops the same units of all words of a text (Gal and Ghahramani 2016).

    Args:
        p: share of the units.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self._drop = nn.Dropout(p)

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """x, y: [T, D]; offsets: integer [N + 1]."""
        if not self.training or self._drop.p == 0:
            return x
        ones = ops.segment_mean(ops.full_like(x, value=1.0), offsets)
        return x * ops.segment_spread(self._drop(ones), offsets, x)


class DroppedWords(nn.Embedding):
    """Word vectors of which whole words are 0 in training, wherever they stand (Merity et al. 2018, section 4.3).

    Args:
        rows: words.
        width: of a vector.
        p: share of the words.
        std: of the vectors at the start.
    """

    def __init__(self, rows: int, width: int, p: float, std: float) -> None:
        super().__init__(rows, width, initializer=nn.init.Normal(std))
        self._drop = nn.Dropout(p)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: int64 [T]; result: [T, width]."""
        x = super().forward(ids)
        if not self.training or self._drop.p == 0:
            return x
        return x * ops.gather(self._drop(ops.full_like(self.weight[:, :1], value=1.0)), ids)


def _last_states(
    past: Tensor, width: int, offsets: Tensor, order: Tensor, key_offsets: Tensor
) -> tuple[Tensor, Tensor]:
    """The state after the last word before the new ones of each text, [N, W], and whether there is one, bool [N, 1].

    width: W; see `nn.KeyRows` for the arrays.
    """
    before = (key_offsets[1:] - key_offsets[:-1]) - (offsets[1:] - offsets[:-1])
    begun = ops.greater(before, 0)
    row = ops.gather(order, ops.maximum(key_offsets[:-1] + before - 1, 0))
    padded = ops.concat([ops.full(shape=[1, width], value=0.0), past], axis=0)
    return ops.gather(padded, ops.where(begun, row + 1, 0)), ops.expand_dims(begun, axis=1)


@register("text_model", exclusive=(("cutoffs", "tree"),))
class RecurrentLanguageModel(WritingModel):
    """The next word by an LSTM or GRU (Mikolov et al. 2010), with the regularisers of AWD-LSTM (Merity et al. 2018).

    Args:
        vocab_size: V.
        width: of a word vector.
        cell: "lstm" or "gru".
        hidden: D.
        layers: one on the other.
        dropout: share of units that are 0, the same ones for a whole text: of word vectors and of the last layer.
        layer_dropout: the same between layers, of each word anew.
        word_dropout: share of words whose vectors are 0, wherever they stand.
        weight_dropout: share of the weights between one word's state and the next one's gates.
        tied: the word vectors are the output matrix too (Press and Wolf 2017), behind a linear map where the last layer
            is not as wide as they are.
        max_length: words of a text at most.
        cutoffs: where clusters of rarer words begin, for adaptive softmax (Grave et al. 2017), such as [2000, 10000];
            then without `tied`. Words should have their numbers by frequency.
        tree: hierarchical softmax (Morin and Bengio 2005): words are leaves of a tree; then without `tied`. Numbers by
            frequency, too.
    """

    recurrent = True

    def __init__(
        self,
        vocab_size: int,
        width: int = 128,
        cell: Cell = "lstm",
        hidden: int = 256,
        layers: int = 1,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
        word_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        tied: bool = True,
        max_length: int = 1024,
        cutoffs: tuple[int, ...] = (),
        tree: bool = False,
    ) -> None:
        super().__init__()
        if (cutoffs or tree) and tied:
            raise AttributeValueError(
                f"RecurrentLanguageModel: {'cutoffs' if cutoffs else 'tree'} makes another output than one matrix, "
                "which word vectors are; set tied to false"
            )
        expect_positive("RecurrentLanguageModel", vocab_size=vocab_size, width=width, max_length=max_length)
        self.vocab_size, self.max_length = vocab_size, max_length
        self.words = DroppedWords(vocab_size, width, word_dropout, width**-0.5)
        self.cells = _CELLS[cell](width, hidden, layers, dropout=layer_dropout, weight_dropout=weight_dropout)
        self.past_width = self.cells.state_width
        self.dropout = LockedDropout(dropout)
        self.narrow = nn.Linear(hidden, width) if tied and hidden != width else None
        self.head: nn.Layer | None = None if tied else output_layer(hidden, vocab_size, cutoffs, tree)
        self.tree = tree

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        """Logits [T, V] of the word after each.  ids: int64 [T]; offsets: integer [N + 1]."""
        x, _ = self.cells(self.dropout(self.words(ids), offsets), offsets)
        return self._logits(self.dropout(x, offsets))

    def states(self, ids: Tensor, offsets: Tensor, logits: bool = True) -> States:
        """See `WritingModel.states`."""
        last, _ = self.cells(self.dropout(self.words(ids), offsets), offsets)
        dropped = self.dropout(last, offsets)
        told = self._logits(dropped) if logits else None
        if isinstance(self.head, nn.Linear):
            return States(dropped, self.head.weight, self.head.bias, told, last, dropped)
        if isinstance(self.head, TreeSoftmax):
            return States(dropped, None, None, told, last, dropped, self.head)
        x = dropped if self.narrow is None else self.narrow(dropped)
        return States(x, self.words.weight if self.head is None else None, None, told, last, dropped)

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
        """See `WritingModel.step`; a row of `past` is the state after a word."""
        state, _ = _last_states(past, self.past_width, offsets, order, key_offsets)
        x, fresh = self.cells.with_states(self.words(ids), offsets, state)
        return told(self._logits(ops.gather(x, rows))) | {"fresh": fresh}

    def _logits(self, x: Tensor) -> Tensor:
        if self.head is not None:
            logits: Tensor = self.head(x)
            return logits
        x = x if self.narrow is None else self.narrow(x)
        return ops.matmul(x, self.words.weight, transpose_b=True)


@register("text_model")
class AttentionRnn(WritingModel):
    """A recurrent encoder in both directions, and a recurrent decoder that looks at it by attention.

    The alternative to a Transformer from before it (Bahdanau et al. 2015), in the form of Luong et al. 2015: attention
    stands behind the decoder's cells ("general" scores, section 3.1; without input feeding), so all words of a text are
    learned at once. The decoder begins with the encoder's last states.

    Args:
        source_words: rows of the source's word vectors.
        target_words: V.
        width: of word vectors, and of what the output matrix reads, which is the target's word vectors.
        cell: "lstm" or "gru".
        hidden: D, units of the decoder; the encoder has half of them in each direction.
        layers: of both.
        dropout: of word vectors, between layers and before the output.
        shared: one table of word vectors for both sides; source_words and target_words are then equal.
        max_length: words of a sequence at most.
        copying: a word may be copied from the source, by this attention (See et al. 2017, section 2.2); both
            sides then have one vocabulary.
    """

    def __init__(
        self,
        source_words: int,
        target_words: int,
        width: int = 256,
        cell: Cell = "lstm",
        hidden: int = 512,
        layers: int = 1,
        dropout: float = 0.2,
        shared: bool = False,
        max_length: int = 512,
        copying: bool = False,
    ) -> None:
        super().__init__()
        sizes = {"source_words": source_words, "target_words": target_words, "width": width, "hidden": hidden // 2}
        expect_positive("AttentionRnn", **sizes)
        if shared and source_words != target_words:
            raise AttributeValueError(
                f"AttentionRnn: shared is on but there are {source_words} source and {target_words} target words"
            )
        if copying and source_words != target_words:
            raise AttributeValueError(
                f"AttentionRnn: copying is on but there are {source_words} source and {target_words} target words; "
                "what is copied must have the same number on both sides"
            )
        if hidden % 2:
            raise AttributeValueError(f"AttentionRnn: hidden is {hidden}; it must be even")
        self.tables, self.shared = (source_words, target_words), shared
        self.vocab_size, self.max_length, self.hidden = min(source_words, target_words), max_length, hidden
        self._length = max_length
        table = nn.init.Normal(width**-0.5)
        self.target = nn.Embedding(target_words, width, initializer=table)
        self.source = self.target if shared else nn.Embedding(source_words, width, initializer=table)
        kind = _CELLS[cell]
        self.encoder = kind(width, hidden // 2, layers, bidirectional=True, dropout=dropout)
        self.cells = kind(width, hidden, layers, dropout=dropout)
        self.past_width = self.cells.state_width
        self.copies = copying
        self.memory_width = hidden + self.past_width + copying
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.joint = nn.Linear(2 * hidden, width, bias=False)
        self.dropout = nn.Dropout(dropout)
        if copying:
            self.copying = Copying(hidden, hidden, width, max_length)

    def forward(self, source: Tensor, source_offsets: Tensor, target: Tensor, target_offsets: Tensor) -> Tensor:
        """Logits of the word after each target word, given those before it.

        source: int64 [S]; target: int64 [T]; source_offsets, target_offsets: integer [B + 1]; result: [T, V].
        """
        if self.copies:
            return self.watched(source, source_offsets, target, target_offsets).logits
        memory, first = self.encoded(source, source_offsets)
        x, _ = self.cells.with_states(self.dropout(self.target(target)), target_offsets, first)
        return self._logits(self._joined(x, self._looked(x, memory, target_offsets, source_offsets)))

    def watched(self, source: Tensor, source_offsets: Tensor, target: Tensor, target_offsets: Tensor) -> Watched:
        """See `WritingModel.watched`."""
        if not self.copies:
            return super().watched(source, source_offsets, target, target_offsets)
        memory, first = self.encoded(source, source_offsets)
        given = self.dropout(self.target(target))
        x, _ = self.cells.with_states(given, target_offsets, first)
        found, weights = self._watched(x, memory, target_offsets, source_offsets)
        texts = ops.ragged_segments(target_offsets, x)
        logits = self._logits(self._joined(x, found))
        return Watched(self.copying(logits, (found, x, given), weights, texts, source, source_offsets), weights)

    def step(
        self,
        ids: Tensor,
        offsets: Tensor,
        places: Tensor,
        past: Tensor,
        order: Tensor,
        key_offsets: Tensor,
        rows: Tensor,
        source: Tensor,
        source_offsets: Tensor,
        memory: Tensor,
        memory_offsets: Tensor,
        groups: Tensor,
        attention: bool = False,
    ) -> dict[str, Tensor]:
        """See `WritingModel.step`; behind each word of a source stands the state that its text begins with."""
        seen, first = self.encoded(source, source_offsets)
        encoded = ops.concat([seen, ops.segment_spread(first, source_offsets, seen)], axis=1)
        encoded = numbered(encoded, source) if self.copies else encoded
        known = ops.concat([memory, encoded], axis=0)
        about, begin, *words = ops.split(known, axis=1, sizes=[self.hidden, self.past_width] + [1] * self.copies)
        text = ops.gather(ops.ragged_segments(groups, ids), offsets[:-1])  # of each hypothesis
        begin = ops.gather(begin, ops.gather(memory_offsets, text))
        state, begun = _last_states(past, self.past_width, offsets, order, key_offsets)
        given = self.target(ids)
        x, fresh = self.cells.with_states(given, offsets, ops.where(begun, state, begin))
        more = {"fresh": fresh, "encoded": encoded}
        if not (self.copies or attention):
            joined = self._joined(x, self._looked(x, about, groups, memory_offsets))
            return told(self._logits(ops.gather(joined, rows))) | more
        texts = ops.ragged_segments(groups, x)
        parts = (x, given, *self._watched(x, about, groups, memory_offsets), texts)
        x, given, found, weights, texts = (ops.gather(each, rows) for each in parts)
        logits = self._logits(self._joined(x, found))
        if self.copies:
            source_words = numbers_of(words[0])
            logits = self.copying(logits, (found, x, given), weights, texts, source_words, memory_offsets)
        return told(logits) | more | ({"attention": weights} if attention else {})

    def encoded(self, source: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """What is seen of the sources, [S, D], and the states that their texts begin with, [B, W]."""
        seen, last = self.encoder(self.dropout(self.source(source)), offsets)
        states = (last,) if isinstance(last, Tensor) else last  # each [2 L, B, D / 2], both directions of a layer
        count = len(self.encoder.layers)
        parts = [state[2 * i + side] for i in range(count) for state in states for side in (0, 1)]
        return seen, ops.concat(parts, axis=1)

    def _watched(self, x: Tensor, memory: Tensor, offsets: Tensor, memory_offsets: Tensor) -> tuple[Tensor, Tensor]:
        """The same as `_looked`, and the weights of each place of the source, [T, L]."""
        return nn.attend_by_place(
            self.query(x),
            memory,
            memory,
            offsets,
            memory_offsets,
            heads=1,
            width=self.hidden,
            scale=1 / math.sqrt(self.hidden),
            length=self._length,
        )

    def _looked(self, x: Tensor, memory: Tensor, offsets: Tensor, memory_offsets: Tensor) -> Tensor:
        """What states x [T, D] find in memory [S, D], [T, D]."""
        found, _ = ops.ragged_attention(
            self.query(x), memory, memory, offsets, memory_offsets, heads=1, scale=1 / math.sqrt(self.hidden)
        )
        return found

    def _joined(self, x: Tensor, found: Tensor) -> Tensor:
        """What the output matrix reads, [T, width], of states and what they found, [T, D] each."""
        return self.dropout(ops.tanh(self.joint(ops.concat([found, x], axis=1))))

    def _logits(self, x: Tensor) -> Tensor:
        return ops.matmul(x, self.target.weight, transpose_b=True)
