"""What a stranger's file is, if it is a click log: a table with a label of two values."""

from __future__ import annotations

from pathlib import Path

from framework.data.logs.inflate import compression
from framework.errors import ConfigError
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.schema import Schema, schema_of
from suites.ctr.schema.features import Sparse
from suites.engine.config.tree.yaml_text import parse_text
from suites.engine.contract.recognising import Recognised, recogniser
from suites.engine.data.skipping import OtherKindError
from suites.engine.registry import register

_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".log", ".parquet", ".gz", ".zst")
_NAMES = ("click", "clicked", "is_click", "converted", "conversion", "is_buy")


@register("recogniser", "ctr")
@recogniser(_ENDINGS, folders=False)
def recognise(path: Path) -> Recognised | None:
    """What a file of clicks is, and the command that trains on it."""
    guessed = guess_schema(path, rows=2000)
    try:
        schema = _schema(guessed)
    except ConfigError as error:
        raise OtherKindError(f"{path}: what is guessed of its columns is no schema: {error}") from None
    label = next(iter(schema.labels))
    kinds = len(schema.of(Sparse)), len(schema.features)
    packed = ", packed" if compression(path) else ""
    what = f"click log{packed}: label {label}, {kinds[1]} features, {kinds[0]} of them sparse, 8 of 10 rows to train on"
    return Recognised(what, "ctr/clicks", (f"data.root={path}",), 75 if label.lower() in _NAMES else 55)


def _schema(text: str) -> Schema:
    return schema_of(parse_text(text, "guessed").plain())
