"""Progress: loss, learning rate, time left and the share of time spent waiting for data."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from suites.engine.contract.step import Update
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

_LOUD_WAIT = 0.3  # share of data waiting from which a remedy is named
_WINDOW = 50  # steps that times are averaged over


class ProgressBar(Hook):
    """A bar on a terminal; elsewhere, and in `log.txt`, one line every `every` steps."""

    priority: ClassVar[int] = 60

    def __init__(self, *, every: int = 20) -> None:
        self._every = every
        self._updates: list[Update] = []  # since the last line, unread
        self._text = ""
        self._times: deque[tuple[float, float]] = deque(maxlen=_WINDOW)
        self._bar: Progress | None = None
        self._warned = False

    def before_train(self, loop: TrainingLoop) -> None:
        """Show the bar."""
        if loop.log.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
            )
            self._bar = Progress(*columns, console=loop.log.console, transient=True)
            self._bar.add_task("train", total=loop.total_steps, completed=loop.step, text="")
            self._bar.start()

    def after_step(self, loop: TrainingLoop) -> None:
        """Gather, and say something every few steps."""
        if loop.update is not None:
            self._updates.append(loop.update)
        self._times.append((loop.step_seconds, loop.wait_seconds))
        if loop.step % self._every == 0 or loop.step == loop.total_steps:
            self._text = self._numbers(loop)
            line = f"step {loop.step}/{loop.total_steps} epoch {loop.epoch} | {self._text}"
            (loop.log.say if self._bar is None else loop.log.keep)(line)
            self._warn(loop)
            self._updates = []
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=loop.step, text=self._text)

    def during_evaluation(self, loop: TrainingLoop, done: int, total: int) -> None:
        """Show how far it is."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], text=f"evaluating, batch {done}" + f" of {total}" * (total > 0))

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Show the figures; those of single classes, such as `AP/dog`, are in metrics.json."""
        figures = " ".join(f"{name} {value:.4g}" for name, value in metrics.items() if _is_main(name, loop))
        loop.log.say(f"evaluation at step {loop.step}: {figures}")

    def close(self, loop: TrainingLoop) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _numbers(self, loop: TrainingLoop) -> str:
        terms, scalars = self._means(loop)
        detail = f" ({' '.join(f'{name} {value:.4g}' for name, value in terms.items())})" if len(terms) > 1 else ""
        seconds = sum(step for step, _ in self._times) / len(self._times)
        scaler = loop.scaler
        scale = f" | scale {scaler.scale.item():g}, {scaler.skipped.item()} skipped" if scaler else ""
        logged = "".join(f" | {name} {value:.4g}" for name, value in scalars.items())
        return (
            f"loss {sum(terms.values()):.4g}{detail}{logged} | lr {loop.lr:.3g}{scale} | {seconds:.3g} s/step | "
            f"data {self._wait_share():.0%} | {duration(seconds * (loop.total_steps - loop.step))} left"
        )

    def _means(self, loop: TrainingLoop) -> tuple[dict[str, float], dict[str, float]]:
        """Loss terms and scalars over the steps since the last line, without those of updates that were skipped."""
        read = self._updates
        if loop.scaler is not None:
            read = [update for update in read if all(map(math.isfinite, update.losses.values()))] or read[-1:]
        return _mean([update.losses for update in read]), _mean([update.scalars for update in read])

    def _wait_share(self) -> float:
        total = sum(step for step, _ in self._times)
        return sum(wait for _, wait in self._times) / total if total else 0.0

    def _warn(self, loop: TrainingLoop) -> None:
        if not self._warned and len(self._times) == _WINDOW and self._wait_share() > _LOUD_WAIT:
            self._warned = True
            loop.log.say(
                f"note: {self._wait_share():.0%} of the time goes into waiting for data; more runtime.workers "
                "(if there are idle cores), smaller images or fewer transforms would help"
            )


def _is_main(name: str, loop: TrainingLoop) -> bool:
    """Whether a figure is that of a whole evaluation set and not of a class."""
    owner, _, rest = name.partition("/")
    return "/" not in (rest if owner in loop.task.more_eval else name)


def _mean(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(one[name] for one in each) / len(each) for name in (each[0] if each else ())}


def duration(seconds: float) -> str:
    """Return `45 s`, `3:20` or `2:03:20`."""
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
