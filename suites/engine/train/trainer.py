"""Trainer: a task with an optimizer, a schedule and the length of a run, ready to train into a folder."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import hosts
from framework.atomic import write_text
from framework.data import Source
from framework.data.world import World
from framework.devices import spread
from framework.errors import ConfigError
from framework.nn import init
from framework.optim import Schedule
from suites.engine.config import Config, Factory, plain
from suites.engine.config.building import begin, limited
from suites.engine.config.plugins import covered, modules_of
from suites.engine.config.sections import (
    DistilSettings,
    EightBitsSettings,
    FinetuneSettings,
    LoraSettings,
    PruningSettings,
)
from suites.engine.config.settings import Runtime
from suites.engine.contract.capabilities import adopt, class_names, evaluations
from suites.engine.contract.step import Step
from suites.engine.hosts.agreement import (
    Agreement,
    expect_fit,
    expect_same_program,
    expect_same_start,
    newest_checkpoint,
    opened_run,
)
from suites.engine.hosts.devices import training_device
from suites.engine.hosts.liveness import Alive
from suites.engine.predict.evaluation import losses_of, predict_of
from suites.engine.registry import REGISTRY
from suites.engine.reporting.counting import Counting
from suites.engine.reporting.hook import Report
from suites.engine.reporting.journal import Journal
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.folder import RunFolder, resume_command
from suites.engine.run.log import RunLog, heard
from suites.engine.slim.distillation import taught
from suites.engine.slim.narrowing import make_narrow
from suites.engine.train import rates
from suites.engine.train.eight_bits import train_in_8_bits
from suites.engine.train.finetuning import Unfreezing, begin_pull, stages_of
from suites.engine.train.hooks import (
    Assess,
    AverageLater,
    Events,
    Hook,
    NanGuard,
    Profiling,
    ProgressBar,
    Saving,
    SkippedSamples,
    TimeLimit,
)
from suites.engine.train.loop import TrainingLoop, hooks_of
from suites.engine.train.profiling import StepProfile
from suites.engine.train.train_step import step_of
from suites.engine.weights import load_wanted, loaded_names, shown_otherwise
from suites.engine.weights.lora.layers import add_lora
from suites.engine.weights.lora.peft import load_adapter
from suites.engine.weights.matching import brief
from suites.engine.weights.published import checkpoint_folder
from suites.engine.weights.starting import start_task

if TYPE_CHECKING:
    from framework.nn import Layer
    from suites.engine.contract.task import Task

Later = Factory[Any] | Callable[..., Any]  # what makes an object once the rest of its arguments is known


class Trainer:
    """Trains a task.

    >>> trainer = Trainer(task, optimizer=partial(optim.Momentum, momentum=0.9),     # doctest: +SKIP
    ...                   schedule=partial(optim.Cosine, base_lr=0.01), epochs=12)
    >>> trainer.fit("runs/mine")                                                     # doctest: +SKIP

    `fit` initialises the model from `seed` unless you initialised or loaded it. On several hosts
    (`framework.hosts.join`) all of them call `fit`, and host 0 keeps the run.

    Args:
        task: model, data, losses and metric.
        optimizer: makes the optimizer of `params`: a class, a `functools.partial` of one, or a `Factory`.
        schedule: makes the learning rate of `total_steps` and `batch_size`, in the same way.
        runtime: how long and how it trains; or give its fields one by one.
        hooks: called by the training loop besides the usual ones. The config names those whose class is registered.
        lora: adapters of low rank, which the model gets now.
        finetune: what joins the training later, and the pull towards what was loaded.
        eight_bits: training for inference in 8 bits.
        distil: a teacher to learn from beside the labels, where the suite has that.
        pruning: layers that are narrower than the model's settings say, which the model gets now.
        settings: fields of `Runtime`, such as `epochs=12` or `workers=4`.

    Attributes:
        config: what a config file of this run says; it is written into the run's folder.

    Raises:
        ConfigError: an object of a class that is not registered, which no config can name.
    """

    def __init__(
        self,
        task: Task,
        *,
        optimizer: Later,
        schedule: Later,
        runtime: Runtime | None = None,
        hooks: Sequence[Hook] = (),
        lora: LoraSettings | None = None,
        finetune: FinetuneSettings | None = None,
        eight_bits: EightBitsSettings | None = None,
        distil: DistilSettings | None = None,
        pruning: PruningSettings | None = None,
        **settings: Any,
    ) -> None:
        self.task = task
        self.runtime = runtime or Runtime(**settings)
        self.hooks = list(hooks)
        self._optimizer, self._schedule = _factory(optimizer), _factory(schedule)
        parts: dict[str, Any] = {"optimizer": self._optimizer, "schedule": self._schedule, "runtime": self.runtime}
        if pruning is not None:
            make_narrow(task.model, pruning, starts=self.runtime.weights is not None)
            parts["pruning"] = pruning
        if lora is not None:
            add_lora(task.model, lora)
            parts["lora"] = lora
        if finetune is not None:
            parts["finetune"] = finetune
        if eight_bits is not None:
            parts["eight_bits"] = eight_bits
        if distil is not None:
            parts["distil"] = distil
        written = {**task.to_config(), **{name: plain(part) for name, part in parts.items()}}
        self.config = _with_imports(Config.from_dict({**written, **_hooks_written(self.hooks, written["suite"])}))

    @classmethod
    def from_config(cls, config: Config, task: Task, hooks: Sequence[Hook] = ()) -> Trainer:
        """Return the trainer that a config describes; `task` is that of the config."""
        trainer = cls.__new__(cls)
        trainer.task, trainer.config = task, _with_imports(config)
        trainer.hooks = [*(config.part("hooks") if config.has("hooks") else ()), *hooks]
        trainer.runtime = config.part("runtime")
        trainer._optimizer, trainer._schedule = config.part("optimizer"), config.part("schedule")
        return trainer

    def fit(
        self,
        path: Path | str,
        *,
        resume: bool = False,
        overwrite: bool = False,
        profile: bool = False,
        verbose: bool = False,
    ) -> TrainingLoop:
        """Train to the end, or until Ctrl-C, and return the loop that did.

        Args:
            path: the run's folder, which is made.
            resume: continue from its last checkpoint.
            overwrite: replace a run that is there.
            profile: record a few steps, show where their time went and keep it in the folder.
            verbose: show details, such as which parameters have no weight decay; the log has them always.

        Raises:
            ConfigError, DataError, CheckpointError, NumericsError, HostError: what is wrong, in one message.
        """
        path, world = Path(path), hosts.world()
        expect_fit(self.runtime, world)
        with contextlib.ExitStack() as stack:
            stack.enter_context(training_device(self.runtime))  # one that is not there leaves no folder behind
            make = RunFolder.reopen if resume else functools.partial(RunFolder.create, overwrite=overwrite)
            expect_same_program(self.config)
            run = stack.enter_context(opened_run(make, path, self.config))
            kept = RunFolder(path) if resume else None  # where host 0 has it
            log = RunLog(run.log, verbose=verbose)
            stack.callback(log.close)
            stack.enter_context(heard(log.say))
            profiling = [Profiling(StepProfile(run.path, say=log.say))] if profile else []
            try:
                loop = self._loop(run, kept, log, [*profiling, *self.hooks])
                if kept is not None:
                    if run.differences:
                        log.say(f"continued with what changes no number: {', '.join(run.differences)}")
                    _continue(loop, kept)
                    run.adopt(self.config)
                expect_same_start(self.task, loop.loader)
                with framework.detect_anomaly() if self.runtime.detect_anomaly else contextlib.nullcontext():
                    loop.train()
                _conclude(loop, run, self.config)
            except Exception as error:
                log.keep(f"failed: {type(error).__name__}: {error}")
                raise
        return loop

    def find_rate(
        self,
        path: Path | str,
        *,
        lowest: float = rates.LOWEST,
        highest: float = rates.HIGHEST,
        steps: int = rates.STEPS,
        overwrite: bool = False,
    ) -> rates.Sweep:
        """Try learning rates from low to high, a step each, and say which one suits; no weights are kept.

        Args:
            path: the folder for the log and `find_lr.json`, which is made.
            lowest, highest: the first and the last `schedule.base_lr`.
            steps: how many rates.
            overwrite: replace a folder of an earlier test that is there.

        Raises:
            ConfigError, DataError, CheckpointError: what is wrong, in one message.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(training_device(self.runtime))
            run = RunFolder.create(Path(path), self.config, overwrite=overwrite)
            stack.callback(run.close)
            log = RunLog(run.log)
            stack.callback(log.close)
            stack.enter_context(heard(log.say))
            loader, step, schedule, _ = self._begun(run, None, log)
            stack.callback(loader.close)
            tried = [rate * schedule.scale for rate in rates.rates_between(lowest, highest, steps)]
            found = rates.sweep(step, loader, tried, accumulate=self.runtime.accumulate, scale=schedule.scale)
            write_text(run.path / rates.FILE, found.to_json())
            log.say(found.chart())
            log.say(found.advice(schedule.base_lr))
        return found

    def _begun(self, run: RunFolder, kept: RunFolder | None, log: RunLog) -> tuple[Source, Step, Schedule, Unfreezing]:
        """The model with its first weights, then what trains it: batches, update, rate, and what joins later."""
        runtime, task, world = self.runtime, self.task, hosts.world()
        begin(runtime)
        if untouched(task.model):
            init.initialize(task.model, runtime.seed, keep=loaded_names(task.model))
        continued = kept is not None and Checkpoints(kept.weights).exist()
        if not continued:
            for line in load_wanted(task.model, class_names(task)):
                log.say(line, brief(line))
        if kept is not None and kept.processor.is_file():
            adopt(task, kept.read_processor(task.processor_class))
        task.begin(run.path, log.say, runtime.seed)
        loader = limited(task.train_loader(seed=runtime.seed, workers=runtime.workers), runtime.data, "another")
        _expect_even(loader.batch_size, runtime, world)
        loader.start()  # workers read while the rest is built
        eight_bits = self.config.get("eight_bits") is not None
        if runtime.weights is not None and not (continued and eight_bits):  # whose checkpoint says what is folded
            for line in start_task(task, runtime.weights, eight_bits=eight_bits):
                log.say(line, brief(line))
        if (adapter := self.config.get("lora.weights")) is not None and kept is None:
            for line in load_adapter(task.model, checkpoint_folder(adapter)):
                log.say(line)
        processor = task.processor()
        for line in taught(task, self.config, runtime.seed):
            log.say(line)
        if eight_bits:
            for line in train_in_8_bits(task, self.config, kept):
                log.say(line)
        for line in shown_otherwise(task.model, processor.metadata().get("transforms", ())):
            log.say(line)
        run.write_processor(processor)
        batch_size = loader.batch_size * runtime.accumulate
        total_steps = runtime.total_steps(_steps_per_epoch(loader, runtime))
        schedule: Schedule = self._schedule(total_steps=total_steps, batch_size=batch_size)
        finetune = self.config.build("finetune") if self.config.get("finetune") is not None else FinetuneSettings()
        per_epoch = _steps_per_epoch(loader, runtime)
        stages = stages_of(task.model, finetune, total_steps=total_steps, steps_per_epoch=per_epoch)
        step = step_of(task, self._optimizer, runtime)
        begin_pull(step, finetune, task, log, continued=continued)
        unfreezing = Unfreezing(step, stages)
        if runtime.shard_optimizer:
            for optimizer in step.optimizers():
                spread(optimizer.state_dict().values())
        schedule = replace(schedule, scaling=schedule.scaling or step.lr_scaling)
        log.say(
            f"{run.path}: {_how_much(loader, runtime)}, {total_steps} steps{_because(loader, runtime)}, "
            f"{sum(p.size for p in task.model.parameters()):,} parameters, seed {runtime.seed}"
        )
        _say_how(runtime, schedule, step, batch_size, log)
        return loader, step, schedule, unfreezing

    def _loop(self, run: RunFolder, kept: RunFolder | None, log: RunLog, hooks: Sequence[Hook]) -> TrainingLoop:
        runtime, task, world = self.runtime, self.task, hosts.world()
        loader, step, schedule, unfreezing = self._begun(run, kept, log)
        counting = Counting(loader, every=runtime.log_every)
        alive = [Alive(runtime.hosts_timeout)] if world.size > 1 and runtime.hosts_timeout is not None else []
        return TrainingLoop(
            task,
            step,
            loader,
            total_steps=schedule.total_steps,
            learning_rate=schedule,
            log=log,
            hooks=[
                *alive,
                unfreezing,
                *_usual_hooks(task, run, runtime),
                SkippedSamples(loader),
                counting,
                *hooks_of(task),
                *hooks,
            ],
            accumulate=runtime.accumulate,
            folder=run.path,
            world=world,
            agreement=Agreement() if world.size > 1 else None,
        )


