"""Why a row of a log cannot be used, in words: the same for rows of files and of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SAID = {
    "columns": "has {count} columns but there are {columns}",
    "number": "'{column}' is {text}, which is no {number}",
    "label": "the label '{column}' is {text}; it must be {label}",
    "weight": "the weight '{column}' is {text}; it must be a number of 0 or more",
    "time": "the time '{column}' is {text}; it must be {time}",
    "sign": "'{column}' is {text}, which is no whole number below 2^64",
    "values": "'{column}' has {count} values, and the schema takes {most}",
    "along": "'{column}' has {count} values, not as many as the sequence it goes along",
    "quote": "'{column}': its quote does not end with its value; `newlines: true` takes values over several lines, "
    "where these do not look like rows",
    "nul": "holds a NUL byte",
    "text": "is not UTF-8; `encoding: bytes` takes any bytes",
    "line": "has {count} bytes or more, over limits.line_bytes",
}


def reason(fault: tuple[str, int, int, int, int, bytes], columns: Sequence[str], fields: Mapping[str, Any]) -> str:
    """Why a row cannot be used.

    Args:
        fault: what the native reader says of it: kind, column or -1, count, line, byte, and the text that is wrong.
        columns: of the file.
        fields: of the `LogSchema`, whose places of columns are the file's.
    """
    kind, column, count, _, _, text = fault
    shown = text.decode("utf-8", "backslashreplace")
    if kind == "sign" and column < 0:
        return f"{shown!r} is no pair; expected {fields['order']}"
    if kind == "label" and (not shown or shown in fields["missing"]):
        return f"the label '{columns[column]}' is missing" if column >= 0 else "the label is missing"
    form: Mapping[str, Any] = next((each for each in fields["written"] if each["column"] == column), {})
    date = f"date ({form['date']})" if form.get("date") else ""
    plain = any(
        each["column"] == column and each["at_least"] is None and not each["number"] for each in fields["labels"]
    )
    named = [each for each in (*fields["dense"], *fields["sparse"]) if each["column"] == column and kind == "number"]
    plainly = "number that has a bucket" if named and named[0].get("bucket") else "finite number"
    return _SAID[kind].format(
        column=named[0]["name"] if named else columns[column] if column >= 0 else "it",
        most=max(
            (each["place"] + 1 for each in (*fields["dense"], *fields["sparse"]) if each["column"] == column), default=1
        ),
        columns=len(columns),
        count=count,
        text=repr(shown),
        number=date or ("number of the form that format.written gives" if form else plainly),
        time=f"a {date}" if date else "whole seconds",
        label="0 or 1, or the schema must say which values are positive" if plain else "a finite number",
    )
