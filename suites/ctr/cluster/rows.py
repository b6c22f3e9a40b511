"""What a trainer's model has in place of its table: the rows of one batch, which came from the shards.

Letters: N rows of the log, F sparse features, T values laid end to end, U different signs of a batch, R numbers of a
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from framework import Tensor, ops
from framework.errors import StateError
from framework.table import Table
from framework.table.remote import Unique, unique
from suites.ctr.network import TableNetwork


class BatchRows:
    """Looks up in the rows of a batch: keys are places in them.

    Models call `table.lookup(keys)` as ever; the batch has places where its signs were, see `with_places`.

    Args:
        table: whose rows the shards hold.
    """

    def __init__(self, table: Table) -> None:
        self.dim, self.name = table.dim, table.name
        self._rows: Tensor | None = None

    def hold(self, rows: Tensor) -> None:
        """Look up in these from now on, float32 [U, R]."""
        self._rows = rows

    def lookup(self, keys: Tensor, clicks: Tensor | None = None) -> Tensor:
        """Rows float32 [*keys.shape, R] at places int64 [...]; clicks were counted before."""
        if self._rows is None:
            raise StateError(f"table '{self.name}': its rows are on shards, and those of this batch were not asked for")
        return ops.embedding(self._rows, keys)


def with_places(network: TableNetwork, batch: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], Unique]:
    """The batch with places in place of signs, and the different signs that they lead to.

    The first label counts as the click of all signs of its row.
    """
    clicks = np.ascontiguousarray(batch["labels"][:, 0], np.float32)
    names = network.signs
    if names == ("sparse",):
        found = unique(batch["sparse"], clicks)
        return {**batch, "sparse": found.inverse}, found
    signs = [np.asarray(batch[name]) for name in names]
    each = [_spread(clicks, batch, name) for name in names]
    found = unique(np.concatenate([part.ravel() for part in signs]), np.concatenate(each))
    ends = np.cumsum([part.size for part in signs])[:-1]
    places = zip(names, signs, np.split(found.inverse, ends), strict=True)
    return {**batch, **{name: inverse.reshape(part.shape) for name, part, inverse in places}}, found


def _spread(clicks: np.ndarray, batch: Mapping[str, Any], name: str) -> np.ndarray:
    """The click of its row for each sign, float32 [N * F] or [T]."""
    if name == "sparse":
        return np.repeat(clicks, batch[name].shape[1])
    return np.repeat(clicks, np.diff(batch[f"{name}.offsets"]))
