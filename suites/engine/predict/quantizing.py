"""8-bit inference of a run: calibrated on its training set or on files, exported, and evaluated like the run itself."""

from __future__ import annotations

import itertools
import logging
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framework import num_threads
from framework.errors import AttributeValueError, ConfigError, DataError
from framework.graph.explanation import explain
from framework.graph.ir import Program
from framework.quantization import AdaRound, Speed, measure_speed, quantize
from suites.engine.config.building import limited
from suites.engine.config.settings import DataSettings
from suites.engine.contract.feeding import Feed
from suites.engine.contract.processor import Processor
from suites.engine.contract.task import Task
from suites.engine.predict.inputs import matched, read_inputs
from suites.engine.predict.items import batches_of

_log = logging.getLogger(__name__)
_SHOWN = 6  # slow layers that are named
FEW = 10  # inputs: fewer may not show how far activations reach


@dataclass(frozen=True)
class Quantization:
    """How an export holds weights in 8 bits and computes products with them; see docs/howto/quantization.md.

    Attributes:
        mode: "dynamic" or "static".
        method: how mode "static" makes ranges of what it sees: a name of `framework.quantization.METHODS`.
        batches: training batches that mode "static" looks at.
        calibration: files, folders and patterns that mode "static" looks at instead, such as a folder of pictures.
        inputs: how many of those at most, evenly spread.
        keep: patterns of names of weights that stay in float32, such as "*.pooler.*".
        sixteen: the same of weights whose layers read 16 bits.
        smallest: what has fewer weights stays in float32.
        tables: round tables of embeddings too.
        equalization: by what mode "static" equalises neighbouring layers, see `framework.quantization.equalize`.
        adaround: how mode "static" learns to round weights; None for the nearest whole number.
        fastest: leave layers in float32 that are slower in 8 bits on this machine, where that makes the whole faster,
            see `speed_of`.
    """

    mode: str = "dynamic"
    method: str = "abs_max"
    batches: int = 8
    calibration: tuple[str, ...] = ()
    inputs: int = 100
    keep: tuple[str, ...] = ()
    sixteen: tuple[str, ...] = ()
    smallest: int = 4096
    tables: bool = True
    equalization: str | None = None
    adaround: AdaRound | None = None
    fastest: bool = False

    def __post_init__(self) -> None:
        for name in ("batches", "inputs"):
            if (count := getattr(self, name)) < 1:
                raise AttributeValueError(f"quantization: {name} is {count}; calibration needs at least 1")
        for name in ("calibration", "equalization", "adaround"):
            if getattr(self, name) and self.mode != "static":
                raise AttributeValueError(f"quantization: {name} is of mode static, not {self.mode}; leave it out")


def rounding_of(a: Namespace) -> dict[str, Any]:
    """Settings of a `Quantization` that the options of `suites.engine.command_line.add_rounding_options` ask for.

    Raises:
        ConfigError: bounds of `--adaround` without it.
        AttributeValueError: one of them is out of range.
    """
    bounds = {
        name: v for name in ("steps", "seconds", "megabytes") if (v := getattr(a, f"adaround_{name}")) is not None
    }
    if bounds and not a.adaround:
        idle = ", ".join(f"--adaround-{name}" for name in bounds)
        raise ConfigError(f"{idle} would do nothing without --adaround; leave it out")
    return {"equalization": a.equalization, "adaround": AdaRound(**bounds, say=print) if a.adaround else None}


def quantize_for(
    task: Task,
    program: Program,
    how: Quantization,
    seed: int = 0,
    processor: Processor | None = None,
    feed: Feed | None = None,
    flat: Program | None = None,
) -> Program:
    """The Program of a task's `eval_step` in 8 bits.

    Mode "static" reads `how.calibration` with the processor, or else training batches, shuffled by `seed`. `feed` makes
    the Program's inputs of them, see `feed_of`. `flat`: as of `quantize`, see `flat_program`.

    Raises:
        ConfigError: training batches lack what the model reads when it predicts.
        DataError: nothing that `how.calibration` names can be read.
    """
    return quantize(
        program,
        mode=how.mode,
        calibration=calibration_batches(task, how, seed, processor, feed) if how.mode == "static" else (),
        method=how.method,
        keep=how.keep,
        sixteen=how.sixteen,
        smallest=how.smallest,
        tables=how.tables,
        equalization=how.equalization,
        adaround=how.adaround,
        flat=flat,
    )


