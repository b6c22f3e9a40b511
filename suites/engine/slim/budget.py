"""Which layers stay in float32 or read 16 bits: so that 8 bits lose or take no more than is allowed, or least time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from framework import set_num_threads
from framework.errors import AttributeValueError
from framework.quantization import Speed
from suites.engine.predict.inference import evaluate_export, export_run
from suites.engine.predict.quantizing import FEW, Quantization, speed_said
from suites.engine.slim.judging import judged_by
from suites.engine.slim.sensitivity import measured
from suites.engine.slim.timing import Timed

_ROUNDS = 3  # of times, in turns


@dataclass(frozen=True)
class Budget:
    """What 8 bits may cost: one of loss and time, or none where they are to be fastest.

    Attributes:
        loss: of the main figure on the evaluation set, 0 or more: as few layers have more than 8 bits as keep it, and
            of those as few stay in float32, where 16 bits are faster.
        time: share of the float32 network's time, in (0, 1]: as many layers have more than 8 bits as fit into it, those
            that lose most, and of those as many stay in float32.
        threads: that compute while times are taken.
        inputs: examples that are timed.
        fastest: first leave layers in float32 that are slower in 8 bits here, as `measure_speed` chooses them.
    """

    loss: float | None = None
    time: float | None = None
    threads: int = 1
    inputs: int = 64
    fastest: bool = False

    def __post_init__(self) -> None:
        given = sum(wish is not None for wish in (self.loss, self.time))
        if given > 1 or (not given and not self.fastest):
            raise AttributeValueError("quantize: take one of --most-loss and --most-time, or --fastest")
        if self.loss is not None and not self.loss >= 0:
            raise AttributeValueError(f"quantize: --most-loss is {self.loss:g}; it must be 0 or more")
        if self.time is not None and not 0 < self.time <= 1:
            raise AttributeValueError(
                f"quantize: --most-time is {self.time:g}; it is a share of the float32 network's time, in (0, 1]"
            )


def within(
    run: Path, how: Quantization, budget: Budget, folder: Path, *, say: Callable[[str], None] = print
) -> Quantization:
    """`how` with the layers kept in float32, and those that read 16 bits, that the budget asks for.

    Layers get more than 8 bits in the order of `sensitivity`, those that lose most first; those that lose most among
    them stay in float32, and so do those that 16 bits make no faster here. Both numbers are found by bisection. What is
    given back was measured, not guessed.

    Args:
        run: its folder; figures are of its own evaluation set.
        how: mode "static"; what its `keep` and `sixteen` name stays so in any case, and so do layers that
            `budget.fastest` leaves in float32.
        budget: what 8 bits may cost.
        folder: where exports lie while they are measured.
        say: takes a line about each measurement.

    Raises:
        AttributeValueError: the budget cannot be kept.
        CheckpointError, DataError: of the run.
    """
    if budget.fastest:
        how = _fastest(run, how, budget.threads, folder, say)
    if budget.loss is None and budget.time is None:
        return how
    rows = [row for row in measured(run, how) if row.name]
    names = list(dict.fromkeys(row.name for row in rows))
    gains = {row.name for row in rows if row.speedup is not None and row.speedup > 1}
    export_run(run, folder / "float32")
    cost = _lost(run, folder / "float32", say) if budget.loss is not None else _share(run, folder, budget, say)
    known: dict[Quantization, float] = {}

    def mixed(whole: int, more: int) -> Quantization:
        """The first `whole` in float32, those up to `more` with 16 bits where they gain by it."""
        sixteen = tuple(name for name in names[whole:more] if name in gains)
        keep = (name for name in names[:more] if name not in sixteen)
        return replace(how, keep=(*how.keep, *keep), sixteen=(*how.sixteen, *sixteen))

    def costs(whole: int, more: int) -> float:
        tried = mixed(whole, more)
        if tried not in known:
            export_run(run, folder / "try", quantization=tried)
            counts = len(tried.keep) - len(how.keep), len(tried.sixteen) - len(how.sixteen)
            known[tried] = cost(folder / "try", "{} layers in float32, {} with 16 bits".format(*counts))
        return known[tried]

    counts = range(len(names) + 1)
    if (allowed := budget.loss) is not None:
        more = _first(counts, lambda count: costs(count, count) <= allowed)
        if more > len(names):
            raise AttributeValueError(
                f"quantize: --most-loss {allowed:g} cannot be kept: more is lost with all layers that have a name in "
                "float32"
            )
        return mixed(_first(range(more), lambda whole: costs(whole, more) <= allowed), more)
    assert budget.time is not None
    most = budget.time
    if (least := costs(0, 0)) > most:
        raise AttributeValueError(
            f"quantize: --most-time {most:g} cannot be reached: with all layers in 8 bits it is {least:.2f}"
        )
    more = _first(counts[1:], lambda count: costs(0, count) > most) - 1
    return mixed(_first(range(1, more + 1), lambda whole: costs(whole, more) > most) - 1, more)


def speed_here(run: Path, how: Quantization, threads: int, folder: Path) -> Speed:
    """How fast a run's network is by `how` on this machine, by so many threads; see `measure_speed`.

    Args:
        run: its folder.
        how: its rounding is that to the nearest, and few inputs are looked at: neither costs time.
        threads: that compute.
        folder: where the export lies that is measured.

    Raises:
        CheckpointError, DataError: of the run.
    """
    set_num_threads(threads)
    plain = replace(how, batches=1, inputs=min(how.inputs, FEW), equalization=None, adaround=None, fastest=False)
    speed = export_run(run, folder / "speed", quantization=plain, speed=True).speed
    assert speed is not None
    return speed


def _fastest(run: Path, how: Quantization, threads: int, folder: Path, say: Callable[[str], None]) -> Quantization:
    speed = speed_here(run, how, threads, folder)
    for line in speed_said(speed, True):
        say(line)
    return replace(how, keep=(*how.keep, *speed.keep))


def _lost(run: Path, whole: Path, say: Callable[[str], None]) -> Callable[[Path, str], float]:
    """How much of the main figure an export loses beside the one in float32."""
    name, lower = judged_by(run)
    wanted = evaluate_export(run, whole)[name]
    say(f"float32: {name} {wanted:.4g}")

    def lost(exported: Path, kind: str) -> float:
        found = evaluate_export(run, exported)[name]
        say(f"8 bits, {kind}: {name} {found:.4g}")
        return found - wanted if lower else wanted - found

    return lost


def _share(run: Path, folder: Path, budget: Budget, say: Callable[[str], None]) -> Callable[[Path, str], float]:
    """An export's time as a share of that in float32, in turns."""

    def share(exported: Path, kind: str) -> float:
        set_num_threads(budget.threads)
        ones = [Timed.of(run, path, budget.inputs) for path in (folder / "float32", exported)]
        for _ in range(_ROUNDS):
            for one in ones:
                one.alone()
        first, second = (one.percentile(50) for one in ones)
        say(f"8 bits, {kind}: {second:.2f} ms, {second / first:.2f} of float32's")
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
