"""Train and evaluate from a config: puts task, optimizer, schedule, hooks and run folder together."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from framework.errors import ConfigError
from suites.engine.averaging import MovingAverage
from suites.engine.building import build_optimizer, build_runtime, build_schedule, build_task, limited, read_config
from suites.engine.checkpoint import Checkpoints
from suites.engine.config import Config
from suites.engine.evaluation import evaluate, predictor
from suites.engine.hooks import Assess, Events, Hook, NanGuard, Profiling, ProgressBar, Saving, SkippedSamples
from suites.engine.log import RunLog, heard
from suites.engine.ownership import is_owned
from suites.engine.profiling import StepProfile
from suites.engine.run import RunFolder, best_weights
from suites.engine.settings import Runtime
from suites.engine.train_step import TrainStep
from suites.engine.trainer import Trainer
from suites.engine.weights import load_weights

if TYPE_CHECKING:
    from suites.engine.task import Task

_log = logging.getLogger(__name__)


def train(
    source: Path,
    overrides: Sequence[str] = (),
    *,
    runs: Path = Path("runs"),
    name: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    profile: bool = False,
    hooks: Sequence[Hook] = (),
) -> Trainer:
    """Train a run to its end, or until Ctrl-C.

    Args:
        source: a config file, or the folder of a run.
        overrides: `path=value` texts, as with `-o`.
        runs: folder of all runs.
        name: name of the run; by default that of the config file or of the run folder.
        resume: continue from the last checkpoint.
        overwrite: replace a run of this name.
        profile: record a few steps, show where their time went and keep it in the run folder.
        hooks: further hooks.

    Raises:
        ConfigError, DataError, CheckpointError, NumericsError: what is wrong, in one message.
    """
    config = read_config(source, overrides)
    path = source if source.is_dir() and name is None else runs / (name or source.stem)
    run = RunFolder.reopen(path, config) if resume else RunFolder.create(path, config, overwrite=overwrite)
    with contextlib.ExitStack() as stack:
        stack.callback(run.close)
        log = RunLog(run.log)
        stack.callback(log.close)
        stack.enter_context(heard(log.say))
        if profile:
            hooks = [Profiling(StepProfile(run.path, say=log.say)), *hooks]
        try:
            trainer = _build(config, run, log, hooks, resume=resume)
            if resume:
                _continue(trainer, run)
            trainer.train()
            _conclude(trainer, run)
        except Exception as error:
            log.keep(f"failed: {type(error).__name__}: {error}")
            raise
    return trainer


def evaluate_weights(
    source: Path,
    overrides: Sequence[str] = (),
    weights: Path | None = None,
    *,
    profile: StepProfile | None = None,
) -> dict[str, float]:
    """Return the figures of a run, or of a config with `weights`, over the evaluation set.

    A run's figures go to its `metrics.json`; with overrides or other weights, or while the run is being trained, to a
    file of their own beside it, which is logged. `profile` records some of the batches.
    Raises ConfigError if a config is given without weights.
    """
    config = read_config(source, overrides)
    run = RunFolder(source) if source.is_dir() else None
    if run is None and weights is None:
        raise ConfigError(f"{source}: a config has no weights; name a file with --weights, or a run folder")
    task = build_task(config)
    if run is not None:
        task.adopt(run.read_processor(task.processor_class))
    load_weights(task.model, weights or best_weights(run or RunFolder(source)))
    runtime = build_runtime(config)
    console = Console(stderr=True)
    with (
        limited(task.eval_loader(workers=runtime.workers), runtime.data, "nothing") as loader,
        Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        shown = bar.add_task("evaluating", total=len(loader))
        predict = predictor(task, eager=runtime.eager, conv_algorithm=runtime.conv_algorithm)
        if profile is not None:
            predict = profile.around(predict)
        metrics = evaluate(task, predict, loader, after_batch=lambda done: bar.update(shown, completed=done))
    if profile is not None:
        profile.report()
    if run is not None:
        _keep_figures(run, metrics, config, overrides, weights)
    return metrics


def _keep_figures(
    run: RunFolder, metrics: dict[str, float], config: Config, overrides: Sequence[str], weights: Path | None
) -> None:
    if overrides or weights is not None or is_owned(run.path):
        path = run.write_other_metrics(metrics, config, overrides, weights)
        _log.info("the run's own metrics.json stays as it is; these figures are in %s", path)
    else:
        run.write_metrics(metrics)


def _build(config: Config, run: RunFolder, log: RunLog, hooks: Sequence[Hook], *, resume: bool) -> Trainer:
    runtime = build_runtime(config)
    task = build_task(config)
    if resume and run.processor.is_file():
        task.adopt(run.read_processor(task.processor_class))
    task.begin(run.path, log.say)
    loader = limited(task.train_loader(seed=runtime.seed, workers=runtime.workers), runtime.data, "another")
    loader.start()  # workers read while the rest is built
    if runtime.weights is not None:
        _start_from(task, Path(runtime.weights), log)
    run.write_processor(task.processor())
    steps_per_epoch, batch_size = -(-len(loader) // runtime.accumulate), loader.batch_size * runtime.accumulate
    total_steps = runtime.total_steps(steps_per_epoch)
    schedule = build_schedule(config, total_steps=total_steps, batch_size=batch_size)
    average = MovingAverage(task.model, runtime.ema.decay) if runtime.ema else None
    step = TrainStep(
        task,
        build_optimizer(config, task),
        average=average,
        clip_norm=runtime.clip_norm,
        eager=runtime.eager,
        conv_algorithm=runtime.conv_algorithm,
        accumulate=runtime.accumulate,
        precision=runtime.precision,
        scaler=runtime.loss_scale.scaler(runtime.precision),
    )
    log.say(
        f"{run.path}: {len(loader.dataset)} training samples, {steps_per_epoch} steps an epoch, {total_steps} steps, "
        f"{sum(p.size for p in task.model.parameters()):,} parameters, seed {runtime.seed}"
    )
    log.say(
        f"learning rate: {schedule.base_lr:g} for a batch of {schedule.reference_batch or batch_size}, "
        f"so {schedule.base_lr * schedule.scale:g} for this batch of {batch_size}"
    )
    if runtime.precision != "float32":
        scale = f"loss scale {step.scaler.scale.item():g}" if step.scaler else "no loss scale"
        log.say(f"precision: {runtime.precision} between layers, weights and losses float32; {scale}")
    if runtime.eager:
        log.say("runtime.eager is on: operators run one by one, which is slower; turn it off for real training")
    return Trainer(
        task,
        step,
        loader,
        total_steps=total_steps,
        learning_rate=schedule,
        log=log,
        hooks=[*_usual_hooks(task, run, runtime), SkippedSamples(loader), *task.hooks(), *hooks],
        accumulate=runtime.accumulate,
    )


def _usual_hooks(task: Task, run: RunFolder, runtime: Runtime) -> list[Hook]:
    loader = limited(task.eval_loader(workers=runtime.workers), runtime.data, "nothing")
    predict = predictor(task, eager=runtime.eager, conv_algorithm=runtime.conv_algorithm)
    return [
        NanGuard(),
        ProgressBar(every=runtime.log_every),
        Events(run.events, every=runtime.log_every),
        Assess(run, loader, predict, runtime.evaluation, runtime.early_stop),
        Saving(run.weights, runtime.checkpoint),
    ]


def _continue(trainer: Trainer, run: RunFolder) -> None:
    checkpoint = Checkpoints(run.weights).latest()
    if checkpoint is None:
        trainer.log.say("no checkpoint yet; starting from the beginning")
        return
    trainer.load_state_dict(checkpoint)
    trainer.log.say(f"resumed at step {trainer.step}")


def _start_from(task: Task, path: Path, log: RunLog) -> None:
    log.say(f"weights from {path}")
    for line in task.start_from(path):
        log.say(f"  {line}")


def _conclude(trainer: Trainer, run: RunFolder) -> None:
    if trainer.interrupted:
        trainer.log.say(f"saved at step {trainer.step}; continue with: python tools/train.py {run.path} --resume")
        return
    trainer.log.say(f"done: {trainer.step} steps; weights, figures and pictures are in {run.path}")
