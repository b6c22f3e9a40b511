"""By which figure smaller models are judged."""

from __future__ import annotations

from pathlib import Path

from suites.engine.config.building import build_runtime, read_config
from suites.engine.contract.capabilities import evaluations
from suites.engine.predict.inference import open_run
from suites.engine.train.hooks.assess import main_figure


def judged_by(run: Path) -> tuple[str, bool]:
    """The name of the figure that exports of a run are judged by, and whether the lower one is better.

    It is that which chose the run's weights. Where exports have none of it, as of a loss or of a further set, it is the
    task's own.

    Raises CheckpointError where no run is there.
    """
    task = open_run(run)
    name, lower = main_figure(task, build_runtime(read_config(run)).evaluation)
    first = name.partition("/")[0]
    if name != task.main_metric and (first == "loss" or first in evaluations(task)):
        return task.main_metric, task.lower_is_better
    return name, lower
