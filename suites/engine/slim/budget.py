"""Which layers stay in float32 so that 8 bits lose no more than is allowed, or take no more time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from framework import set_num_threads
from framework.errors import AttributeValueError
from suites.engine.config.building import build_runtime, read_config
from suites.engine.predict.inference import evaluate_export, export_run, open_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim.sensitivity import measured
from suites.engine.slim.timing import Timed
from suites.engine.train.hooks.assess import main_figure

_ROUNDS = 3  # of times, in turns


@dataclass(frozen=True)
class Budget:
    """What 8 bits may cost; one of both.

    Attributes:
        loss: of the main figure on the evaluation set, 0 or more: the fewest layers stay in float32 that keep it.
        time: share of the float32 network's time, in (0, 1]: as many layers stay as fit into it, those that lose most.
        threads: that compute while times are taken.
        inputs: examples that are timed.
    """

    loss: float | None = None
    time: float | None = None
    threads: int = 1
    inputs: int = 64

    def __post_init__(self) -> None:
        if (self.loss is None) == (self.time is None):
            raise AttributeValueError("quantize: take one of --most-loss and --most-time")
        if self.loss is not None and not self.loss >= 0:
            raise AttributeValueError(f"quantize: --most-loss is {self.loss:g}; it must be 0 or more")
        if self.time is not None and not 0 < self.time <= 1:
            raise AttributeValueError(
                f"quantize: --most-time is {self.time:g}; it is a share of the float32 network's time, in (0, 1]"
            )


def within(
    run: Path, how: Quantization, budget: Budget, folder: Path, *, say: Callable[[str], None] = print
) -> Quantization:
    """`how` with the layers kept in float32 that the budget asks for, found by bisection.

    Layers stay in the order of `sensitivity`, those that lose most first. What is given back was measured, not guessed.

    Args:
        run: its folder; figures are of its own evaluation set.
        how: mode "static"; what its `keep` names stays in any case.
        budget: what 8 bits may cost.
        folder: where exports lie while they are measured.
        say: takes a line about each measurement.

    Raises:
        AttributeValueError: the budget cannot be kept.
        CheckpointError, DataError: of the run.
    """
    names = list(dict.fromkeys(row.name for row in measured(run, how) if row.name))
    export_run(run, folder / "float32")

    def at(count: int) -> Quantization:
        return replace(how, keep=(*how.keep, *names[:count]))

    def exported(count: int) -> Path:
        export_run(run, folder / "try", quantization=at(count))
        return folder / "try"

    if budget.loss is not None:
        lost = _lost(run, folder / "float32", say)
        allowed = budget.loss
        count = _first(range(len(names) + 1), lambda count: lost(exported(count), count) <= allowed)
        if count > len(names):
            raise AttributeValueError(
                f"quantize: --most-loss {allowed:g} cannot be kept: more is lost with all layers that have a name in "
                "float32"
            )
        return at(count)
    assert budget.time is not None
    share = _share(run, folder / "float32", budget, say)
    most = budget.time
    if (least := share(exported(0), 0)) > most:
        raise AttributeValueError(
            f"quantize: --most-time {most:g} cannot be reached: with all layers in 8 bits it is {least:.2f}"
        )
    return at(_first(range(1, len(names) + 1), lambda count: share(exported(count), count) > most) - 1)


def _lost(run: Path, whole: Path, say: Callable[[str], None]) -> Callable[[Path, int], float]:
    """How much of the main figure an export loses beside the one in float32."""
    name, lower = main_figure(open_run(run), build_runtime(read_config(run)).evaluation)
    wanted = evaluate_export(run, whole)[name]
    say(f"float32: {name} {wanted:.4g}")

    def lost(exported: Path, count: int) -> float:
        found = evaluate_export(run, exported)[name]
        say(f"8 bits, {count} layers in float32: {name} {found:.4g}")
        return found - wanted if lower else wanted - found

    return lost


def _share(run: Path, whole: Path, budget: Budget, say: Callable[[str], None]) -> Callable[[Path, int], float]:
    """An export's time as a share of that in float32, in turns."""

    def share(exported: Path, count: int) -> float:
        set_num_threads(budget.threads)
        ones = [Timed.of(run, path, budget.inputs) for path in (whole, exported)]
        for _ in range(_ROUNDS):
            for one in ones:
                one.alone()
        first, second = (one.percentile(50) for one in ones)
        say(f"8 bits, {count} layers in float32: {second:.2f} ms, {second / first:.2f} of float32's")
        return second / first

    return share


def _first(counts: range, fits: Callable[[int], bool]) -> int:
    """The first that fits, by bisection, if all behind one that fits do so too; the one behind the last for none."""
    low, high = counts.start, counts.stop
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
