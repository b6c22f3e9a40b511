"""Progressive evaluation: figures of predictions that were made before their rows were trained on.

In the first pass over a log no row was seen before, so the figures are as honest as a test set's, at no cost: they come
from the forward pass of the training step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from framework.errors import AttributeValueError
from suites.ctr.metrics import ScoreBins, click_figures
from suites.engine.reporting import Curves, Plot
from suites.engine.reporting.lines import append, read_lines, withdraw
from suites.engine.train.hooks import Hook

if TYPE_CHECKING:
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.step import Update
    from suites.engine.train.loop import TrainingLoop

FILE = "progressive.jsonl"


@dataclass(frozen=True)
class ProgressiveSettings:
    """Figures while training, of windows of rows and of whole passes.

    Args:
        window: rows of a window; a line of `progressive.jsonl` each. 0: only whole passes.
    """

    window: int = 65536

    def __post_init__(self) -> None:
        if self.window < 0:
            raise AttributeValueError(f"progressive: window is {self.window}; it must be 0 or more")


class Gathered:
    """Scores and labels [n] of one label since the last figures."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self.rows = 0

    def add(self, part: np.ndarray) -> None:
        """Take in float32 [3, n]: scores, labels, weights."""
        self._parts.append(part)
        self.rows += part.shape[1]

    def take(self) -> dict[str, float]:
        """The figures of all rows, which are forgotten."""
        scores, labels, weights = np.concatenate(self._parts, axis=1)
        self._parts, self.rows = [], 0
        return click_figures(scores, labels, weights)

    def state(self) -> np.ndarray:
        """All parts, float32 [3, n]."""
        return np.concatenate([np.zeros((3, 0), np.float32), *self._parts], axis=1)

    def load(self, state: np.ndarray) -> None:
        """Take up what `state` returned."""
        self.add(np.asarray(state, np.float32))


class Progressive(Hook):
    """Writes `progressive.jsonl` into the run's folder: a line a window and a line a pass, of the first label.

    A line has `kind` ("window" or "pass"), `step`, `pass`, `rows`, and the figures of `metrics.click_figures`. Those of
    a pass of a stream, which may be of any length, come from `metrics.ScoreBins`.

    Args:
        settings: see there.

    Attributes:
        lines: those of this process, newest last.
    """

    priority: ClassVar[int] = 30  # before an evaluation of the same step

    def __init__(self, settings: ProgressiveSettings) -> None:
        self._settings = settings
        self._window = Gathered()
        self._pass: Gathered | ScoreBins = Gathered()
        self.lines: list[dict[str, Any]] = []
        self._waiting: deque[tuple[int, Update, Batch]] = deque()  # whose predictions were not looked at

    def before_train(self, loop: TrainingLoop) -> None:
        """Withdraw lines that a killed run wrote beyond its checkpoint; choose how passes are gathered."""
        if not loop.counted and isinstance(self._pass, Gathered):
            self._pass = ScoreBins()
        path = _path(loop)
        if path is not None:
            withdraw(path, loop.step)

    def after_step(self, loop: TrainingLoop) -> None:
        """Take in what the step predicted before its update."""
        if loop.update is not None:
            (batch,) = loop.batches
            self._waiting.append((loop.step, loop.update, batch))
        self._take_in(loop, wait=loop.pass_ended)
        if loop.pass_ended and self._pass.rows:
            self._write(loop, loop.step, "pass", self._pass)

    def before_keeping(self, loop: TrainingLoop) -> None:
        """Wait for the updates that are on their way: a checkpoint holds their predictions."""
        self._take_in(loop, wait=True)

    def _take_in(self, loop: TrainingLoop, *, wait: bool) -> None:
        """Predictions in the order of the batches, as far as they are known."""
        while self._waiting and (wait or self._waiting[0][1].done):
            step, update, batch = self._waiting.popleft()
            scores = update.arrays.get("scores")
            if scores is not None:
                self._add(loop, step, scores, batch)

    def _add(self, loop: TrainingLoop, step: int, scores: np.ndarray, batch: Batch) -> None:
        weights = batch["weight"] if "weight" in batch else np.ones(len(scores), np.float32)
        part = np.stack([scores[:, 0], batch["labels"][:, 0], weights]).astype(np.float32)
        self._pass.add(part)
        if self._settings.window:
            self._window.add(part)
            if self._window.rows >= self._settings.window:
                self._write(loop, step, "window", self._window)

    def _write(self, loop: TrainingLoop, step: int, kind: str, gathered: Gathered | ScoreBins) -> None:
        rows = gathered.rows
        figures = gathered.take()
        line = {"kind": kind, "step": step, "pass": loop.passes, "rows": rows, **figures}
        self.lines.append(line)
        loop.log.say(
            f"{kind} of {rows} rows before training on them: AUC {figures['auc']:.4f}, "
            f"log loss {figures['log_loss']:.4f}, COPC {figures['copc']:.3f}"
        )
        path = _path(loop)
        if path is not None and loop.world.first:
            append(path, line)

    def state_dict(self) -> dict[str, Any]:
        """What was gathered since the last figures."""
        return {"window": self._window.state(), "pass": self._pass.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        if np.asarray(state["pass"]).dtype == np.float64:  # of a stream
            self._pass = ScoreBins()
        for name, gathered in (("window", self._window), ("pass", self._pass)):
            gathered.load(state[name])


def _path(loop: TrainingLoop) -> Path | None:
    return None if loop.folder is None else loop.folder / FILE


def progressive_plots(run: Path) -> list[Plot]:
    """AUC, log loss and COPC of the windows, and of the passes where there are any, over the steps."""
    lines = read_lines(run / FILE)
    plots: list[Plot] = []
    for key, title in (("auc", "AUC"), ("log_loss", "Log loss"), ("copc", "Clicks over predicted clicks")):
        series = {
            f"each {kind}": ([line["step"] for line in own], [line.get(key) for line in own])
            for kind in ("window", "pass")
            if (own := [line for line in lines if line.get("kind") == kind])
        }
        if series:
            plots.append(Curves(f"{title}, before training on the rows", "step", title, series, marks=True))
    return plots
