"""What is wrong with a click log, for `paddock data check`: rows that are wrong, labels, missing values, leakage."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from framework.data.faults import FaultPolicy
from framework.errors import NotSupportedError
from suites.ctr.datasets import ClickDataset
from suites.ctr.datasets.clicks import Clicks
from suites.ctr.datasets.encoding import WRONG
from suites.ctr.datasets.streamed import StreamedSource
from suites.ctr.inspection.leakage import leaks, repeated_rows
from suites.ctr.schema import Schema, read_schema
from suites.ctr.schema.features import Dense
from suites.engine.config import Config, Factory
from suites.engine.contract.inspection import Finding, Inspected, Inspector
from suites.engine.registry import register

_RARE = 0.001  # share of a label's value below which figures are of a few rows
_MOSTLY = 0.5  # share of missing values from which on a column is told
_MOST_ROWS = 2_000_000  # of a log that is streamed
_BATCH = 4096
_HASH = np.int64((1 << 52) - 1)


@register("inspector", "ctr")
class ClickInspector(Inspector):
    """Reads all rows of a log in memory, and the first two million of a streamed one."""

    def opened(self, config: Config, place: str) -> Any:
        """The log with the config's schema; rows that are wrong are counted, however many there are."""
        dataset, schema = config.part(place), config.build("data.schema")
        assert isinstance(dataset, Factory)
        schema = read_schema(schema) if isinstance(schema, str) else schema
        given = dataset.arguments
        if dataset.takes("max_skipped"):
            given["max_skipped"] = 1.0
        return Factory(dataset.target, lambda: given)(schema=schema)

    def inspect(self, dataset: Any) -> Inspected:
        """What a log holds, and what is wrong with it."""
        if isinstance(dataset, StreamedSource):
            return _streamed(dataset)
        assert isinstance(dataset, ClickDataset)
        clicks, schema = dataset.clicks, dataset.schema
        wrong = dataset.left_out.names.get(WRONG)
        counts = dict(wrong.counts) if wrong else {}
        findings = _wrong_rows(
            counts, wrong.samples if wrong else 0, tuple(f"{where}: {why}" for where, why in dataset.left_out.reasons)
        )
        findings += _labels(schema, clicks.labels)
        findings += _missing(schema, clicks)
        again = repeated_rows(clicks)
        if len(again):
            twice = tuple(dataset.name_of(int(at)) for at in again[:5])
            text = f"{len(again)} of {len(clicks)} rows equal earlier ones in all that the schema reads"
            findings.append(Finding("note", text, twice))
        return Inspected(_summary(schema, len(clicks), clicks.labels), findings)

    def between(self, sets: Mapping[str, Any]) -> list[Finding]:
        """What training knows of each evaluation set: later times, the same groups, the same rows."""
        train = sets.get("train")
        if not isinstance(train, ClickDataset):
            return []
        held = {name: log for name, log in sets.items() if name != "train" and isinstance(log, ClickDataset)}
        found = [(name, text) for name, log in held.items() for text in leaks(train.clicks, log.clicks)]
        return [Finding("warning", f"{name}: {text}") for name, text in found]

    def picture(self, sample: Any, class_names: Any) -> np.ndarray:
        """Rows are not drawn."""
        raise NotSupportedError("data: rows of a click log are not drawn")

    def augmented(self, config: Config, name: str, dataset: Any) -> Any:
        """Rows are not drawn."""
        raise NotSupportedError("data: rows of a click log are not drawn")

    def write_picture(self, path: Path, picture: np.ndarray) -> None:
        """Rows are not drawn."""
        raise NotSupportedError("data: rows of a click log are not drawn")


def _wrong_rows(counts: Mapping[str, int], total: int, first: tuple[str, ...]) -> list[Finding]:
    """An error for each reason why rows of a log cannot be read; the most frequent comes first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return [
        Finding(
            "error",
            f"{count} of {total} rows cannot be read: {why}",
            first if at == 0 else (),
            advice="mend them; training leaves out up to max_skipped (0.01) of the rows" if at == 0 else "",
        )
        for at, (why, count) in enumerate(ordered)
    ]


def _summary(schema: Schema, rows: int, labels: np.ndarray | None) -> list[str]:
    lines = [f"{rows} rows, {len(schema.features)} features"]
    width = max(map(len, schema.labels))
    if labels is None or not rows:
        return lines
    for column, name in enumerate(schema.labels):
        values = zip(*np.unique(labels[:, column], return_counts=True), strict=True)
        said = ", ".join(f"{value:g}: {count} ({count / rows:.2%})" for value, count in values)
        lines.append(f"  label {name:<{width}} {said}")
    return lines


def _labels(schema: Schema, labels: np.ndarray | None) -> list[Finding]:
    """An error where a label has one value, a warning where one of them is very rare."""
    found: list[Finding] = []
    if labels is None or not len(labels):
        return found
    for column, name in enumerate(schema.labels):
        share = float((labels[:, column] > 0.5).mean())
        if share in (0.0, 1.0):
            advice = "look at `labels` of the schema: positive, at_least"
            text = f"all rows have the label {name} {share:g}: nothing can be learnt"
            found.append(Finding("error", text, advice=advice))
        elif min(share, 1 - share) < _RARE:
            found.append(Finding("warning", f"the label {name} is 1 in {share:.4%} of the rows"))
    return found


def _missing(schema: Schema, clicks: Clicks) -> list[Finding]:
    """Notes of values that are missing, by feature; a warning for those that mostly are."""
    rows = max(len(clicks), 1)
    shares = {name: float((clicks.sparse[:, at] & _HASH == 0).mean()) for at, name in enumerate(schema.sparse())}
    shares |= {name: float(np.isnan(clicks.dense[:, at]).mean()) for at, name in enumerate(schema.of(Dense))}
    shares |= {name: float((np.diff(offsets) == 0).mean()) for name, (_, offsets) in clicks.ragged.items()}
    crossed = {name for name in shares if hasattr(schema.features[name], "of")}
    some = {name: share for name, share in shares.items() if share > 0 and name not in crossed and rows}
    mostly = tuple(f"{name}: {share:.1%}" for name, share in some.items() if share > _MOSTLY)
    others = tuple(f"{name}: {share:.1%}" for name, share in some.items() if share <= _MOSTLY)
    found = []
    if mostly:
        found.append(Finding("warning", f"{len(mostly)} features are missing in most rows", mostly))
    if others:
        found.append(Finding("note", f"{len(others)} features are missing in some rows", others))
    return found


def _streamed(source: StreamedSource) -> Inspected:
    """Rows, labels and bad rows of a streamed log; the rows are not held, so none are compared."""
    schema = source.learn()
    labels, rows = [], 0
    with source.loader(_BATCH) as log:
        log.faults = FaultPolicy(skipped=1.0)
        for batch in islice(log, _MOST_ROWS // _BATCH):
            labels.append(np.array(batch["labels"]))
            rows += len(labels[-1])
        messages = tuple(log.skipped.messages)
        counts = {kind: count for kind, count in log.skipped.kinds.items() if kind != "backwards"}
    every = np.concatenate(labels) if labels else np.zeros((0, len(schema.labels)), np.float32)
    more = [] if rows < _MOST_ROWS // _BATCH * _BATCH else ["  these are the first rows of a longer log"]
    found = _wrong_rows(counts, rows + sum(counts.values()), messages) + _labels(schema, every)
    note = Finding("note", "the log is streamed: missing values, copies and leakage between sets are not looked at")
    return Inspected([*_summary(schema, rows, every), *more], [*found, note])
