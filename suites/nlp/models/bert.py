"""BERT, ERNIE and RoBERTa on ragged sequences. Letters: T tokens, B sequences, D hidden size, L a padded length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn.init import TruncatedNormal
from framework.tensors import Tensor
from suites.engine.names import did_you_mean
from suites.engine.registry import register
from suites.nlp.models.bert_config import PRESETS, BertConfig, config_of_folder
from suites.nlp.models.encoder import LayeredEncoder


class BertEmbeddings(nn.Layer):
    """Word, position, segment and task vectors added, normalised and dropped out.

    Args:
        config: the sizes.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        initializer = TruncatedNormal(config.init_std)

        def table(rows: int) -> nn.Embedding | None:
            return nn.Embedding(rows, config.hidden_size, initializer=initializer) if rows else None

        self.first_position = config.first_position
        self.word = nn.Embedding(config.vocab_size, config.hidden_size, initializer=initializer)
        self.position = nn.Embedding(config.max_positions, config.hidden_size, initializer=initializer)
        self.segment, self.task = table(config.segment_types), table(config.task_types)
        self.norm = nn.LayerNorm(config.hidden_size, config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, ids: Tensor, positions: Tensor, segment_ids: Tensor | None = None, task_ids: Tensor | None = None
    ) -> Tensor:
        """ids, positions, segment_ids, task_ids: integer [...]; y: [..., D]."""
        if self.first_position:
            positions = positions + self.first_position
        x = self.word(ids) + self.position(positions)
        for table, chosen in ((self.segment, segment_ids), (self.task, task_ids)):
            if table is not None:
                x = x + (_first_row(table) if chosen is None else table(chosen))
        return self.dropout(self.norm(x))


def _first_row(table: nn.Embedding) -> Tensor:
    """[1, D]: what all rows get whose ids are all 0."""
    return table.weight[:1]


@register("encoder")
class Bert(LayeredEncoder):
    """A stack of Transformer encoder layers on learned embeddings (Devlin et al. 2018).

    ERNIE 1.0 to 3.0 (Sun et al. 2019, 2020, 2021), ERNIE-Tiny and RoBERTa (Liu et al. 2019) are the same network with
    other sizes, tables, activations and norms. Everything but the preset overrides what the preset says.

    Args:
        preset: a name of `suites.nlp.models.bert_config.PRESETS`, such as "bert_base_uncased" or "ernie_1.0".
        folder: of a checkpoint, whose config.json takes the place of the preset. The weights are loaded apart.
        vocab_size: rows of the word table.
        hidden_size: D.
        layers: number of encoder layers.
        heads: attention heads.
        ffn_size: width between the two linear layers of an encoder layer.
        activation: between them: "gelu" (by erf), "gelu_tanh" or "relu".
        max_positions: the longest sequence (and `first_position` more).
        segment_types: rows of the segment table; 0 for none.
        task_types: rows of the task table; 0 for none.
        dropout: of embeddings and of what sub-layers give.
        attention_dropout: of attention weights.
        eps: of the layer norms.
        head_size: width of an attention head; D / heads unless heads were cut away (`paddock slim prune`).
    """

    def __init__(
        self,
        preset: str = "bert_base_uncased",
        folder: str | None = None,
        vocab_size: int | None = None,
        hidden_size: int | None = None,
        layers: int | None = None,
        heads: int | None = None,
        ffn_size: int | None = None,
        activation: str | None = None,
        max_positions: int | None = None,
        segment_types: int | None = None,
        task_types: int | None = None,
        dropout: float | None = None,
        attention_dropout: float | None = None,
        eps: float | None = None,
        head_size: int | None = None,
    ) -> None:
        super().__init__()
        given: dict[str, Any] = {
            "vocab_size": vocab_size, "hidden_size": hidden_size, "layers": layers, "heads": heads,
            "ffn_size": ffn_size, "activation": activation, "max_positions": max_positions,
            "segment_types": segment_types, "task_types": task_types, "dropout": dropout,
            "attention_dropout": attention_dropout, "eps": eps, "head_size": head_size,
        }  # fmt: skip
        base = _preset(preset) if folder is None else config_of_folder(Path(folder))
        self.config = c = replace(base, **{key: value for key, value in given.items() if value is not None})
        self.hidden_size, self.vocab_size, self.layer_count = c.hidden_size, c.vocab_size, c.layers
        self.max_length, self.task_types = c.max_positions - c.first_position, c.task_types
        initializer = TruncatedNormal(c.init_std)
        self.embeddings = BertEmbeddings(c)
        self.layers = nn.LayerList(
            nn.TransformerEncoderLayer(
                c.hidden_size,
                c.heads,
                c.ffn_size,
                c.activation,
                c.dropout,
                c.attention_dropout,
                eps=c.eps,
                initializer=initializer,
                head_size=c.head_size,
            )
            for _ in range(c.layers)
        )
        self.pooler = nn.Linear(c.hidden_size, c.hidden_size, initializer=initializer)

    def states(
        self,
        ids: Tensor,
        offsets: Tensor,
        segment_ids: Tensor | None = None,
        positions: Tensor | None = None,
        task_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """What each layer gives, [T, D] each: the embeddings first, `forward`'s sequence last; arguments as there."""
        if positions is None:
            positions = ops.ragged_positions(offsets, ids)
        states = [self.embeddings(ids, positions, segment_ids, task_ids)]
        for layer in self.layers:
            states.append(layer(states[-1], offsets))
        return states

    def pooled(self, sequence: Tensor, offsets: Tensor) -> Tensor:
        """[B, D]: tanh of a linear layer on each sequence's first token.  sequence: [T, D]; offsets: [B + 1]."""
        first = ops.gather(sequence, offsets[:-1])
        return ops.tanh(self.pooler(first))

    def padded(
        self, ids: Tensor, mask: Tensor, segment_ids: Tensor | None = None, task_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same for sequences padded to one length, for comparison.

        Args:
            ids: int64 [B, L].
            mask: bool [B, L], false where a token is padding.
            segment_ids: int64 [B, L].
            task_ids: int64 [B, L].

        Returns:
            sequence [B, L, D], without meaning where the mask is false, and pooled [B, D].
        """
        positions = ops.expand_dims(ops.positions(ids, axis=1), axis=0)
        x = self.embeddings(ids, positions, segment_ids, task_ids)
        for layer in self.layers:
            x = layer.padded(x, mask)  # type: ignore[attr-defined]
        first = x[:, 0]
        return x, ops.tanh(self.pooler(first))


def _preset(name: str) -> BertConfig:
    if name not in PRESETS:
        raise AttributeValueError(
            f"Bert: no preset is called '{name}'{did_you_mean(name, PRESETS) or '.'} There are {', '.join(PRESETS)}"
        )
    return PRESETS[name]
