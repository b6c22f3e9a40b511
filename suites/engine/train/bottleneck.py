"""Whether loading or training holds a run up: the speed of the loader alone, the step alone, and both together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from framework.errors import AttributeValueError
from suites.engine.config import Config
from suites.engine.config.building import build_runtime, build_task, limited
from suites.engine.contract.batch import Batch
from suites.engine.contract.step import Step
from suites.engine.contract.task import Task
from suites.engine.train.train_step import step_of

_WARM_UP = 2  # updates before the clock starts: the first one traces, the second allocates
_KEPT = 4  # batches that the step alone is timed on, in turns
_LITTLE = 0.1  # share of waiting up to which loading holds nothing up
Loader = Any  # a DataLoader or StreamLoader


@dataclass(frozen=True)
class Speeds:
    """What was measured, in samples a second.

    Attributes:
        loader: the loader alone, its batches thrown away.
        step: the update alone, on batches that are there already.
        both: as training has them.
        waiting: share of the time of `both` that passes in waiting for the next batch.
        workers: processes of the loader.
        batch: samples of an update.
    """

    loader: float
    step: float
    both: float
    waiting: float
    workers: int
    batch: int

    @property
    def verdict(self) -> str:
        """Which of the two is the bottleneck, and what to do."""
        if self.waiting <= _LITTLE:
            text = f"Training is the bottleneck: it waits {self.waiting:.0%} of its time for data"
            if self.loader > self.step:
                text += f", and the loader alone could feed {self.loader / self.step:.1f} times as much"
            return f"{text}. A faster loader would not help; a smaller model or input, or more cores, would."
        cores = os.cpu_count() or 1
        advice = "fewer or cheaper transforms, smaller files, a cache where the data set has one"
        if self.workers < cores:
            advice = f"more runtime.workers ({self.workers} of {cores} cores), {advice}"
        return f"Loading is the bottleneck: training waits {self.waiting:.0%} of its time. What helps: {advice}."

    def lines(self) -> list[str]:
        """The figures and what they mean."""
        held = self.both / self.step
        text = [
            f"loader alone   {self.loader:10.1f} samples/s   ({self.workers} workers)",
            f"step alone     {self.step:10.1f} samples/s   (updates of {self.batch})",
            f"both together  {self.both:10.1f} samples/s   waiting for data {self.waiting:.0%} of the time",
            self.verdict,
        ]
        if self.workers and self.waiting <= _LITTLE and held < 1 - _LITTLE:
            text.append(
                f"Together the step runs at {held:.0%} of its speed alone: the workers share its cores. Cheaper "
                "loading gives these back."
            )
        return text


def measure(config: Config, seconds: float = 10.0) -> Speeds:
    """Times the training of a config; nothing is written, and no weights are read.

    Args:
        config: of any suite.
        seconds: of each of the three measurements, at least.

    Raises:
        AttributeValueError: `seconds` is not above 0.
        ConfigError, DataError: what training would meet.
    """
    if not seconds > 0:
        raise AttributeValueError(f"bench: seconds is {seconds}; it must be above 0")
    task, runtime = build_task(config), build_runtime(config)
    task.begin(None, lambda line: None, runtime.seed)
    step, count = step_of(task, config.part("optimizer"), runtime), runtime.accumulate
    with _loader(task, config) as loader:
        feed = loader.stream()
        kept = [list(islice(feed, count)) for _ in range(_KEPT)]
        lr = config.part("schedule")(total_steps=1000, batch_size=loader.batch_size * count)(1)
        for at in range(_WARM_UP):
            step(kept[at], lr)
        samples = loader.batch_size * count
        step_alone = _rate(lambda at: _update(step, kept[at % _KEPT], lr), samples, seconds)
    with _loader(task, config) as loader:
        feed = loader.stream()
        _fill(feed, loader, runtime.workers, count)
        loader_alone = _rate(lambda at: list(islice(feed, count)), samples, seconds)
    with _loader(task, config) as loader:
        feed = loader.stream()
        _fill(feed, loader, runtime.workers, count)
        waited, started = loader.wait_seconds, time.perf_counter()
        both = _rate(lambda at: _update(step, list(islice(feed, count)), lr), samples, seconds)
        waiting = (loader.wait_seconds - waited) / (time.perf_counter() - started)
    return Speeds(loader_alone, step_alone, both, waiting, runtime.workers, samples)


def _loader(task: Task, config: Config) -> Loader:
    runtime = build_runtime(config)
    return limited(task.train_loader(seed=runtime.seed, workers=runtime.workers), runtime.data, "another")


def _fill(feed: Iterator[Batch], loader: Loader, workers: int, count: int) -> None:
    """Takes the batches that the workers have made ahead while they started."""
    for _ in islice(feed, 2 * workers + count):
        pass


def _update(step: Step, batches: list[Batch], lr: float) -> None:
    for _ in step(batches, lr).losses.values():  # read, as a log would
        pass


def _rate(one: Callable[[int], object], samples: int, seconds: float) -> float:
    """Samples a second of calls of `one`, at least three, for so many seconds."""
    started, done = time.perf_counter(), 0
    while done < 3 or time.perf_counter() - started < seconds:
        one(done)
        done += 1
    return samples * done / (time.perf_counter() - started)
