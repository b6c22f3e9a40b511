"""Will it run: builds the model, reads a batch of each data set and runs both steps once, before hours are spent."""

from __future__ import annotations

import math

import numpy as np

from framework import from_numpy, no_grad
from framework.data import DataLoader
from framework.errors import ConfigError, NumericsError
from suites.engine.building import build_runtime, build_task
from suites.engine.config import Config
from suites.engine.losses import Loss
from suites.engine.task import Batch, Task


def check_runs(config: Config) -> None:
    """Raise the error that training would meet: of the data, the model, the losses or the metric."""
    task, seed = build_task(config), build_runtime(config).seed
    task.begin(None, lambda line: None, seed)
    with no_grad():
        _check_training(task, _first(task.train_loader(seed=seed, workers=0)))
        _check_evaluation(task, _first(task.eval_loader(workers=0)))


def _first(loader: DataLoader) -> Batch:
    batch: Batch = next(iter(loader))
    return batch


def _check_training(task: Task, batch: Batch) -> None:
    task.model.train()
    terms = task.train_step({name: from_numpy(array) for name, array in _arrays(batch, task.train_inputs).items()})
    losses = {name: term for name, term in terms.items() if isinstance(term, Loss)}
    for name, loss in losses.items():
        if loss.mean.ndim or loss.weight.ndim:
            shapes = f"{list(loss.mean.shape)} and {list(loss.weight.shape)}"
            raise ConfigError(f"check: mean and weight of loss '{name}' have shapes {shapes}; both must be scalars")
        if not math.isfinite(float(loss.mean)):
            raise NumericsError(f"check: loss '{name}' is {float(loss.mean)} on the first batch, before any training")


def _check_evaluation(task: Task, batch: Batch) -> None:
    task.model.eval()
    inputs = {name: from_numpy(array) for name, array in _arrays(batch, task.eval_inputs).items()}
    outputs = {name: tensor.numpy() for name, tensor in task.eval_step(inputs).items()}
    task.metric().update(outputs, batch)


def _arrays(batch: Batch, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    missing = [name for name in names if name not in batch]
    if missing:
        raise ConfigError(f"check: the batch has {', '.join(batch)} but the step takes {', '.join(missing)} too")
    return {name: batch[name] for name in names}
