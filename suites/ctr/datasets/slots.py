"""Rows of slot logs: a line is `label slot:sign slot:sign ...`, or `show click sign:slot ...` as ElasticCTR has it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from framework.errors import ConfigError
from suites.ctr.datasets.contents import content
from suites.ctr.datasets.delimited import Lines
from suites.ctr.datasets.encoding import Cell, RawRows
from suites.ctr.schema import Format, Schema

_TOKEN = re.compile(r"[^ \t]+")  # blanks and tabs alone part tokens, as in the native reader: a sign may hold others


def read_slots(paths: list[str], schema: Schema) -> RawRows:
    """The rows of files that are read one after the other; slots that the schema does not name are left out.

    Raises:
        DataError: a file cannot be read.
    """
    if not paths:
        raise ConfigError("ClickLog: files is empty; name at least one")
    columns: dict[str, list[Cell]] = {name: [] for name in slot_columns(schema)}
    lines: list[int] = []
    file_of: list[int] = []
    numbers: list[int] = []
    wrong: list[str] = []
    for number, path in enumerate(paths):
        for line, text in enumerate(content(path).decode("utf-8", "surrogateescape").split("\n"), start=1):
            row = slot_row(text, schema.format, columns)
            if isinstance(row, str):
                wrong.append(f"{path}:{line}: {row}")
            elif row is not None:
                for name, values in columns.items():
                    values.append(row[name])
                numbers.append(len(lines) + len(wrong))
                lines.append(line)
                file_of.append(number)
    where = Lines(tuple(paths), np.array(file_of, np.int64), np.array(lines, np.int64))
    return RawRows(", ".join(paths), columns, where, wrong, numbers=np.array(numbers, np.int64))


def slot_columns(schema: Schema) -> list[str]:
    """The columns that a schema's slot logs have: the head's, then the slots that it names."""
    head = schema.format.head
    return [*head, *(name for name in schema.columns() if name not in head)]


def slot_row(text: str, form: Format, columns: Iterable[str]) -> dict[str, Cell] | str | None:
    """The values of a line by column, lists of those behind slots; what is wrong with it; None for an empty line."""
    line = text.removesuffix("\r")
    if not line:
        return None
    tokens = _TOKEN.findall(line)
    bare = [token for token in tokens[: len(form.head)] if ":" not in token]
    if len(bare) < len(form.head):
        return f"has {len(bare)} values before its pairs; the head is {', '.join(form.head)}"
    found: dict[str, Cell] = dict(zip(form.head, bare, strict=True))
    pairs: dict[str, list[str]] = {name: [] for name in columns if name not in found}
    for token in tokens[len(form.head) :]:
        slot, colon, sign = token.partition(":") if form.order == "slot:sign" else token.rpartition(":")
        slot, sign = (slot, sign) if form.order == "slot:sign" else (sign, slot)
        if not (slot and colon and sign):
            return f"'{token[:40]}' is no pair; expected {form.order}"
        if slot in pairs:
            pairs[slot].append(sign)
    return found | pairs
