"""A hook that a config names: figures of a run in MLflow, by default in a SQLite file of the working folder.

pip install mlflow
cd examples/mlflow_logger
paddock train detection/yolov3_demo --import mlflow_logger -o 'hooks=[{type: MlflowLogger}]'
mlflow ui --backend-store-uri sqlite:///mlflow.db
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mlflow.tracking import MlflowClient

from suites.engine.registry import register
from suites.engine.train.hooks import Hook
from suites.engine.train.loop import TrainingLoop


@register("hook")
class MlflowLogger(Hook):
    """Logs losses, learning rate and the figures of each evaluation; a resumed run goes on in the same MLflow run.

    Args:
        store: where MLflow keeps them: `sqlite:///FILE`, or a server's `http://HOST:PORT`.
        experiment: its name; made where it is missing.
        every: steps between two points of the losses.
    """

    def __init__(self, store: str = "sqlite:///mlflow.db", experiment: str = "paddock", every: int = 20) -> None:
        self._store, self._experiment, self._every = store, experiment, every
        self._run = ""
        self._open = False

    def before_train(self, loop: TrainingLoop) -> None:
        """Begin a run, named as the run's folder, or go on with the one of the checkpoint."""
        self._client = MlflowClient(self._store)
        if not self._run:
            found = self._client.get_experiment_by_name(self._experiment)
            experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
            name = loop.folder.name if loop.folder is not None else None
            self._run = self._client.create_run(experiment, run_name=name).info.run_id
        self._client.update_run(self._run, status="RUNNING")
        self._open = True

    def after_step(self, loop: TrainingLoop) -> None:
        """Log a point every few steps."""
        if loop.step % self._every == 0:
            self._log({**{f"loss/{name}": value for name, value in loop.losses.items()}, "lr": loop.lr}, loop.step)

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Log all figures."""
        self._log({f"metrics/{name}": value for name, value in metrics.items()}, loop.step)

    def after_train(self, loop: TrainingLoop) -> None:
        """End the run well; one that was interrupted may be continued."""
        self._end("KILLED" if loop.interrupted else "FINISHED")

    def close(self, loop: TrainingLoop) -> None:
        """End the run after an error too."""
        self._end("FAILED")

    def state_dict(self) -> dict[str, Any]:
        """The run's id."""
        return {"run": self._run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with that run."""
        self._run = str(state["run"])

    def _log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, re.sub(r"[^\w\-. :/]", "_", name), float(value), step=step)

    def _end(self, status: str) -> None:
        if self._open:
            self._client.set_terminated(self._run, status)
            self._open = False
