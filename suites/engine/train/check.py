"""Will it run: what training does, once, before hours are spent.

It traces the step, makes two updates, saves and reads a checkpoint and predicts on a batch. No file is left.
"""

from __future__ import annotations

import math
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from framework import from_numpy, no_grad
from framework.errors import ConfigError, NumericsError
from suites.engine.config import Config
from suites.engine.config.building import build_runtime, build_task
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch
from suites.engine.contract.capabilities import class_names, evaluations
from suites.engine.contract.losses import Loss
from suites.engine.contract.step import Step
from suites.engine.contract.task import Task
from suites.engine.hosts.devices import training_device
from suites.engine.predict.evaluation import found_on, losses_of, predict_of
from suites.engine.run import checkpoint
from suites.engine.slim.distillation import taught
from suites.engine.train.eight_bits import train_in_8_bits
from suites.engine.train.train_step import TrainStep, step_of
from suites.engine.weights import load_wanted
from suites.engine.weights.eight_bits import float_step

_UPDATES = 2  # the second one runs with what the first one left in the optimizer


def check_runs(config: Config) -> None:
    """Raise the error that training would meet: of data, model, losses, optimizer, checkpoint or metric."""
    task, runtime = build_task(config), build_runtime(config)
    with training_device(runtime):
        _check(config, task, runtime)


def _check(config: Config, task: Task, runtime: Runtime) -> None:
    load_wanted(task.model, class_names(task))
    task.begin(None, lambda line: None, runtime.seed)
    list(taught(task, config, runtime.seed))
    if config.get("eight_bits") is not None:
        list(train_in_8_bits(task, config, None))
    step = step_of(task, config.part("optimizer"), runtime)
    with task.train_loader(seed=runtime.seed, workers=0) as loader:
        count = runtime.accumulate
        batches = list(islice(loader.stream(), _UPDATES * count))
        schedule = config.part("schedule")(total_steps=_UPDATES, batch_size=loader.batch_size * count)
    _check_names(batches[0], step.inputs)
    if isinstance(step, TrainStep):
        _check_losses(task, batches[0])
    for number in range(_UPDATES):
        _update(step, batches[number * count : (number + 1) * count], schedule(number), number)
    _save_and_load(step)
    with step.averaged_weights():
        for one in evaluations(task).values():
            _check_evaluation(one, runtime)


def _check_losses(task: Task, batch: Batch) -> None:
    task.model.train()
    with no_grad():
        terms = float_step(task.train_step)({name: from_numpy(batch[name]) for name in task.train_inputs})
    losses = {name: term for name, term in terms.items() if isinstance(term, Loss)}
    for name, loss in losses.items():
        if loss.mean.ndim or loss.weight.ndim:
            shapes = f"{list(loss.mean.shape)} and {list(loss.weight.shape)}"
            raise ConfigError(f"check: mean and weight of loss '{name}' have shapes {shapes}; both must be scalars")


def _update(step: Step, batches: list[Batch], lr: float, number: int) -> None:
    when = "on the first batch, before any training" if number == 0 else f"after {number} update at rate {lr:.3g}"
    for name, value in step(batches, lr).losses.items():
        if step.scaler is None and not math.isfinite(value):
            raise NumericsError(f"check: loss '{name}' is {value} {when}")


def _save_and_load(step: Step) -> None:
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(Path(folder) / "check", step.state_dict())
        step.load_state_dict(checkpoint.load(Path(folder) / "check"))


def _check_evaluation(task: Task, runtime: Runtime) -> None:
    with task.eval_loader(workers=0) as loader:
        batch: Batch = next(iter(loader))
    how: dict[str, Any] = {"eager": runtime.eager, "conv_algorithm": runtime.conv_algorithm}
    losses = losses_of(task, **how) if runtime.evaluation.loss else None
    task.metric().update_joined(found_on(task, predict_of(task, **how), batch, losses or (lambda part: None)))


def _check_names(batch: Batch, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in batch]
    if missing:
        raise ConfigError(f"check: the batch has {', '.join(batch)} but the step takes {', '.join(missing)} too")
