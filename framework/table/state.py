"""What a table is made of: its settings, its rows in the native core, and where it stands among its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from framework import _core
from framework.errors import AttributeValueError
from framework.ops import registry
from framework.table.gradient import RowsLeaf
from framework.table.policies import Admission, Eviction, Init, InitParts, Limit, Normal, init_parts, plain
from framework.table.rules import Adam, Rule

MOST_BUCKETS, MOST_COLUMNS = 1 << 16, 1 << 16


@dataclass(frozen=True)
class Chain:
    """Where a table stands among its files.

    Attributes:
        id: of the files written or read last.
        version: rows touched after it are not in them.
        passes: ends of passes when they were written.
    """

    id: str
    version: int
    passes: int


class TableState:
    """The settings and rows that a table's files read and write; `Table` says what they mean and works with them."""

    def __init__(
        self,
        dim: int,
        *,
        rule: Rule | None = None,
        init: Init | InitParts | None = None,
        admission: Admission | None = None,
        eviction: Eviction | None = None,
        limit: Limit | None = None,
        show_weight: float = 0.1,
        click_weight: float = 1.0,
        seed: int = 0,
        name: str = "table",
        buckets: int = 256,
    ) -> None:
        if not 1 <= dim <= MOST_COLUMNS:
            raise AttributeValueError(f"Table: dim is {dim}; a row has 1 to {MOST_COLUMNS} columns")
        if not 1 <= buckets <= MOST_BUCKETS or buckets & (buckets - 1):
            raise AttributeValueError(f"Table: buckets is {buckets}; it must be a power of two up to {MOST_BUCKETS}")
        if not name or len(name) > 100:
            raise AttributeValueError(f"Table: name is {name!r}; it must have 1 to 100 letters")
        self.dim, self.name, self.seed = dim, name, seed
        self.rule = rule or Adam()
        self.init = init_parts(init or Normal(), dim)
        self.admission, self.eviction, self.limit = admission, eviction, limit
        self.show_weight, self.click_weight = show_weight, click_weight
        self.chain: Chain | None = None  # of the files it was saved to or loaded from last
        self.published: Chain | None = None  # of its snapshots
        self.passes = 0  # calls of shrink
        self._native = _core.Table(self._native_config(buckets))
        self._gather = registry.OpInfo(_core.TableOp("gather", self._native), pure=False)
        self._update = registry.OpInfo(_core.TableOp("update", self._native), pure=False)
        self._squares = registry.OpInfo(_core.TableOp("sum_of_squares", self._native), pure=True)
        self.leaf = RowsLeaf(name)

    def _native_config(self, buckets: int) -> dict[str, Any]:
        rule, eviction = self.rule.native(), self.eviction or Eviction(decay=1.0, least_score=-np.inf)
        config = {
            "name": self.name,
            "dim": self.dim,
            **rule,
            "init": [(n, part.number, part.scale) for n, part in self.init],
            "admission": self.admission.number if self.admission else 0,
            "admission_threshold": self.admission.threshold if self.admission else 0.0,
            "decay": eviction.decay,
            "least_score": eviction.least_score,
            "most_unseen": -1 if eviction.most_unseen is None else eviction.most_unseen,
            "show_weight": self.show_weight,
            "click_weight": self.click_weight,
            "most_rows": -1,
            "when_full": 0,
            "seed": self.seed & (2**64 - 1),
            "bucket_bits": buckets.bit_length() - 1,
        }
        if self.limit:
            row_bytes = _core.Table(config | {"bucket_bits": 0}).row_bytes
            config["most_rows"] = self.limit.most_rows(row_bytes)
            config["when_full"] = int(self.limit.when_full == "evict")
        return config

    def config(self) -> dict[str, Any]:
        """What it was made with, as plain data that its files keep."""
        return {
            "name": self.name,
            "dim": self.dim,
            "rule": self.rule.plain(),
            "init": [[n, plain(part)] for n, part in self.init],
            "admission": plain(self.admission),
            "eviction": plain(self.eviction),
            "show_weight": self.show_weight,
            "click_weight": self.click_weight,
            "seed": self.seed,
        }

    def __len__(self) -> int:
        return int(self._native.stats()["rows"])
