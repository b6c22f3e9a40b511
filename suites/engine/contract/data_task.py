"""DataTask: a task that was given its training and evaluation data, or one of them, or none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Generic, Self, TypeVar

from framework.errors import ConfigError
from suites.engine.contract.task import Task

Train = TypeVar("Train")
Eval = TypeVar("Eval")


class DataTask(Task, Generic[Train, Eval]):
    """Base of tasks that take their data as settings; the evaluation set is opened at first use, as `_eval_set`.

    Args:
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
    """

    def __init__(self, train: Train | None, eval: Eval | None, more_eval: Mapping[str, Eval] | None) -> None:
        self._train, self._eval = train, eval
        self.more_eval = dict(more_eval or {})

    @property
    def train_data(self) -> Train:
        """What is trained on; ConfigError where the task has none."""
        return _required(self._train, "train")

    @property
    def eval_data(self) -> Eval:
        """What is evaluated on; ConfigError where the task has none."""
        return _required(self._eval, "eval")

    def with_eval(self, data: Eval) -> Self:
        """Return this task with another evaluation set and the same model."""
        other = copy.copy(self)
        other._eval = data
        vars(other).pop("_eval_set", None)  # the cached set of this task
        return other


_Data = TypeVar("_Data")


def _required(data: _Data | None, name: str) -> _Data:
    if data is None:
        raise ConfigError(f"task: it has no data to {name} on; give it {name}=...")
    return data
