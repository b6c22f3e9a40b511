"""A table of models: figures, latency, throughput, parameters and file size, all as exported and run natively."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from framework import set_num_threads
from framework.atomic import write_text
from framework.errors import AttributeValueError, ConfigError
from framework.io import sha256
from suites.engine.config.building import read_config
from suites.engine.data.sources import find_data, is_there
from suites.engine.names import listing
from suites.engine.predict.inference import evaluate_export, export_run, open_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim.judging import judged_by
from suites.engine.slim.timing import BATCH, Timed


@dataclass(frozen=True)
class Entry:
    """A model to compare.

    Attributes:
        name: in the table.
        run: its run folder.
        quantization: how its products are computed in 8 bits; None for float32.
    """

    name: str
    run: Path
    quantization: Quantization | None = None


_HASHED = 1 << 28  # bytes up to which a file of data is known by what it holds


@dataclass
class Row:
    """What is said of a model.

    Attributes:
        name: of the model.
        metric: name of the figure.
        figures: the figure by name of the evaluation set.
        median: milliseconds of one input, half of the inputs take less.
        p90: milliseconds that nine of ten inputs take at most.
        throughput: inputs a second in batches of 32.
        parameters: how many.
        megabytes: of the exported model's files.
        run: its run folder.
    """

    name: str
    metric: str
    figures: dict[str, float]
    median: float
    p90: float
    throughput: float
    parameters: int
    megabytes: float
    run: str


def entries_of(
    runs: Sequence[tuple[str, Path]], modes: Sequence[str] = (), static: Quantization | None = None
) -> list[Entry]:
    """Each named run in float32, then in 8 bits by each of the modes: "dynamic" and "static", which is as `static`."""
    static = static or Quantization("static")
    ways = {"dynamic": Quantization("dynamic", keep=static.keep, sixteen=static.sixteen), "static": static}
    quantized = [("", None), *((f", int8 {mode}", ways[mode]) for mode in modes)]
    return [Entry(f"{name}{suffix}", run, how) for name, run in runs for suffix, how in quantized]


def compare(
    entries: Sequence[Entry],
    folder: Path,
    *,
    sets: Mapping[str, Sequence[str]] | None = None,
    threads: int = 1,
    inputs: int = 64,
    rounds: int = 3,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Export each model, evaluate what was exported and take its time.

    Args:
        entries: the models.
        folder: where their exported models are written, a folder each.
        sets: overrides of each run's config by name of the evaluation set; by default its own set alone.
        threads: that compute while times are taken.
        inputs: examples of the evaluation set, evenly spread, that are timed; the network alone, texts already cut to
            tokens or images already read.
        rounds: how often each is timed; the models take turns, so that all meet the same busy moments.
        say: takes a line about each model.

    Raises:
        ConfigError: two entries have the same name, or the runs are judged by figures of other names.
        CheckpointError, DataError: of a run.
    """
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"compare: two models are called '{twice}'; name them apart, as in NAME=RUN")
    if min(threads, inputs, rounds) < 1:
        raise AttributeValueError(
            f"compare: threads is {threads}, inputs {inputs} and rounds {rounds}; all must be 1 or more"
        )
    metric = _common_figure(entries)
    rows, timed = [], []
    for number, entry in enumerate(entries):
        say(f"{entry.name}: exporting and evaluating")
        exported = folder / f"{number}_{_file_name(entry.name)}"
        for line in export_run(entry.run, exported, quantization=entry.quantization).rounding:
            say(f"  {line}")
        rows.append(_row(entry, metric, exported, sets or {"eval": []}))
        timed.append(Timed.of(entry.run, exported, inputs))
    set_num_threads(threads)
    for _ in range(rounds):
        for one in timed:
            one.round()
    for row, one in zip(rows, timed, strict=True):
        row.median, row.p90, row.throughput = one.percentile(50), one.percentile(90), one.throughput
    return rows


def _common_figure(entries: Sequence[Entry]) -> str:
    """The name of the figure that decides in all runs; raises ConfigError where they have several."""
    runs = {entry.run: entry.name for entry in reversed(entries)}
    names = {name: judged_by(run)[0] for run, name in runs.items()}
    if len(found := sorted(set(names.values()))) > 1:
        told = listing(f"{name} of {next(who for who, its in names.items() if its == name)}" for name in found)
        raise ConfigError(f"compare: the runs are judged by other figures: {told}; compare those that have one")
    return found[0] if found else ""


def other_data(entries: Sequence[Entry]) -> list[str]:
    """A line where the runs of a table are evaluated on other sets, by their configs and files; else none."""
    said: dict[str, list[str]] = {}
    for run, name in {entry.run: entry.name for entry in reversed(entries)}.items():
        eval_set = json.dumps(_told_by_content(read_config(run).get("data.eval.dataset")), sort_keys=True, default=str)
        said.setdefault(eval_set, []).append(name)
    if len(said) < 2:
        return []
    told = " against ".join(listing(sorted(names)) for names in said.values())
    return [
        f"The figures are of other evaluation sets ({told}), so they cannot be compared unless these hold the same "
        "data; `--set NAME:PATH=VALUE` takes one set for all."
    ]


def _told_by_content(value: Any) -> Any:
    """A section of a config, whose files are told by what they hold, and folders by where they are."""
    if isinstance(value, dict):
        return {key: _told_by_content(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_told_by_content(each) for each in value]
    if not isinstance(value, str) or not is_there(found := find_data(value)):
        return value
    file = next((path for path in (found, *found.parents) if path.is_file()), None)
    if file is None or file.stat().st_size > _HASHED:
        return str(found.resolve())
    return f"{sha256(file)}/{found.relative_to(file).as_posix()}"


def _row(entry: Entry, metric: str, exported: Path, sets: Mapping[str, Sequence[str]]) -> Row:
    figures = {name: evaluate_export(entry.run, exported, list(how))[metric] for name, how in sets.items()}
    size = sum(path.stat().st_size for path in exported.iterdir() if path.is_file())
    parameters = sum(p.size for p in open_run(entry.run).model.parameters())
    return Row(entry.name, metric, figures, 0.0, 0.0, 0.0, parameters, size / 1e6, str(entry.run))


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    sets = list(rows[0].figures) if rows else []
    metric = rows[0].metric if rows else ""
    heads = ["model", *(f"{metric} {name}" for name in sets), "ms, median", "ms, p90", f"a second, batch {BATCH}"]
    lines = [[*heads, "parameters", "MB"], ["---"] * (len(heads) + 2)]
    for row in rows:
        figures = [f"{row.figures[name]:.4f}" for name in sets]
        times = [f"{row.median:.2f}", f"{row.p90:.2f}", f"{row.throughput:,.0f}"]
        lines.append([row.name, *figures, *times, f"{row.parameters:,}", f"{row.megabytes:.1f}"])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_table(rows: Sequence[Row], path: Path, notes: Sequence[str] = ()) -> None:
    """Write the table as `path` with the ending .md, and notes below; all that it says as JSON with .json."""
    write_text(path.with_suffix(".md"), "\n\n".join([markdown(rows), *notes]) + "\n")
    write_text(path.with_suffix(".json"), json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
