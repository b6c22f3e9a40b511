"""LogSchema: what is read from a row of a click log, as plain data, and its native form.

A *sign* is a 64-bit key: `slot << 52 | hash52`, where hash52 is the low 52 bits of XXH64 (seed 0) of the value's bytes.
0 below means "missing". Letters: N rows, F sparse features, D dense ones, L labels.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework import _core
from framework.data.logs.reasons import reason
from framework.errors import AttributeValueError, DataError
from framework.limits import current

Cell = str | Sequence[str]  # a text, or the values of a multi-valued feature
_NEEDED = "needed"  # no default
_TOP: dict[str, Any] = {
    "kind": "csv",
    "columns": _NEEDED,
    "delimiter": ",",
    "quote": "",
    "newlines": False,
    "header": False,
    "strip": False,
    "encoding": "utf-8",
    "missing": [],
    "head": [],
    "order": "slot:sign",
    "sparse": [],
    "ragged": [],
    "dense": [],
    "labels": [],
    "written": [],
    "labels_optional": False,
    "missing_numbers": "zero",
    "weight": None,
    "group": None,
    "time": None,
}
_FIELDS: dict[str, dict[str, Any]] = {
    "sparse": {"name": _NEEDED, "slot": _NEEDED, "column": None, "place": 0, "bucket": None, "members": None},
    "ragged": {
        "name": _NEEDED,
        "slot": _NEEDED,
        "column": _NEEDED,
        "count": 1,
        "separator": "",
        "max_length": None,
        "keep": "last",
        "along": None,
    },
    "dense": {"name": _NEEDED, "column": _NEEDED, "place": 0, "transform": "none", "center": 0.0, "scale": 1.0},
    "labels": {"name": _NEEDED, "column": _NEEDED, "positive": None, "at_least": None, "number": False},
    "written": {
        "column": _NEEDED,
        "decimal": ".",
        "thousands": "",
        "percent": False,
        "currency": "",
        "date": None,
    },
}
_CHOICES: dict[str, tuple[Any, ...]] = {
    "kind": ("csv", "slot", "parquet"),
    "header": (False, True, "maybe"),
    "encoding": ("utf-8", "bytes"),
    "order": ("slot:sign", "sign:slot"),
    "bucket": (None, "log_square", "hour", "weekday"),
    "decimal": (".", ","),
    "thousands": ("", ",", ".", " ", "'"),
    "date": (None, "YMD", "DMY", "MDY"),
    "keep": ("last", "first"),
    "missing_numbers": ("zero", "nan"),
    "transform": ("none", "log", "min_max", "standard"),
}
_TYPES: dict[str, Callable[[Any], bool]] = {
    "a whole number": lambda v: type(v) is int,
    "a number": lambda v: type(v) in (int, float),
    "a text": lambda v: type(v) is str,
    "true or false": lambda v: type(v) is bool,
    "a list of texts": lambda v: isinstance(v, list | tuple) and all(type(x) is str for x in v),
    "a list of whole numbers": lambda v: isinstance(v, list | tuple) and all(type(x) is int for x in v),
    "a list of mappings": lambda v: isinstance(v, list | tuple) and all(isinstance(x, Mapping) for x in v),
}
_TYPE_OF = {
    "a whole number": "column place slot count max_length along weight group time",
    "a number": "center scale at_least",
    "a text": "delimiter quote name separator currency",
    "true or false": "newlines strip labels_optional number percent",
    "a list of texts": "columns missing head positive",
    "a list of whole numbers": "members",
    "a list of mappings": "sparse ragged dense labels written",
}
_TYPE_BY_KEY = {key: (said, _TYPES[said]) for said, keys in _TYPE_OF.items() for key in keys.split()}
_BATCH_KEYS = ("sparse", "dense", "labels", "weight", "group", "time")


class LogSchema:
    """What a row of a log gives, from a plain mapping (see docs/howto/ctr_data.md for every key).

    Args:
        fields: the mapping, fit for JSON: the text's form (`kind`, `columns`, `delimiter`, ...) and what is made of its
            columns (`sparse`, `ragged`, `dense`, `labels`, `weight`, `group`, `time`), and in which columns numbers or
            dates are not plain (`written`). Columns are places in `columns`.

    Raises AttributeValueError for a key that does not exist, lacks or has a wrong value.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = _complete(fields)
        self.columns: list[str] = self.fields["columns"]
        if self.kind == "slot" and self.columns[: len(self.fields["head"])] != self.fields["head"]:
            raise AttributeValueError(
                f"log schema: head is {self.fields['head']}; the first columns must be these, then the keys of slots"
            )
        self.ragged = [f["name"] for f in self.fields["ragged"]]
        wrong = [name for name in self.ragged if name in _BATCH_KEYS or name.endswith(".offsets")]
        if wrong or len(set(self.ragged)) < len(self.ragged):
            raise AttributeValueError(
                f"log schema: multi-valued features are named {self.ragged}; each needs a name of its own, which is "
                f"none of {', '.join(_BATCH_KEYS)} and does not end in '.offsets'"
            )
        self._native: dict[tuple[int, tuple[str, ...]], _core.LogSchema] = {}
        self.native(self.columns)

    @property
    def kind(self) -> str:
        """ "csv", "slot" or "parquet"."""
        return self.fields["kind"]

    @property
    def digest(self) -> str:
        """What two schemas that read the same have in common."""
        fields = {k: v for k, v in self.fields.items() if k not in ("newlines", "written") or v}  # newer keys
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def used(self) -> list[int]:
        """Places in `columns` of what is read, ascending."""
        found = {self.fields[key] for key in ("weight", "group", "time")}
        for kind in _FIELDS:
            for field in self.fields[kind]:
                count = field.get("count", 1)
                found |= {None} if field["column"] is None else set(range(field["column"], field["column"] + count))
        return sorted(found - {None})

    def native(self, columns: Sequence[str], file: str = "") -> _core.LogSchema:
        """The native schema for a file with these columns; raise DataError where it lacks one that is used."""
        key = (current().line_bytes, tuple(columns))
        if key not in self._native:
            self._native[key] = _core.log_schema(_native_fields(self.fields_of(columns, file)))
        return self._native[key]

    def native_fields(self) -> dict[str, Any]:
        """What the native side is told, fit for JSON: libpaddock reads the rows of click models by it."""
        return _native_fields(self.fields)

    def fields_of(self, columns: Sequence[str], file: str = "") -> dict[str, Any]:
        """The fields for a file with these columns; raise DataError where it lacks one that is used."""
        return self.fields if list(columns) == self.columns else self._moved(list(columns), file)

    def encode(self, columns: Sequence[Sequence[Cell]]) -> tuple[dict[str, Any], dict[int, str]]:
        """The batch of rows in memory, and why rows that are left out of it cannot be used, by their number.

        Args:
            columns: the cells of each column, N each: texts, or in a column of lists N lists of texts.
        """
        rows = _core.parse_log_cells(self.native(self.columns), list(columns), len(columns[0]))
        return self.batch(rows), {fault[3]: reason(fault, self.columns, self.fields) for fault in rows.shown}

    def batch(self, rows: _core.LogRows) -> dict[str, Any]:
        """Arrays of native rows, by the names of a batch (docs/howto/ctr_data.md)."""
        arrays = _core.log_arrays(rows)
        names = ("sparse", "dense", "labels", "weight", "group", "time")
        batch = {
            name: array
            for name, array in zip(names, arrays, strict=False)
            if array is not None and (name != "labels" or self.fields["labels"])
        }
        for i, name in enumerate(self.ragged):
            batch[name], batch[f"{name}.offsets"] = arrays[6 + 2 * i : 8 + 2 * i]
        return batch

    def _moved(self, columns: list[str], file: str) -> dict[str, Any]:
        """The fields for a file whose columns lie in another order."""
        place = {name: i for i, name in enumerate(columns)}
        lacking = [self.columns[i] for i in self.used if self.columns[i] not in place]
        if self.fields["labels_optional"]:
            labels = {self.columns[f["column"]] for f in self.fields["labels"] if f["column"] is not None}
            lacking = [name for name in lacking if name not in labels]
        if lacking:
            raise DataError(
                f"{file}: its header lacks {', '.join(lacking[:8])}; it has {', '.join(columns[:40])}. "
                "Name the columns as the header does, or set `header: false` if there is none"
            )
        fields = copy.deepcopy(self.fields) | {"columns": columns}
        for kind in _FIELDS:
            for field in fields[kind]:
                if field["column"] is not None:
                    self._move(field, place, file)
        for name in ("weight", "group", "time"):
            if fields[name] is not None:
                fields[name] = place[self.columns[fields[name]]]
        return fields

    def _move(self, field: dict[str, Any], place: dict[str, int], file: str) -> None:
        first, count = field["column"], field.get("count", 1)
        names = self.columns[first : first + count]
        field["column"] = place.get(names[0])
        if [place.get(name) for name in names[1:]] != [field["column"] + i for i in range(1, count)]:
            raise DataError(f"{file}: the {count} columns of {field['name']!r} do not follow each other in its header")


