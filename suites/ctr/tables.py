"""The table of a model: how its rows begin, learn, come and go. The engine's optimizer is for dense weights only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from framework.errors import AttributeValueError
from framework.table import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    ByCount,
    ByProbability,
    ByScore,
    DenseAdam,
    Eviction,
    Limit,
    Normal,
    Table,
    Uniform,
    Zeros,
)
from framework.table.policies import Admission, Init
from framework.table.rules import Rule
from suites.ctr.models.base import CtrModel
from suites.engine.config import OfRole
from suites.engine.registry import register, register_role

_SPREAD = 0.01  # standard deviation of a vector's first numbers

register_role("row_rule", Rule, doc="How the rows of a table learn.")
register_role("row_init", Init, doc="Where the rows of a table begin.")
register_role("admission", Admission, doc="When a sign gets a row.")
register("row_rule", exclusive=(("shared", "eps"),))(Adagrad)
for _rule in (SGD, Adam, DenseAdam, FTRL):
    register("row_rule")(_rule)
for _init in (Normal, Uniform, Zeros):
    register("row_init")(_init)
for _admission in (ByCount, ByScore, ByProbability):
    register("admission")(_admission)


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """The table that holds a row for each sign.

    Args:
        rule: how rows learn, beside the run's optimizer, which is that of the dense weights; null for Adam.
        lr_factor: the rows' learning rate is the schedule's times this. The rule's own `lr` plays no part in a run.
        init: where vectors begin; null for normal numbers of deviation 0.01. Weights of a linear part begin at 0.
        admission: when a sign gets a row; null for at once.
        eviction: what leaves at the end of each pass; null for nothing.
        limit: the most that the table holds; null for no limit.
        most_deltas: saves that hold only what changed since the one before, and links to it; after so many, or as large
            as the whole, everything is written again. 0 writes everything each time.
    """

    rule: Annotated[Rule, OfRole("row_rule")] | None = None
    lr_factor: float = 1.0
    init: Annotated[Init, OfRole("row_init")] | None = None
    admission: Annotated[Admission, OfRole("admission")] | None = None
    eviction: Eviction | None = None
    limit: Limit | None = None
    most_deltas: int = 16

    def __post_init__(self) -> None:
        if not self.lr_factor > 0:
            raise AttributeValueError(f"TableSettings: lr_factor is {self.lr_factor}; it must be above 0")
        if self.most_deltas < 0:
            raise AttributeValueError(f"TableSettings: most_deltas is {self.most_deltas}; it must be 0 or more")

    def table(self, model: CtrModel, seed: int = 0) -> Table:
        """The empty table of a model."""
        linear = 1 if model.linear_column else 0
        parts: list[tuple[int, Init]] = [(1, Zeros())] * linear
        parts += [(model.width - linear, self.init or Normal(_SPREAD))] if model.width > linear else []
        return Table(
            model.width,
            rule=self.rule or Adam(),
            init=parts,
            admission=self.admission,
            eviction=self.eviction,
            limit=self.limit,
            seed=seed,
            name="signs",
        )