def speed_of(program: Program, how: Quantization, inputs: Sequence[np.ndarray]) -> tuple[Speed, Quantization]:
    """How fast a Program is by `how` beside float32, on one batch, and `how` with the layers that stay in float32 then.

    These are those that make it fastest where `how.fastest` asks for them, else none but `how.keep`.
    """
    speed = measure_speed(
        program,
        inputs,
        mode=how.mode,
        keep=how.keep,
        sixteen=how.sixteen,
        smallest=how.smallest,
        tables=how.tables,
    )
    return speed, replace(how, keep=(*how.keep, *speed.keep), fastest=False) if how.fastest else how


def speed_said(speed: Speed, fastest: bool) -> list[str]:
    """Whether 8 bits are faster here than float32, which layers are not, and what `--fastest` does about it."""
    lines = [f"speed here, on one input by {num_threads()} threads: {speed.speedup:.2f} times that of float32"]
    if speed.slower:
        shown = [f"{name} ({ratio:.2f})" for name, ratio in list(speed.slower.items())[:_SHOWN]]
        rest = [f"{len(speed.slower) - _SHOWN} more"] if len(speed.slower) > _SHOWN else []
        lines.append(f"slower than in float32, most time lost first: {', '.join([*shown, *rest])}")
    if speed.keep:
        kept = f"{len(speed.keep)} layers in float32: {speed.best:.2f} times"
        words = " ".join(f"--keep '{name}'" for name in speed.keep)
        lines.append(f"--fastest, which is {words}: {kept}" if fastest else f"with --fastest, {kept}")
    elif fastest:
        lines.append("--fastest leaves no layer in float32: that would not make the whole faster here")
    if speed.best <= 1:
        lines.append("8 bits are no faster than float32 here; they only make the file smaller")
    return lines


def rounding_said(program: Program) -> list[str]:
    """What equalisation and AdaRound came to: a line each, and those that tell of what was left alone."""
    found = explain(program)
    pairs, layers = found["equalize"], found["adaround"]
    said = [f"{len(pairs.matched)} pairs of layers equalised", *pairs.missed] if pairs.matched or pairs.missed else []
    if layers.matched or layers.missed:
        said += [f"the rounding of {len(layers.matched)} layers learnt", *layers.missed]
    return said


def calibration_batches(
    task: Task,
    how: Quantization,
    seed: int = 0,
    processor: Processor | None = None,
    feed: Feed | None = None,
) -> Iterator[list[np.ndarray]]:
    """What mode "static" looks at: arrays of the task's `eval_inputs`, batch by batch. See `quantize_for`."""
    if how.calibration:
        batches = _input_batches(task, processor or task.processor(), how)
    else:
        batches = _training_batches(task, how.batches, seed)
    return batches if feed is None else _fed(task, batches, feed)


def _fed(task: Task, batches: Iterator[list[np.ndarray]], feed: Feed) -> Iterator[list[np.ndarray]]:
    for batch in batches:
        fed = feed(dict(zip(task.eval_inputs, batch, strict=True))).arrays
        yield [fed[name] for name in task.eval_inputs]


def _input_batches(task: Task, processor: Processor, how: Quantization) -> Iterator[list[np.ndarray]]:
    """Inputs one by one: pictures may differ in size."""
    readers = [found for word in how.calibration for name in matched(word) for found in processor.inputs(name)]
    step = max(1, len(readers) // how.inputs)
    names = [name for name, _ in readers][::step][: how.inputs]
    skipped: list[str] = []
    count = 0
    for _, item in read_inputs(names, processor, skipped):
        count += 1
        for batch in batches_of(processor, [item]):
            yield [batch[name] for name in task.eval_inputs]
    where = ", ".join(how.calibration)
    for line in skipped:
        _log.warning("quantization: calibration skipped %s", line)
    if count == 0:
        raise DataError(f"quantization: {where}: holds nothing that this model reads; name a folder of its inputs")
    if count < FEW:
        said = "quantization: %s: only %d to calibrate on; ranges may be too narrow, take about 100"
        _log.warning(said, where, count)


def _training_batches(task: Task, count: int, seed: int) -> Iterator[list[np.ndarray]]:
    with limited(task.train_loader(seed=seed, workers=0), DataSettings(), "another") as loader:
        for batch in itertools.islice(loader.stream(), count):
            missing = [name for name in task.eval_inputs if name not in batch]
            if missing:
                raise ConfigError(
                    f"quantization: training batches have no {', '.join(missing)}, which this model reads when it "
                    "predicts, so it cannot be calibrated on them; take mode dynamic"
                )
            yield [batch[name] for name in task.eval_inputs]