def _expect_even(batch_size: int, runtime: Runtime, world: World) -> None:
    count = runtime.devices * world.size
    if batch_size % count:
        of_hosts = f" of each of {world.size} hosts" if world.size > 1 else ""
        raise ConfigError(
            f"data.train.batch_size is {batch_size}, which {runtime.devices} devices (runtime.devices){of_hosts} "
            f"cannot share evenly; take {batch_size // count * count or count} or another multiple"
        )


def _hooks_written(hooks: Sequence[Hook], suite: str) -> dict[str, Any]:
    seen = REGISTRY.seen_by(suite)
    written = [plain(hook, suite=suite) for hook in hooks if seen.is_registered("hook", type(hook))]
    return {"hooks": written} if written else {}


def _with_imports(config: Config) -> Config:
    """The config with all modules outside of Paddock that its components come from, so that a run remembers them."""
    listed = config.imports()
    new = [name for name in modules_of(part.target for part in config.parts()) if not covered(name, listed)]
    return config.changed({"imports": [*listed, *new]}) if new else config


def untouched(model: Layer) -> bool:
    """Return whether every parameter still holds what a new layer holds, so that equal layers hold equal numbers.

    Those that were loaded because a part of the model asked for pretrained weights do not count.
    """
    loaded = loaded_names(model)
    for path, layer in model.named_layers():
        for name, initializer in layer._initializers.items():
            if (f"{path}.{name}" if path else name) in loaded:
                continue
            now = getattr(layer, name).numpy()
            if not np.array_equal(now, init.draw(initializer, now.shape, seed=0, name=name).astype(now.dtype)):
                return False
    return True


