"""Assess: evaluates now and then, keeps the best weights, draws predictions, and stops when nothing improves.

The worst cases of an evaluation are predicted again to be drawn, which takes its time. So they are drawn where a report
shows them: of the last evaluation, and of each that is the best so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from framework.data import DataLoader
from framework.errors import ConfigError, NumericsError, PaddockError, WorkerError
from suites.engine.config.settings import EarlyStopSettings, EvaluationSettings
from suites.engine.contract.resources import resources_of, save_deployed
from suites.engine.data.copies import copied_files, copies_text
from suites.engine.predict.evaluation import Interrupted, LossesOf, draw_examples, evaluate, named_figures
from suites.engine.predict.items import Predict
from suites.engine.reporting.tally import TRAIN, Tally, set_name
from suites.engine.run.folder import RunFolder
from suites.engine.train.hooks.interval import Interval
from suites.engine.train.loop import LAST_WORDS, Hook

if TYPE_CHECKING:
    from suites.engine.contract.metric import Metric
    from suites.engine.contract.task import Task
    from suites.engine.train.loop import TrainingLoop


class Assess(Hook):
    """Runs the evaluation every so many epochs, steps or minutes and at the end of the run."""

    priority: ClassVar[int] = 40

    def __init__(
        self,
        run: RunFolder,
        sets: Mapping[str, tuple[Task, DataLoader]],
        predict: Predict,
        settings: EvaluationSettings,
        early_stop: EarlyStopSettings | None = None,
        losses: LossesOf | None = None,
    ) -> None:
        self._run = run
        self._sets = dict(sets)
        self._predict = predict
        self._losses = losses
        self._settings = settings
        self._early_stop = early_stop
        self._interval = Interval(settings.every, settings.unit)
        self._done_at = 0
        # Both with the sign turned where lower is better.
        self._best: float | None = None  # None until a figure is a number
        self._mark: float | None = None  # the last figure that early stopping counted as better
        self._without_better = 0
        self._best_figures: dict[str, float] = {}  # of the evaluation whose weights are the best
        self._last: dict[str, float] = {}
        self._told: Metric | None = None  # of the evaluation at hand, on the set without a name
        self._copied: dict[str, int] = {}  # files of each set that are copies of files of training

    def after_resume(self, loop: TrainingLoop) -> None:
        """Make up for an evaluation that Ctrl-C cut off."""
        if loop.step != self._done_at and self._due(loop):
            self._assess(loop)

    def after_step(self, loop: TrainingLoop) -> None:
        """Evaluate if it is time."""
        if not loop.interrupted and self._due(loop):
            self._assess(loop)

    def close(self, loop: TrainingLoop) -> None:
        """Stop the loaders' workers."""
        for _, loader in self._sets.values():
            loader.close()

    def state_dict(self) -> dict[str, Any]:
        """Return what was best, and since when."""
        return {
            "done_at": self._done_at,
            "best": self._best,
            "mark": self._mark,
            "without_better": self._without_better,
            **({"best_figures": _plain(self._best_figures)} if self._best_figures else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what was best."""
        self._done_at = state["done_at"]
        self._best = state["best"]
        self._mark = state["mark"]
        self._without_better = state["without_better"]
        self._best_figures = {name: float(value) for name, value in state.get("best_figures", {}).items()}

    def _due(self, loop: TrainingLoop) -> bool:
        return self._interval.due(loop) or loop.ending

    def _assess(self, loop: TrainingLoop) -> None:
        """Evaluate; an error of it ends the run after this step, whose weights are saved whatever a metric says."""
        try:
            self._evaluate(loop)
        except Interrupted:
            return
        except NumericsError:
            raise
        except PaddockError as error:
            if isinstance(error, WorkerError) and loop.told_to_end(LAST_WORDS):
                loop.interrupted = True
            else:
                loop.fail(error)

    def _evaluate(self, loop: TrainingLoop) -> None:
        def after_batch(done: int, total: int) -> None:
            loop.call("during_evaluation", done, total)
            if loop.interrupted:
                raise Interrupted

        loop.call("before_keeping")
        try:
            with loop.evaluation_weights():
                self._find_copies(loop)
                metrics = self._figures(after_batch)
                draw_examples(loop.task, self._predict, self._run.pictures, self._settings.pictures)
                if self._told is not None and (loop.ending or self._is_best(loop, metrics)):
                    self._run.write_worst(self._sets[""][0], self._predict, self._told, self._settings.pictures)
        finally:
            self._told = None
            self.close(loop)
        self._last = {**metrics, "step": loop.step, "epoch": loop.step / loop.steps_per_epoch}
        if self._is_best(loop, metrics):
            self._best_figures = self._last
        self._run.write_metrics(self._best_figures or self._last, self._last)
        loop.call("after_evaluation", metrics)
        self._compare(loop, metrics)
        self._done_at = loop.step
        loop.outcome = self._outcome(loop)

    def _outcome(self, loop: TrainingLoop) -> str:
        """The main figure of the best weights and of the last, in words."""
        name, _ = main_figure(loop.task, self._settings)
        named = {"best": self._best_figures, "last": self._last}
        if self._best_figures == self._last:
            named.pop("last")
        words = [
            f"{which} {name} {figures[name]:.4g} at step {figures['step']} ({which}.safetensors)"
            for which, figures in named.items()
            if figures and name in figures
        ]
        return ", ".join(words)

    def _figures(self, after_batch: Callable[[int, int], None]) -> dict[str, float]:
        """Those of all evaluation sets; those of a set with a name have it before them."""
        figures: dict[str, float] = {}
        for name, (task, loader) in self._sets.items():
            tally = Tally()
            own = evaluate(
                task,
                self._predict,
                loader,
                after_batch=partial(_told, after_batch, loader.length or 0),
                losses=self._losses,
                look=partial(self._keep, name, tally),
                tally=tally,
            )
            figures |= named_figures(name, own)
        return figures

    def _find_copies(self, loop: TrainingLoop) -> None:
        """Look once which files of the evaluation sets are copies of files of training, and say so."""
        train = getattr(loop.loader, "dataset", None)
        for name, (_, loader) in self._sets.items():
            if name not in self._copied:
                self._copied[name] = copied_files(train, getattr(loader, "dataset", None))
                if self._copied[name]:
                    loop.log.say(f"note: {self._copies_of(name)}; `paddock data check` names them")

    def _copies_of(self, name: str) -> str:
        return f"{copies_text(self._copied[name], set_name(name), TRAIN)}, so its figures are too good"

    def _keep(self, name: str, tally: Tally, metric: Metric) -> None:
        """Write what a metric tells of the evaluation set of that name."""
        if self._copied.get(name):
            tally.note(self._copies_of(name))
        self._run.write_told(metric, tally, name)
        if not name:
            self._told = metric

    def _is_best(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> bool:
        name, lower = main_figure(loop.task, self._settings)
        value = metrics.get(name, math.nan)
        return _above(-value if lower else value, self._best)

    def _compare(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        name, lower = main_figure(loop.task, self._settings)
        if name not in metrics:
            raise ConfigError(
                f"evaluation: the metric gives {', '.join(metrics)} but not '{name}', which decides the best"
            )
        value = -metrics[name] if lower else metrics[name]
        if _above(value, self._best):
            self._best = value
            path = self._run.weights / "best.safetensors"
            save_deployed(path, loop.deploy_weights(), resources_of(loop.task))
        if self._early_stop is not None:
            self._count(loop, name, value, self._early_stop, lower=lower)

    def _count(self, loop: TrainingLoop, name: str, value: float, settings: EarlyStopSettings, *, lower: bool) -> None:
        """Stop at a figure that is good enough, or after too many in a row that were not better by `min_delta`."""
        target = settings.target
        if target is not None and value >= (-target if lower else target):
            loop.stop(f"{name} is {-value if lower else value:.4g}, and {target:.4g} was wanted")
            return
        if _above(value, None if self._mark is None else self._mark + settings.min_delta):
            self._mark, self._without_better = value, 0
            return
        self._without_better += 1
        if self._without_better >= settings.patience:
            bound = "a number"
            if self._mark is not None:
                mark = self._mark + settings.min_delta
                bound = f"below {-mark:.4g}" if lower else f"above {mark:.4g}"
            loop.stop(f"{name} was not {bound} in the last {self._without_better} evaluations")


def _plain(figures: Mapping[str, float]) -> dict[str, float | str]:
    """Fit for JSON, which has no NaN."""
    return {name: value if math.isfinite(value) else str(value) for name, value in figures.items()}


def _told(after_batch: Callable[[int, int], None], total: int, done: int) -> None:
    after_batch(done, total)


def main_figure(task: Task, settings: EvaluationSettings) -> tuple[str, bool]:
    """Return the figure that decides which weights are best, and whether the lower one is better."""
    name = settings.main or task.main_metric
    if settings.better is not None:
        return name, settings.better == "lower"
    return name, task.lower_is_better if name == task.main_metric else name.rpartition("/")[2].endswith("loss")


def _above(value: float, bound: float | None) -> bool:
    """Whether a figure is better; one that is no number never is."""
    return not math.isnan(value) and (bound is None or value > bound)
