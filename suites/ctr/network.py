"""TableNetwork: a model with the table of its rows, from a batch's signs to logits.

Letters: N rows, F sparse features, T values laid end to end, R numbers of a table's row, L labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from framework import nn, ops
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.ctr.models.base import CtrModel, Embedded


class LookUp(Protocol):
    """What a network asks of its rows: of a `Table`, of the rows of one batch, or of those of all shards.

    Attributes:
        name: of the rows, for messages.
        dim: R, numbers of a row.
    """

    name: str
    dim: int

    def lookup(self, keys: Tensor, clicks: Tensor | None = None) -> Tensor:
        """Rows float32 [*keys.shape, R] of keys int64 [...]; `clicks` float32 of keys' shape are counted."""


class TableNetwork(nn.Layer):
    """Looks all signs of a batch up at once, pools multi-valued features, and runs the model.

    The rows are no part of its state: the table has its own files, see `suites.engine.contract.resources`.

    Args:
        body: the model.
        table: rows of its width.
    """

    def __init__(self, body: CtrModel, table: LookUp) -> None:
        super().__init__()
        self.body = body
        self.table: LookUp = table
        fields = body.fields
        if not fields.fields:
            raise ConfigError(
                "data.schema: no feature is Sparse, MultiValued or Crossed, and models look values up; take a number "
                "of few values as Sparse, or any with {type: Sparse, column: NAME, bucket: log_square}"
            )
        self.ragged = [name for name, _ in fields.bags]
        self.ragged += [name for name, _ in fields.sequences] if body.uses_sequences else []
        self._single = len(fields.fields) - len(fields.bags)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the batch arrays that `embed` takes."""
        pairs = [each for name in self.ragged for each in (name, f"{name}.offsets")]
        return (
            *(("sparse",) if self._single else ()),
            *pairs,
            *(("dense",) if self.body.fields.dense else ()),
        )

    def embed(self, inputs: Mapping[str, Tensor], clicks: Tensor | None = None) -> Embedded:
        """The rows of a batch; `clicks` float32 [N] are counted for each of a row's signs."""
        return self.joined(self._looked_up(inputs, clicks), inputs)

    @property
    def signs(self) -> tuple[str, ...]:
        """Names of the batch arrays that hold signs."""
        return (*(("sparse",) if self._single else ()), *self.ragged)

    def joined(self, rows: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Embedded:
        """Rows by name, sparse [N, F, R] and others [T, R], as the model takes them, with the rest of the batch."""
        fields = [rows["sparse"]] if self._single else []
        for name, pooling in self.body.fields.bags:
            pool = ops.segment_sum if pooling == "sum" else ops.segment_mean
            fields.append(ops.expand_dims(pool(rows[name], inputs[f"{name}.offsets"]), axis=1))
        sequences = {
            name: (rows[name], inputs[f"{name}.offsets"]) for name, _ in self.body.fields.sequences if name in rows
        }
        whole = fields[0] if len(fields) == 1 else ops.concat(fields, axis=1)
        return Embedded(whole, inputs.get("dense"), sequences)

    def _looked_up(self, inputs: Mapping[str, Tensor], clicks: Tensor | None) -> dict[str, Tensor]:
        """Rows by name: sparse [N, F, R], others [T, R]; one look-up of the table."""
        if not self.ragged:
            return {"sparse": self.table.lookup(inputs["sparse"], clicks)}
        flat = [ops.reshape(inputs[name], shape=(-1, 1)) for name in self.signs]
        each = None if clicks is None else ops.concat([self._spread(clicks, n, inputs) for n in self.signs], axis=0)
        rows = self.table.lookup(ops.reshape(ops.concat(flat, axis=0), shape=(-1,)), each)
        parts = dict(zip(self.signs, ops.split_like(rows, flat, axis=0), strict=True))
        if self._single:
            parts["sparse"] = ops.reshape(parts["sparse"], shape=(-1, self._single, self.table.dim))
        return parts

    def _spread(self, clicks: Tensor, name: str, inputs: Mapping[str, Tensor]) -> Tensor:
        """The click of its row for each sign of an array, [N * F] or [T]."""
        if name in self.ragged:
            return ops.segment_spread(clicks, inputs[f"{name}.offsets"], inputs[name])
        return ops.reshape(ops.broadcast_like(ops.expand_dims(clicks, axis=1), inputs[name]), shape=(-1,))

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits [N, L]."""
        return self.body(self.embed(inputs))
