"""A table of a run's layers: what each alone loses in 8 bits, as numbers and as bars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from framework.atomic import write_text
from framework.errors import ConfigError, DataError
from framework.quantization import LayerLoss, sensitivity, speedups
from suites.engine.contract.capabilities import Publishes, feed_of
from suites.engine.pieces import whole
from suites.engine.predict.deploying import deployed_program
from suites.engine.predict.inference import open_run
from suites.engine.predict.quantizing import Quantization, calibration_batches
from suites.engine.run.folder import RunFolder
from suites.engine.weights.eight_bits import eight_bits_of

_BAR = 20  # characters of the longest bar


def measured(run: Path, how: Quantization, *, sixteen: bool = False) -> list[LayerLoss]:
    """What each layer of a run's network loses by `how`, on what it is calibrated on; most first.

    Those that `how.keep` names are left out. Each has how much faster 16 bits are than float32. `sixteen`: also what is
    lost with them, for as much time again.

    Raises:
        CheckpointError: no run is there.
        ConfigError: it was trained in 8 bits.
        DataError: there is nothing to calibrate on.
    """
    task = open_run(run)
    if eight_bits_of(task) is not None:
        raise ConfigError(
            f"{run} was trained in 8 bits (eight_bits), so its layers have learnt to lose little; take the run whose "
            "weights it began with"
        )
    for name, parameter in task.model.named_parameters():
        parameter.name = name
    processor = RunFolder(run).read_processor(task.processor_class)
    with TemporaryDirectory() as folder:  # of tables whose rows the network reads
        feed = None
        if isinstance(task, Publishes):
            task.publish(Path(folder))
            feed = feed_of(processor, Path(folder))
        batches = list(calibration_batches(task, how, processor=processor, feed=feed))
    if not batches:
        raise DataError(f"sensitivity: {run}: the training set is empty, so there is nothing to calibrate on")
    with whole():
        program = deployed_program(task, dict(zip(task.eval_inputs, batches[0], strict=True)))
    faster = speedups(program, batches, smallest=how.smallest)
    rows = sensitivity(program, batches, method=how.method, keep=how.keep, smallest=how.smallest, sixteen=sixteen)
    return [replace(row, speedup=faster.get(row.name)) for row in rows]


def markdown(rows: Sequence[LayerLoss]) -> str:
    """The table as Markdown; a bar's length is the error's share of the largest."""
    largest = max((row.error for row in rows), default=0.0) or 1.0
    heads = ["layer", "weights' name", "weights", "error", "16 bits", "16 bits' speed", ""]
    lines = [f"| {' | '.join(heads[:-1])} | |", "| --- " * len(heads) + "|"]
    for row in rows:
        bar = "#" * max(1, round(_BAR * row.error / largest))
        words = "" if row.sixteen is None else f"{row.sixteen:.2%}"
        speed = "" if row.speedup is None else f"{row.speedup:.2f}x"
        lines.append(f"| {row.layer} | {row.name} | {row.weights:,} | {row.error:.2%} | {words} | {speed} | {bar} |")
    return "\n".join(lines)


def write_table(rows: Sequence[LayerLoss], path: Path) -> None:
    """Write the table as `path` with the ending .md, and as JSON with the ending .json."""
    write_text(path.with_suffix(".md"), markdown(rows) + "\n")
    write_text(path.with_suffix(".json"), json.dumps([asdict(row) for row in rows], indent=2) + "\n")
