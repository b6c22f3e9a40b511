"""Whether whole numbers in a log are codes or amounts, by training both ways on a sample (`data schema --compare`)."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from framework.atomic import write_bytes
from framework.errors import DataError, NotSupportedError
from framework.outside import read_text
from suites.ctr.datasets.encoding import whole_number
from suites.ctr.inspection.guess import sample_lines
from suites.ctr.schema import Schema, schema_of
from suites.ctr.schema.features import Dense, Feature, Signed, Sparse
from suites.engine.data.intake.tables import Dialect, rows_in
from suites.engine.registry import register
from suites.engine.train.training import train

_CONFIG = Path("ctr/deepfm_csv")
_MOST_ROWS = 50_000  # that are trained on, so that a minute is enough
_FEW_ROWS = 200
_NOISE = 0.002  # of AUC, below which one way is no better than the other


@register("comparison", "click_log")
def compare(path: Path, text: str, seconds: float = 60.0) -> list[str]:
    """Train with the columns of whole numbers as numbers (Dense) and as codes (Sparse), and say which is better.

    Args:
        path: the log, delimited text.
        text: its schema, as `guess_schema` gives it.
        seconds: for both together.

    Returns:
        Lines for people: both figures, and what they recommend.

    Raises:
        NotSupportedError: the log is no delimited text.
        DataError: it has too few rows.
    """
    schema = schema_of(yaml.safe_load(text))
    if schema.format.kind != "delimited":
        raise NotSupportedError(f"data schema --compare: {path}: takes delimited text, not {schema.format.kind}")
    names, rows = _sample(path, schema)
    wanted = [name for name, feature in schema.features.items() if _either(schema, name, feature, names, rows)]
    if not wanted:
        return ["no feature of whole numbers could be Dense as well as Sparse, so there is nothing to compare"]
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder, _quiet():
        log = Path(folder) / "sample.csv"
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows([names, *rows])
        write_bytes(log, written.getvalue().encode("utf-8", "surrogateescape"))
        found = {
            kind: _trained(_as_kind(schema, wanted, kind), log, f"as_{kind}", seconds / 2)
            for kind in ("Dense", "Sparse")
        }
    return _said(wanted, found, len(rows))


def _sample(path: Path, schema: Schema) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and rows that are spread over the file."""
    form = schema.format
    every = [row.cells for row in rows_in(sample_lines(path, form.encoding), Dialect(form.delimiter, strip=form.strip))]
    names = list(form.columns or every[0])
    rows = [row for row in every[1 if form.header else 0 :] if len(row) == len(names)]
    if len(rows) < _FEW_ROWS:
        raise DataError(f"{path}: has {len(rows)} rows; {_FEW_ROWS} are needed to compare two schemas")
    return names, rows[:: -(-len(rows) // _MOST_ROWS)]


def _either(schema: Schema, name: str, feature: Feature, names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a feature could be a number as well as a code: plain whole numbers, which its kind takes."""
    if not isinstance(feature, Dense | Sparse) or getattr(feature, "bucket", None):
        return False
    column = schema.column_of(name)
    if column in schema.format.written:
        return False
    at, missing = names.index(column), {"", *schema.format.missing}
    return all(row[at] in missing or whole_number(row[at]) is not None for row in rows)


def _as_kind(schema: Schema, wanted: Sequence[str], kind: str) -> Schema:
    """The schema with these features of one kind, for a file that the csv module wrote."""
    features = {
        name: _made(schema.column_of(name), feature, kind) if name in wanted else feature
        for name, feature in schema.features.items()
    }
    if not any(isinstance(feature, Signed) for feature in features.values()):  # models look at least one value up
        features[f"{wanted[0]} in buckets"] = Sparse(column=schema.column_of(wanted[0]), bucket="log_square")
    form = replace(schema.format, delimiter=",", header=True, columns=None, quote='"', encoding=None, strip=False)
    return replace(schema, features=features, format=form)


def _made(column: str, feature: Feature, kind: str) -> Feature:
    if type(feature).__name__ == kind:
        return feature
    return Dense(column=column, transform="standard") if kind == "Dense" else Sparse(column=column)


def _trained(schema: Schema, log: Path, name: str, seconds: float) -> float:
    """The AUC of the best weights on the tenth of the rows that decides which those are."""
    overrides = [
        f"data.root={log}",
        f"data.schema={json.dumps(schema.plain())}",
        f"runtime.minutes={seconds / 60}",
        "runtime.evaluation={every: 1, pictures: 0}",
        "runtime.data.max_skipped=0.05",
    ]
    train(_CONFIG, overrides, runs=log.parent, name=name)
    figures = json.loads(read_text(log.parent / name / "metrics.json"))
    return float(figures["auc"])


def _said(wanted: Sequence[str], found: dict[str, float], rows: int) -> list[str]:
    better = max(found, key=lambda kind: found[kind])
    other = next(kind for kind in found if kind != better)
    lines = [f"{', '.join(wanted)} as {kind}: AUC {auc:.4f}" for kind, auc in found.items()]
    if found[better] - found[other] < _NOISE:
        return [*lines, f"no difference beyond noise on {rows} rows: leave the schema as it is"]
    return [*lines, f"recommended on {rows} rows: {better}"]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Inside, only errors are logged: two runs would say what nobody asks."""
    logger = logging.getLogger("suites")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
