"""Where rows begin, and how they come and go: initial values, admission, eviction, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class Init:
    """Initial values of a row's columns, drawn from the table's seed and the row's key."""

    number: ClassVar[int]
    scale: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.scale < float("inf"):
            raise AttributeValueError(f"{type(self).__name__}: scale is {self.scale}; it must be 0 or more")


@dataclass(frozen=True)
class Zeros(Init):
    """All zeros."""

    number: ClassVar[int] = 0


@dataclass(frozen=True)
class Uniform(Init):
    """Uniform in [-scale, scale)."""

    scale: float = 1e-4
    number: ClassVar[int] = 1


@dataclass(frozen=True)
class Normal(Init):
    """Normal with mean 0 and standard deviation `scale`."""

    scale: float = 1e-2
    number: ClassVar[int] = 2


INITS = {init.__name__: init for init in (Zeros, Uniform, Normal)}
InitParts = Sequence[tuple[int, Init]]


def init_parts(init: Init | InitParts, dim: int) -> list[tuple[int, Init]]:
    """`init` as (columns, initial values) pairs that cover `dim` columns.

    Raises:
        AttributeValueError: they do not.
    """
    parts = [(dim, init)] if isinstance(init, Init) else [(int(n), part) for n, part in init]
    if any(n < 1 for n, _ in parts) or sum(n for n, _ in parts) != dim:
        raise AttributeValueError(f"Table: init covers {[n for n, _ in parts]} columns; together they must be {dim}")
    return parts


@dataclass(frozen=True)
class Admission:
    """When a key gets a row. Until then it reads as zeros, and gradients for it are left out.

    The step that admits a key makes its row from the initial values; its gradient, which is that of the zeros, is left
    out too. What candidates have gathered fades with `Eviction.decay` at each end of a pass.

    Args:
        threshold: see the kinds.
    """

    number: ClassVar[int] = 0
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= self._most():
            raise AttributeValueError(
                f"{type(self).__name__}: threshold is {self.threshold}; it must lie in (0, {self._most():g}]"
            )

    def _most(self) -> float:
        return 65535.0


@dataclass(frozen=True)
class ByCount(Admission):
    """At the `threshold`-th occurrence."""

    threshold: float = 2
    number: ClassVar[int] = 1


@dataclass(frozen=True)
class ByScore(Admission):
    """When the sum of scores reaches `threshold`; a score is kept to 1/256. See `Table` for the weights."""

    threshold: float = 1.0
    number: ClassVar[int] = 2


@dataclass(frozen=True)
class ByProbability(Admission):
    """At each occurrence with probability `threshold`, by a draw that depends on the seed and the key only."""

    threshold: float = 0.1
    number: ClassVar[int] = 3

    def _most(self) -> float:
        return 1.0


ADMISSIONS = {kind.__name__: kind for kind in (ByCount, ByScore, ByProbability)}


@dataclass(frozen=True)
class Eviction:
    """What `Table.shrink` does at the end of a pass.

    Args:
        decay: factor on shows and clicks.
        least_score: rows with a lower score go.
        most_unseen: rows go that no update touched for more ends of passes than this; None: never.
    """

    decay: float = 0.98
    least_score: float = 0.0
    most_unseen: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.decay <= 1:
            raise AttributeValueError(f"Eviction: decay is {self.decay}; it must lie in [0, 1]")
        if self.most_unseen is not None and self.most_unseen < 0:
            raise AttributeValueError(f"Eviction: most_unseen is {self.most_unseen}; it must be 0 or more, or None")


@dataclass(frozen=True)
class Limit:
    """The most that a table holds.

    Args:
        rows: this many; or
        bytes: as many rows as fit, each counted with its share of the index when that is emptiest.
        when_full: "error": a step that would pass the limit fails and changes no row. "evict": the bucket of a new key
            loses a tenth of its rows, those of the least score, of equal ones those touched longest ago; each bucket
            has an equal share of the limit.
    """

    rows: int | None = None
    bytes: int | None = None
    when_full: Literal["error", "evict"] = "error"

    INDEX_BYTES: ClassVar[int] = 46  # 16 bytes a slot, of which at least 0.35 are in use

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.bytes is None):
            raise AttributeValueError("Limit: give either rows or bytes")
        if (self.rows or self.bytes or 0) < 1:
            raise AttributeValueError(f"Limit: {self.rows or self.bytes or 0} is no limit; it must be 1 or more")
        if self.when_full not in ("error", "evict"):
            raise AttributeValueError(f"Limit: when_full is {self.when_full!r}; it must be 'error' or 'evict'")

    def most_rows(self, row_bytes: int) -> int:
        """The limit as a number of rows."""
        return self.rows if self.rows is not None else (self.bytes or 0) // (row_bytes + self.INDEX_BYTES)


def plain(policy: Any) -> Any:
    """A policy as a table's files keep it."""
    return None if policy is None else {"type": type(policy).__name__, **asdict(policy)}
