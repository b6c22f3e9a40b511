"""A schema as the plain form that the native log reader takes; see docs/howto/ctr_data.md, "Schema"."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import asdict
from typing import Any

from framework.errors import ConfigError
from suites.ctr.schema import features as kinds
from suites.ctr.schema.declaration import Format, Schema
from suites.engine.names import did_you_mean, listing

_HEADERS: dict[Any, Any] = {True: True, False: False, "first": "maybe"}


def compiled(
    schema: Schema, columns: Sequence[str], lists: Container[str] = (), *, labels: bool = True, scaled: bool = True
) -> dict[str, Any]:
    """The fields of a `framework.data.logs.LogSchema`.

    Args:
        schema: whose dense features have their centers and scales.
        columns: all columns of the log, in its order; of a slot log its head, then the slots that are read.
        lists: columns whose values are lists, in which no separator is looked for.
        labels: whether labels, weight, group and time are read.
        scaled: whether dense features are transformed; else they stay numbers, NaN for missing ones.

    Raises ConfigError for a column that is not there, or a scale that was not learned.
    """
    form, places = schema.format, {name: i for i, name in enumerate(columns)}

    def place(column: str) -> int:
        if column not in places:
            raise ConfigError(
                f"data.schema: the log has no column '{column}'"
                f"{did_you_mean(column, places) or f'; it has {listing(columns)}'}"
            )
        return places[column]

    def optional(column: str | None) -> int | None:
        return place(column) if labels and column is not None else None

    return {
        **_text_form(form),
        "columns": list(columns),
        "missing": list(form.missing),
        "sparse": _sparse(schema, place),
        "ragged": _ragged(schema, place, lists),
        "dense": [
            {"name": name, "column": place(schema.column_of(name)), "place": feature.place}
            | (_scaled(name, feature) if scaled else {})
            for name, feature in schema.of(kinds.Dense).items()
        ],
        "missing_numbers": "zero" if scaled else "nan",
        "labels": [
            {
                "name": name,
                "column": place(schema.column_of(name)),
                "positive": None if label.positive is None else list(label.positive),
                "at_least": label.at_least,
            }
            for name, label in (schema.labels if labels else {}).items()
        ],
        "written": [
            {"column": place(column), **asdict(form)} for column, form in form.written.items() if column in places
        ],
        "weight": optional(schema.weight),
        "group": optional(schema.group),
        "time": optional(schema.time),
    }


def _text_form(form: Format) -> dict[str, Any]:
    """What the reader is told of the files' form."""
    if form.kind == "slot":
        return {"kind": "slot", "head": list(form.head), "order": form.order}
    if form.kind == "parquet":
        return {"kind": "parquet"}
    return {
        "kind": "csv",
        "delimiter": form.delimiter,
        "quote": form.quote or "",
        "newlines": form.newlines,
        "header": _HEADERS[form.header],
        "strip": form.strip,
    }


def _sparse(schema: Schema, place: Callable[[str], int]) -> list[dict[str, Any]]:
    slots, names = schema.slots(), schema.sparse()
    found: list[dict[str, Any]] = []
    for name in names:
        feature = schema.features[name]
        made: dict[str, Any] = {"name": name, "slot": slots[name]}
        if isinstance(feature, kinds.Crossed):
            made["members"] = [names.index(member) for member in feature.of]
        else:
            assert isinstance(feature, kinds.Sparse)
            made |= {"column": place(schema.column_of(name)), "place": feature.place, "bucket": feature.bucket}
        found.append(made)
    return found


def _ragged(schema: Schema, place: Callable[[str], int], lists: Container[str]) -> list[dict[str, Any]]:
    slots, names = schema.slots(), schema.ragged()
    found: list[dict[str, Any]] = []
    for name in names:
        feature = schema.features[name]
        assert isinstance(feature, (kinds.MultiValued, kinds.Sequence))
        column = schema.column_of(name)
        whole = column in lists or schema.is_number(column) or feature.count > 1
        found.append(
            {
                "name": name,
                "slot": slots[name],
                "column": place(column),
                "count": 1 if column in lists else feature.count,
                "separator": "" if whole else feature.separator,
                "max_length": feature.max_length,
                "keep": feature.keep if isinstance(feature, kinds.Sequence) else "first",
            }
        )
    for name, sequence in schema.of(kinds.Sequence).items():
        if sequence.along is not None:  # the later one of a pair looks at the one before
            first, second = sorted((names.index(name), names.index(sequence.along)))
            found[second]["along"] = first
    return found


def _scaled(name: str, feature: kinds.Dense) -> dict[str, Any]:
    if feature.transform in ("none", "log"):
        return {"transform": feature.transform}
    if feature.center is None or feature.scale is None:
        raise ConfigError(f"data.schema.features.{name}: has no center and scale yet; they come from a training set")
    return {"transform": feature.transform, "center": feature.center, "scale": feature.scale}
