"""The commands of `paddock slim`: each makes smaller models, then prints and writes the table of all.

`sensitivity` makes none; its table says what each layer alone loses in 8 bits.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from framework.errors import ConfigError
from suites.engine.command_line import INTERRUPTED
from suites.engine.config.building import read_config
from suites.engine.names import listing
from suites.engine.predict.quantizing import Quantization, rounding_of, speed_said
from suites.engine.slim.budget import Budget, speed_here, within
from suites.engine.slim.compare import Entry, Row, entries_of, markdown, other_data, write_table
from suites.engine.slim.compare import compare as compared
from suites.engine.slim.pruning import expect_cut_so, prune_run
from suites.engine.slim.sensitivity import markdown as sensitivity_markdown
from suites.engine.slim.sensitivity import measured
from suites.engine.slim.sensitivity import write_table as write_sensitivity
from suites.engine.slim.wishes import Wishes
from suites.engine.train.training import train
from suites.engine.weights.runs import run_at


def distil(a: Namespace) -> int:
    """Train students with their teachers, and without where asked for."""
    teachers = [str(path) for path in a.teacher or []]
    chosen = [f"distil.teachers=[{', '.join(teachers)}]"] if teachers else []
    runs: list[tuple[str, Path]] = []
    for path in a.config:
        name = "_".join(part for part in (a.name, path.stem) if part)
        config = read_config(path, [*a.overrides, *chosen])
        if config.get("distil") is None:
            raise ConfigError(f"{path}: has no teacher; add a section `distil`, or train it with `paddock train`")
        for teacher in config["distil.teachers"]:
            if (Path(teacher) / "config.yml").is_file() and (teacher, Path(teacher)) not in runs:
                runs.insert(0, (teacher, Path(teacher)))
        if a.alone:
            runs.append((f"{name}_alone", a.runs / f"{name}_alone"))
            if not _trained(a, path, f"{name}_alone", [*a.overrides, "distil=null"]):
                return INTERRUPTED
        runs.append((name, a.runs / name))
        if not _trained(a, path, name, [*a.overrides, *chosen]):
            return INTERRUPTED
    return _table(a, entries_of(runs))


def prune(a: Namespace) -> int:
    """Cut a model and train it on."""
    wishes = Wishes(**{field.name: getattr(a, field.name) for field in fields(Wishes)} | {"keep": tuple(a.keep)})
    if a.no_recovery and a.overrides:
        raise ConfigError("prune: -o would do nothing with --no-recovery, which trains nothing; leave it out")
    name = a.name or f"{a.run.name}_pruned"
    run, small = run_at(a.run), a.runs / name
    if a.resume and (small / "config.yml").is_file():
        expect_cut_so(run, small, wishes)
    else:
        print(f"{small}: {prune_run(run, small, wishes, overwrite=a.overwrite)}")
    runs = [(a.run.name, run), (f"{name}, cut", small)]
    if not a.no_recovery:
        if not _trained(a, small, f"{name}_recovered", a.overrides):
            return INTERRUPTED
        runs.append((f"{name}, trained on", a.runs / f"{name}_recovered"))
    return _table(a, entries_of(runs))


def quantize(a: Namespace) -> int:
    """Compare runs with themselves in 8 bits."""
    modes = a.mode or ["dynamic", "static"]
    within_budget = a.most_loss is not None or a.most_time is not None or a.fastest
    if "static" not in modes and not within_budget:
        given = {"method": a.method is not None, "calibration": a.calibration, "equalize": a.equalization}
        idle = [f"--{name}" for name, wish in (given | {"adaround": a.adaround}).items() if wish]
        if idle:
            raise ConfigError(
                f"quantize: {listing(idle)} would do nothing with --mode dynamic, which measures nothing; leave it out"
            )
    static = replace(_static(a), **rounding_of(a))
    runs = [(path.name, run_at(path)) for path in a.run]
    entries = entries_of(runs, modes, static)
    if within_budget:
        budget = Budget(a.most_loss, a.most_time, a.threads, a.inputs, a.fastest)
        for told, run in runs:
            with TemporaryDirectory(prefix="slim-") as folder:
                how = within(run, static, budget, Path(folder))
            words = [f"--keep '{name}'" for name in how.keep] + [f"--sixteen '{name}'" for name in how.sixteen]
            said = f"{len(how.keep)} layers stay in float32, {len(how.sixteen)} read 16 bits"
            print(f"{told}: {': '.join([said, ' '.join(words)] if words else [said])}")
            name = "fastest" if a.most_loss is None and a.most_time is None else "within the budget"
            entries.append(Entry(f"{told}, int8 {name}", run, how))
    return _table(a, entries, _slower)


def _slower(a: Namespace, entries: Sequence[Entry], rows: Sequence[Row]) -> list[str]:
    """Of static entries that are slower than float32 here, why, and what helps."""
    whole = {entry.run: row.median for entry, row in zip(entries, rows, strict=True) if entry.quantization is None}
    lines = []
    for entry, row in zip(entries, rows, strict=True):
        how = entry.quantization
        if how is None or how.mode != "static" or row.median <= whole[entry.run]:
            continue
        with TemporaryDirectory(prefix="slim-") as folder:
            said = speed_said(speed_here(entry.run, how, a.threads, Path(folder)), False)
        lines += [f"{entry.name} is slower than float32: {row.median:.2f} ms, {whole[entry.run]:.2f} ms", *said]
    return lines


def sensitivity(a: Namespace) -> int:
    """Tell which layers lose most in 8 bits."""
    rows = measured(run_at(a.run), _static(a), sixteen=True)
    write_sensitivity(rows, a.output / "sensitivity")
    print(sensitivity_markdown(rows))
    said = "`--keep NAME` leaves a layer in float32, `--sixteen NAME` gives it 16 bits to read"
    print(f"{a.output}: sensitivity.md and sensitivity.json; {said}")
    return 0


def _static(a: Namespace) -> Quantization:
    return Quantization(
        "static",
        a.method or "abs_max",
        calibration=tuple(a.calibration),
        keep=tuple(a.keep),
        sixteen=tuple(getattr(a, "sixteen", ())),
    )


def compare(a: Namespace) -> int:
    """Compare runs."""
    runs = []
    for word in a.run:
        name, _, path = word.rpartition("=")
        runs.append((name or Path(path).name, run_at(Path(path))))
    return _table(a, entries_of(runs, a.int8))


def _trained(a: Namespace, source: Path, name: str, overrides: Sequence[str]) -> bool:
    """Train a run; False if Ctrl-C ended it."""
    resume = a.resume and (a.runs / name / "config.yml").is_file()
    done = train(source, overrides, runs=a.runs, name=name, resume=resume, overwrite=a.overwrite)
    return not done.interrupted


def _table(
    a: Namespace,
    entries: Sequence[Entry],
    notes: Callable[[Namespace, Sequence[Entry], Sequence[Row]], list[str]] | None = None,
) -> int:
    """Make the table of all entries, with notes on it below."""
    sets: dict[str, list[str]] = {"eval": []}
    for word in a.set:
        name, colon, override = word.partition(":")
        if not colon or "=" not in override:
            raise ConfigError(f"--set {word}: expects NAME:PATH=VALUE, as in test:data.eval.dataset.path=test.tsv")
        sets.setdefault(name, []).append(override)
    rows = compared(entries, a.output, sets=sets, threads=a.threads, inputs=a.inputs)
    said = [*([] if sets["eval"] else other_data(entries)), *(notes(a, entries, rows) if notes else [])]
    write_table(rows, a.output / "table", said)
    print("\n\n".join([markdown(rows), *said]))
    print(f"{a.output}: exported models, table.md and table.json; times of the network alone, {a.threads} threads")
    return 0
