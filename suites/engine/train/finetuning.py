"""Fine-tuning by a schedule: parameters that join later, and the pull towards what was loaded.

What waits stands in the optimizer's state, so a run that is continued goes on with the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from framework import nn
from framework.errors import ConfigError
from framework.optim import Optimizer
from framework.patterns import checked
from suites.engine.names import listing
from suites.engine.train.loop import Hook
from suites.engine.train.train_step import TrainStep
from suites.engine.weights.matching import loaded_tensors

if TYPE_CHECKING:
    from suites.engine.config.sections import FinetuneSettings, Unfreeze
    from suites.engine.contract.step import Step
    from suites.engine.contract.task import Task
    from suites.engine.run.log import RunLog
    from suites.engine.train.loop import TrainingLoop

_SHOWN = 4  # names in a line of the log


@dataclass
class Stage:
    """Parameters that join together.

    Attributes:
        key: of the optimizers' states.
        at: updates after which they join.
        names: of the parameters.
        norms: batch norms among them, which use their running statistics until then.
    """

    key: str
    at: int
    names: list[str]
    norms: list[nn.BatchNorm]

    def __str__(self) -> str:
        more = f" and {len(self.names) - _SHOWN} more" if len(self.names) > _SHOWN else ""
        return f"{len(self.names)} parameters ({listing(self.names[:_SHOWN])}{more})"


def stages_of(
    model: nn.Layer, settings: FinetuneSettings, *, total_steps: int, steps_per_epoch: int | None
) -> list[Stage]:
    """What joins when; those parameters ask for gradients from now on, also where the model had frozen them.

    Batch norms that the model keeps still (`freeze_at`, `frozen_norm`) are left as they are.

    Raises ConfigError for expressions that name nothing, and for what would join after the run.
    """
    still = {name for norm, names in _norms(model) if norm.frozen for name in names}
    free = {name: p for name, p in model.named_parameters() if name not in still}
    stages: list[Stage] = []
    for number, wish in enumerate(settings.unfreeze):
        names = [name for name in free if any(checked(pattern).search(name) for pattern in wish.params)]
        if not names:
            known = listing([name for name, _ in model.named_parameters()][:_SHOWN])
            raise ConfigError(
                f"finetune.unfreeze[{number}]: no parameter that is left has a name with "
                f"{listing(wish.params)}; names look like {known}"
            )
        at = _updates(wish, f"finetune.unfreeze[{number}]", total_steps, steps_per_epoch)
        for name in names:
            free.pop(name).requires_grad = True
        norms = [norm for norm, of_norm in _norms(model) if set(of_norm) <= set(names)]
        stages.append(Stage(f"unfreeze{number}", at, names, norms))
    return stages


def _updates(wish: Unfreeze, where: str, total_steps: int, steps_per_epoch: int | None) -> int:
    if wish.unit == "epochs" and steps_per_epoch is None:
        raise ConfigError(f"{where}: the training set has no end, so it has no epochs; give unit: steps")
    each = {"steps": 1.0, "epochs": float(steps_per_epoch or 0), "percent": total_steps / 100}[wish.unit]
    at = round(wish.at * each)
    if at >= total_steps:
        raise ConfigError(f"{where}: at {wish.at} {wish.unit} is update {at}, and the run has {total_steps}")
    return at


def _norms(model: nn.Layer) -> Iterator[tuple[nn.BatchNorm, list[str]]]:
    """Each batch norm with the names of its parameters."""
    for path, layer in model.named_layers():
        if isinstance(layer, nn.BatchNorm):
            yield layer, [f"{path}.{name}" if path else name for name, _ in layer.named_parameters()]


class Unfreezing(Hook):
    """Lets parameters join when it is time.

    Args:
        step: the update; its optimizers hold the parameters.
        stages: what joins when.
    """

    priority: ClassVar[int] = 1

    def __init__(self, step: Step, stages: Sequence[Stage]) -> None:
        self._step, self._stages = step, list(stages)
        for stage in stages:
            for optimizer, names in _held_by(step.optimizers(), stage):
                optimizer.hold(stage.key, names)
            for norm in stage.norms:
                norm.frozen = True
        if stages:
            step.retrace()

    def before_train(self, loop: TrainingLoop) -> None:
        """Norms of what waits keep their statistics, as the optimizers' states say."""
        for stage in self._stages:
            waits = self._waits(stage)
            for norm in stage.norms:
                norm.frozen = waits
            if waits:
                loop.log.say(f"frozen until step {stage.at}: {stage}")

    def before_step(self, loop: TrainingLoop) -> None:
        """Let those join whose time has come."""
        due = [stage for stage in self._stages if stage.at <= loop.step and self._waits(stage)]
        for stage in due:
            for optimizer, _ in _held_by(self._step.optimizers(), stage):
                optimizer.release(stage.key)
            for norm in stage.norms:
                norm.frozen = False
            loop.log.say(f"trained from step {loop.step} on: {stage}")
        if due:
            self._step.retrace()

    def _waits(self, stage: Stage) -> bool:
        return any(optimizer.waiting(stage.key) for optimizer, _ in _held_by(self._step.optimizers(), stage))


def _held_by(optimizers: Sequence[Optimizer], stage: Stage) -> list[tuple[Optimizer, list[str]]]:
    found = [(optimizer, [name for name in stage.names if name in optimizer.params]) for optimizer in optimizers]
    return [(optimizer, names) for optimizer, names in found if names]


def begin_pull(step: Step, settings: FinetuneSettings, task: Task, log: RunLog, *, continued: bool) -> None:
    """Pull a step's parameters to what was loaded, where the settings say so.

    Args:
        step: the update.
        settings: see `FinetuneSettings`.
        task: whose model has its first weights.
        log: is told.
        continued: whether a checkpoint follows, which has what was loaded.

    Raises ConfigError where nothing was loaded, where weight decay is on too, or for a step of another kind.
    """
    if settings.l2_sp is None:
        return
    if not isinstance(step, TrainStep):
        raise ConfigError(f"finetune.l2_sp: {type(step).__name__} does not take it; it is for one optimizer")
    if summary := "".join(optimizer.decay_summary() for optimizer in step.optimizers()):
        raise ConfigError(
            f"finetune.l2_sp: it takes the place of weight decay, which is on ({summary}); "
            "set -o optimizer.weight_decay=0"
        )
    pull = step.pull(settings.l2_sp, None if continued else loaded_tensors(task.model))
    if continued:
        return
    if not pull.count:
        raise ConfigError(
            "finetune.l2_sp: no trained parameter was loaded; name weights with runtime.weights or `pretrained`"
        )
    log.say(str(pull))