def _steps_per_epoch(loader: Source, runtime: Runtime) -> int | None:
    return None if loader.length is None else -(-loader.length // runtime.accumulate)


def _how_much(loader: Source, runtime: Runtime) -> str:
    steps = _steps_per_epoch(loader, runtime)
    if steps is None:
        return "training samples without an end"
    return f"{len(loader.dataset)} training samples, {steps} steps an epoch"


def _because(loader: Source, runtime: Runtime) -> str:
    """Why a run is longer than its epochs, in words; "" where it is not."""
    steps = _steps_per_epoch(loader, runtime)
    if steps is None or runtime.epochs is None or runtime.least_steps <= runtime.epochs * steps:
        return ""
    return f" ({runtime.least_steps / steps:.0f} epochs and not {runtime.epochs}, for runtime.least_steps)"


def _factory(make: Later) -> Factory[Any]:
    if isinstance(make, Factory):
        return make
    if isinstance(make, functools.partial):
        return Factory.of(make.func, **make.keywords)
    return Factory.of(make)


def _say_how(runtime: Runtime, schedule: Schedule, step: Step, batch_size: int, log: RunLog) -> None:
    log.say(
        f"learning rate: {schedule.base_lr:g} for a batch of {schedule.reference_batch or batch_size}, "
        f"so {schedule.base_lr * schedule.scale:g} for this batch of {batch_size} ({schedule.scaling} scaling)"
    )
    if runtime.precision != "float32":
        scale = f"loss scale {step.scaler.scale.item():g}" if step.scaler else "no loss scale"
        log.say(f"precision: {runtime.precision} between layers, weights and losses float32; {scale}")
    for optimizer in step.optimizers():
        if summary := optimizer.decay_summary():
            log.detail(summary)
    if runtime.device != "cpu":
        log.say(
            f"device: {runtime.devices} of {runtime.device}{_on_hosts()}; the first step of each shape is compiled, "
            "which takes seconds to minutes"
        )
    if runtime.detect_anomaly:
        log.say("runtime.detect_anomaly is on: results are searched for NaN, which is slower")
    if runtime.eager:
        log.say("runtime.eager is on: operators run one by one, which is slower; turn it off for real training")


def _on_hosts() -> str:
    world = hosts.world()
    return f" on each of {world.size} hosts, of which this is host {world.rank}" if world.size > 1 else ""


def _usual_hooks(task: Task, run: RunFolder, runtime: Runtime) -> list[Hook]:
    sets = {
        name: (view, limited(view.eval_loader(workers=runtime.workers), runtime.data, "nothing"))
        for name, view in evaluations(task).items()
    }
    how: dict[str, Any] = {"eager": runtime.eager, "conv_algorithm": runtime.conv_algorithm}
    losses = losses_of(task, **how) if runtime.evaluation.loss else None
    return [
        *([TimeLimit(runtime.minutes)] if runtime.minutes is not None else []),
        NanGuard(every=runtime.log_every),
        ProgressBar(every=runtime.log_every),
        Events(run.events, every=runtime.log_every),
        Journal(run.path, every=runtime.log_every),
        Report(),
        Assess(run, sets, predict_of(task, **how), runtime.evaluation, runtime.early_stop, losses),
        *([AverageLater(runtime.asgd, runtime.evaluation)] if runtime.asgd is not None else []),
        Saving(run.weights, runtime.checkpoint),
    ]


def _continue(loop: TrainingLoop, run: RunFolder) -> None:
    checkpoint = newest_checkpoint(run)
    if checkpoint is None:
        loop.log.say("no checkpoint yet; starting from the beginning")
        return
    loop.load_state_dict(checkpoint)
    loop.log.say(f"resumed at step {loop.step}")


def _conclude(loop: TrainingLoop, run: RunFolder, config: Config) -> None:
    if not loop.world.first:
        loop.log.say(f"{'saved' if loop.interrupted else 'done'} at step {loop.step}; host 0 keeps the run")
    elif loop.interrupted:
        loop.log.say(f"saved at step {loop.step}; continue with: {resume_command(run.path, config)}")
    else:
        outcome = f"{loop.outcome}; " if loop.outcome else ""
        loop.log.say(f"done: {loop.step} steps; {outcome}weights, figures and pictures are in {run.path}")
