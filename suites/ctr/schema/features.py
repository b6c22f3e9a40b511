"""The kinds of features that a schema declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from framework.errors import AttributeValueError
from suites.ctr.schema.signs import MAX_SLOT
from suites.engine.registry import register, register_role

Transform = Literal["none", "log", "min_max", "standard"]
Keep = Literal["last", "first"]
Bucket = Literal["log_square", "hour", "weekday"]


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Base of all kinds; a schema holds them by name."""


register_role("feature", Feature, doc="How a column of a click log is taken.")


@dataclass(frozen=True, kw_only=True)
class Signed(Feature):
    """Base of features whose values become signs.

    Args:
        vocabulary: features of the same vocabulary share a slot, so that equal values have equal signs: an item and
            the items of a history. By default the feature's own name.
        slot: 1 to 4095; null for the next free one.
    """

    vocabulary: str | None = None
    slot: int | None = None

    def __post_init__(self) -> None:
        if self.slot is not None and not 1 <= self.slot <= MAX_SLOT:
            raise AttributeValueError(
                f"{type(self).__name__}: slot is {self.slot}; it must be 1 to {MAX_SLOT}, or null"
            )


@register("feature")
@dataclass(frozen=True, kw_only=True)
class Sparse(Signed):
    """One value a row, such as an id or a word.

    Args:
        vocabulary: see `Signed`.
        slot: see `Signed`.
        column: of the log; by default the feature's name.
        bucket: "log_square" takes numbers and makes few values of them: v above 2 becomes floor(ln(v)^2), any other
            floor(v), as the winners of Criteo's contest had it ("3 idiots", 2014) and FuxiCTR's Criteo_x4 has. "hour"
            and "weekday" take a column of dates (`format.written`): 0 to 23, and 0 for Monday to 6.
        place: which value it is, from 0, of a slot that stands several times in each row of a slot log.
    """

    column: str | None = None
    bucket: Bucket | None = None
    place: int = 0


@register("feature")
@dataclass(frozen=True, kw_only=True)
class MultiValued(Signed):
    """Any number of values a row without an order, such as genres; their vectors are pooled.

    Args:
        vocabulary: see `Signed`.
        slot: see `Signed`.
        column: of the log; by default the feature's name.
        separator: between two values.
        max_length: values of a row at most; the first are kept. null for all.
        pooling: of the values' vectors.
        count: columns side by side that hold a value each, `column` first; with 1 a column holds all values.
    """

    column: str | None = None
    separator: str = "|"
    max_length: int | None = None
    pooling: Literal["sum", "mean"] = "sum"
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_list(self, self.separator, self.max_length, self.count)


@register("feature")
@dataclass(frozen=True, kw_only=True)
class Sequence(Signed):
    """What a user did, in order, the oldest first; models of behaviour attend to it.

    Args:
        vocabulary: see `Signed`. The sparse feature of the same vocabulary is what the sequence is compared with.
        slot: see `Signed`.
        column: of the log; by default the feature's name.
        separator: between two values.
        max_length: values of a row at most.
        keep: which values of a longer one.
        along: the sequence that this one goes together with, value by value, such as items and their categories.
        count: see `MultiValued`.
    """

    column: str | None = None
    separator: str = "|"
    max_length: int = 50
    keep: Keep = "last"
    along: str | None = None
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_list(self, self.separator, self.max_length, self.count)


@register("feature")
@dataclass(frozen=True, kw_only=True)
class Dense(Feature):
    """A number; of a column of dates (`format.written`) the days since 1970. A missing one is 0 after the transform.

    Args:
        column: of the log; by default the feature's name.
        transform: "log" is sign(x) ln(1 + |x|). "standard" and "min_max" are (x - center) / scale, with the mean and
            the standard deviation, or with the minimum and the range.
        center: for "standard" and "min_max"; null for that of the training set.
        scale: for "standard" and "min_max"; null for that of the training set.
        place: see `Sparse`.
    """

    column: str | None = None
    transform: Transform = "none"
    center: float | None = None
    scale: float | None = None
    place: int = 0

    def __post_init__(self) -> None:
        given = self.center is not None or self.scale is not None
        if given and self.transform not in ("standard", "min_max"):
            raise AttributeValueError(
                f"Dense: center and scale are for the transforms standard and min_max, not for {self.transform}"
            )
        if (self.center is None) != (self.scale is None):
            raise AttributeValueError("Dense: center and scale are given both or not at all")
        if self.scale is not None and not self.scale > 0:
            raise AttributeValueError(f"Dense: scale is {self.scale:g}; it must be above 0")

    @property
    def learns(self) -> bool:
        """Whether center and scale come from the training set."""
        return self.transform in ("standard", "min_max") and self.center is None


@register("feature")
@dataclass(frozen=True, kw_only=True)
class Crossed(Signed):
    """Several sparse features as one: each combination of their values has a sign of its own.

    Args:
        of: names of two or more sparse or crossed features that are declared before.
        vocabulary: see `Signed`.
        slot: see `Signed`.
    """

    of: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.of) < 2:
            raise AttributeValueError(f"Crossed: of is {list(self.of)}; name two features or more")


@dataclass(frozen=True, kw_only=True)
class Label:
    """What is predicted: a column that says yes or no. Without `positive` and `at_least` its values are 0 and 1.

    Args:
        column: of the log; by default the label's name.
        positive: texts that mean yes; all others that are not missing mean no.
        at_least: numbers from here on mean yes, such as ratings of 4 and more.
    """

    column: str | None = None
    positive: tuple[str, ...] | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.positive is not None and self.at_least is not None:
            raise AttributeValueError("Label: positive and at_least are two ways to say yes; give one of them")


def _check_list(feature: Feature, separator: str, max_length: int | None, count: int) -> None:
    who = type(feature).__name__
    if count < 1:
        raise AttributeValueError(f"{who}: count is {count}; it must be 1 or more")
    if not separator:
        raise AttributeValueError(f"{who}: separator is empty; it must be a character or more")
    if max_length is not None and max_length < 1:
        raise AttributeValueError(f"{who}: max_length is {max_length}; it must be 1 or more")