def _complete(fields: Mapping[str, Any]) -> dict[str, Any]:
    whole = _with_defaults(fields, _TOP, "log schema")
    whole["columns"] = list(whole["columns"])
    if not whole["columns"] or len(set(whole["columns"])) < len(whole["columns"]):
        raise AttributeValueError(f"log schema: columns are {whole['columns'][:40]}; each needs a name of its own")
    for kind, known in _FIELDS.items():
        whole[kind] = [_with_defaults(f, known, f"log schema: {kind}[{i}]") for i, f in enumerate(whole[kind])]
    for i, field in enumerate(whole["sparse"]):
        if (field["column"] is None) == (not field["members"]):
            raise AttributeValueError(f"log schema: sparse[{i}] needs a column, or members (a cross), and not both")
    for name, letter in [("delimiter", whole["delimiter"]), ("quote", whole["quote"])]:
        if len(letter.encode()) > 1 or (name == "delimiter" and not letter):
            raise AttributeValueError(f"log schema: {name} is {letter!r}; it is one ASCII character")
    return whole


def _with_defaults(given: Mapping[str, Any], known: Mapping[str, Any], who: str) -> dict[str, Any]:
    for key in given:
        if key not in known:
            raise AttributeValueError(f"{who}: there is no {key!r}; there are {', '.join(known)}")
    whole = {key: copy.deepcopy(given.get(key, default)) for key, default in known.items()}
    for key, value in whole.items():
        if key not in given and known[key] is _NEEDED:
            raise AttributeValueError(f"{who}: {key!r} is needed")
        said, fits = _TYPE_BY_KEY.get(key, ("", None))
        optional = known[key] is None or (key == "column" and known.get("at_least", _NEEDED) is None)
        if fits is not None and not fits(value) and not (value is None and optional):
            raise AttributeValueError(f"{who}: {key} is {value!r}; it must be {said}")
        if key in _CHOICES and value not in _CHOICES[key]:
            allowed = ", ".join(repr(choice) for choice in _CHOICES[key])
            raise AttributeValueError(f"{who}: {key} is {value!r}; it is one of {allowed}")
    return whole


def _native_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping that the native side takes: every key, and -1 for what is not there."""

    def whole(value: int | None) -> int:
        return -1 if value is None else value

    return {
        **fields,
        "line_bytes": current().line_bytes,
        "head": len(fields["head"]),
        "sparse": [
            f | {"column": whole(f["column"]), "members": list(f["members"] or []), "bucket": f["bucket"] or ""}
            for f in fields["sparse"]
        ],
        "ragged": [f | {key: whole(f[key]) for key in ("max_length", "along")} for f in fields["ragged"]],
        "dense": [f | {"center": float(f["center"]), "scale": float(f["scale"])} for f in fields["dense"]],
        "labels": [f | {"column": whole(f["column"]), "positive": list(f["positive"] or [])} for f in fields["labels"]],
        "written": [f | {"column": whole(f["column"]), "date": f["date"] or ""} for f in fields["written"]],
        **{name: whole(fields[name]) for name in ("weight", "group", "time")},
    }
