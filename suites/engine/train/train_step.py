"""TrainStep: forward, backward, optimizer and moving average of one batch, as one traced Program.

Where several batches count as one there are three Programs: one finds what each batch's losses weigh, one adds a
batch's gradients to what was gathered, one makes the update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import Tensor, from_numpy, no_grad, ops, program, tensor
from framework.errors import CheckpointError, ConfigError
from framework.optim import LossScaler, Optimizer, clip_by_global_norm
from suites.engine.contract.capabilities import ScalesRates
from suites.engine.contract.fitting import fitting_here
from suites.engine.contract.losses import Kept, Loss, Scalar
from suites.engine.contract.step import OwnStep, Step, Update
from suites.engine.train.averaging import MovingAverage, average_of
from suites.engine.train.pulling import Pull

if TYPE_CHECKING:
    from suites.engine.config.sections import L2SPSettings
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.task import Task

_TINY = 1e-30  # the least that weights of losses are divided by


class TrainStep(Step):
    """Updates the model with one batch, or with some that count as one large batch, by one optimizer.

    Args:
        task: gives model and losses.
        optimizer: of the model's parameters.
        average: moving average of the weights, if there is one.
        clip_norm: bound on the joint norm of all gradients, if there is one.
        eager: run operator by operator, for debugging.
        conv_algorithm: see `framework.conv_algorithm`.
        accumulate: how many batches an update takes at most; 1 needs no memory for gathered gradients.
        precision: of what layers keep between them; see `framework.autocast`.
        scaler: of the loss; without one an update is never skipped.
    """

    def __init__(
        self,
        task: Task,
        optimizer: Optimizer,
        *,
        average: MovingAverage | None = None,
        clip_norm: float | None = None,
        eager: bool = False,
        conv_algorithm: str = "auto",
        accumulate: int = 1,
        precision: str = "float32",
        scaler: LossScaler | None = None,
    ) -> None:
        super().__init__(task)
        self.inputs = task.train_inputs
        self.lr_scaling = optimizer.lr_scaling
        self._optimizer = optimizer
        self._average = average
        self._clip_norm = clip_norm
        self._conv_algorithm = conv_algorithm
        self._precision = precision
        self.scaler = scaler
        self._eager = eager
        self._pull: Pull | None = None
        self._logged: set[str] = set()  # names of the scalars that are no losses, known after the first batch
        self._kept: set[str] = set()  # names of the arrays that hooks look at, known after the first batch
        self._gathered: dict[str, Tensor] = {}
        self._reached: set[str] = set()  # the parameters that the losses depend on, known after the first batch
        if accumulate > 1:
            self._gathered = {name: _state(f"gathered/{name}", p) for name, p in optimizer.params.items()}
            self._weigh = program(self._weights, pass_names=("drop_dead_code",), updates=False)
        self.retrace()

    @classmethod
    def of(cls, task: Task, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> TrainStep:
        """Return the step that the settings of a run describe."""
        return cls(
            task,
            optimizer_of(task, make_optimizer),
            average=average_of(task, runtime),
            clip_norm=runtime.clip_norm,
            eager=runtime.eager,
            conv_algorithm=runtime.conv_algorithm,
            accumulate=runtime.accumulate,
            precision=runtime.precision,
            scaler=runtime.loss_scale.scaler(runtime.precision),
        )

    def retrace(self) -> None:
        """Trace at the next update anew."""
        self._run = self._compute if self._eager else program(self._compute)
        self._gather_one = self._gather if self._eager else program(self._gather)
        self._apply_all = self._apply if self._eager else program(self._apply)

    def pull(self, settings: L2SPSettings, loaded: Collection[str] | None) -> Pull:
        """Add L2-SP's penalty from now on, with the weights as they are where they were loaded.

        Args:
            settings: how strong.
            loaded: names of the parameters that were; None where a checkpoint will say so.
        """
        self._pull = Pull(settings, self._optimizer.params, loaded)
        self.retrace()
        return self._pull

    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Make one update; the loss terms are those before it, means over all that they weigh."""
        decay = _number(self._average.decay_at(self.updates) if self._average else 0.0)
        with framework.conv_algorithm(self._conv_algorithm):
            if self._gathered:
                terms = self._update_with_all(batches, _number(lr), decay)
            else:
                terms = self._run(self._inputs(batches[0]), _number(lr), decay)
        return Update(*self._parts(terms))

    def _parts(self, terms: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
        """What `_backward` returned, apart: loss terms, what is logged only, what hooks look at."""
        losses = {name: value for name, value in terms.items() if name not in self._logged | self._kept}
        scalars, kept = ({name: terms[name] for name in terms if name in which} for which in (self._logged, self._kept))
        return losses, scalars, kept

    def _update_with_all(self, batches: Sequence[Batch], lr: Tensor, decay: Tensor) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        even = _number(1 / len(batches))  # the share of what has no weight
        for batch, shares in zip(batches, self._shares(batches), strict=True):
            terms = self._gather_one(self._inputs(batch), shares)
            with no_grad():
                for name, value in terms.items():
                    if name in self._kept:
                        continue
                    part = value * shares.get(name, even)
                    total[name] = total[name] + part if name in total else part
        self._apply_all(lr, decay)
        return total

    def _shares(self, batches: Sequence[Batch]) -> list[dict[str, Tensor]]:
        """For each batch the share of each loss term: its weight over that of all batches, 0 where that is 0."""
        weights = [self._weights_of(self._inputs(batch)) for batch in batches]
        shares: list[dict[str, Tensor]] = [{} for _ in batches]
        with no_grad():
            for name in weights[0]:
                total = weights[0][name]
                for each in weights[1:]:
                    total = total + each[name]
                for share, each in zip(shares, weights, strict=True):
                    share[name] = each[name] / ops.maximum(total, _number(_TINY))
        return shares

    def _weights_of(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        if states := self._weigh.program_for(inputs).program.states:
            names = ", ".join(sorted(t.name or "a tensor" for t in states.values())[:3])
            raise ConfigError(
                f"{type(self._task).__name__}: the weight of a loss depends on the model ({names} ...), so batches "
                "cannot be joined; let it depend on the batch alone: count samples, tokens or pixels of the inputs"
            )
        weights: dict[str, Tensor] = self._weigh(inputs)
        return weights

    def _inputs(self, batch: Batch) -> dict[str, Tensor]:
        arrays = {name: batch[name] for name in self.inputs}
        fitting = fitting_here(self._task)
        return {name: from_numpy(array) for name, array in (fitting.fill(arrays) if fitting else arrays).items()}

    @property
    def averages_later(self) -> bool:
        """Whether its average has not begun."""
        return self._average is not None and self._average.begins_later

    def average_from_now(self) -> None:
        """Let its average begin with the next update."""
        if self._average is not None:
            self._average.begin(self.updates)

    def averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the model has its averaged weights, if an average is kept."""
        return self._average.in_place() if self._average else contextlib.nullcontext()

    def optimizers(self) -> Sequence[Optimizer]:
        """Its optimizer."""
        return (self._optimizer,)

    def state_dict(self) -> dict[str, Any]:
        """Return model, optimizer and average as they are after the last update."""
        state = {**super().state_dict(), "optimizer": self._optimizer.state_dict()}
        if self._average:
            state["average"] = self._average.state_dict()
        if self.scaler:
            state["scaler"] = self.scaler.state_dict()
        if self._pull:
            state["loaded"] = self._pull.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned; raise CheckpointError if it is another model's."""
        if self._average and "average" not in state:
            raise CheckpointError("checkpoint: it holds no moving average but the config asks for one")
        if self.scaler and "scaler" not in state:
            raise CheckpointError("checkpoint: it holds no loss scale but the config asks for one")
        if self._pull and "loaded" not in state:
            raise CheckpointError("checkpoint: it does not hold the weights that finetune.l2_sp pulls to")
        super().load_state_dict(state)
        self._optimizer.load_state_dict(state["optimizer"])
        if self._average:
            self._average.load_state_dict(state["average"])
        if self.scaler:
            self.scaler.load_state_dict(state["scaler"])
        if self._pull:
            self._pull.load_state_dict(state["loaded"])

    def _weights(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the loss terms; what is traced, and then rid of all that they do not depend on."""
        with no_grad():
            terms = self._task.train_step(inputs).items()
            return {name: term.weight for name, term in terms if isinstance(term, Loss)}

    def _compute(self, inputs: dict[str, Tensor], lr: Tensor, decay: Tensor) -> dict[str, Tensor]:
        """A whole update with one batch; what is traced."""
        losses = self._backward(inputs, {})
        self._improve(lr, decay)
        return losses

    def _gather(self, inputs: dict[str, Tensor], shares: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add a batch's gradients, each loss term times its share, to what was gathered; what is traced."""
        losses = self._backward(inputs, shares)
        with no_grad():
            for name, p in self._optimizer.params.items():
                if p.grad is not None:
                    self._gathered[name].set(self._gathered[name] + p.grad)
        self._reached = {name for name, p in self._optimizer.params.items() if p.grad is not None}
        return losses

    def _apply(self, lr: Tensor, decay: Tensor) -> Tensor:
        """Make the update with what was gathered, and forget it; what is traced."""
        for name, p in self._optimizer.params.items():
            p.grad = self._gathered[name] * 1.0 if name in self._reached else None
        self._improve(lr, decay)
        with no_grad():
            for gathered in self._gathered.values():
                gathered.set(ops.full_like(gathered, value=0.0))
        return lr

    def _backward(self, inputs: dict[str, Tensor], shares: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with framework.autocast(self._precision):
            given = self._task.train_step(inputs)
        losses = {name: term.mean for name, term in given.items() if isinstance(term, Loss)}
        scalars = {name: term.value.detach() for name, term in given.items() if isinstance(term, Scalar)}
        kept = {name: term.value.detach() for name, term in given.items() if isinstance(term, Kept)}
        self._logged, self._kept = set(scalars), set(kept)
        terms = iter([mean * shares[name] if shares else mean for name, mean in losses.items()])
        total = next(terms)
        for term in terms:
            total = total + term
        self._optimizer.zero_grad()
        (self.scaler.scaled(total) if self.scaler else total).backward()
        return losses | scalars | kept

    def _improve(self, lr: Tensor, decay: Tensor) -> None:
        if self._pull:
            self._pull.add(self.scaler.scale if self.scaler else None)
        factor = self._scale_back()
        self._optimizer.step(lr, factor)
        if self._average:
            # A skipped update leaves the average as it is.
            self._average.update(decay if factor is None else ops.where(ops.isfinite(factor), decay, 1.0))
        if self.scaler and factor is not None:
            self.scaler.update(factor)

    def _scale_back(self) -> Tensor | None:
        """The factor that takes the loss scale off and clips; without a scale the gradients are clipped as they are."""
        params = self._optimizer.params.values()
        if self.scaler:
            return self.scaler.factor(params, self._clip_norm)
        if self._clip_norm is not None:
            clip_by_global_norm(params, self._clip_norm)
        return None


def optimizer_of(task: Task, make: Callable[..., Optimizer]) -> Optimizer:
    """Return the optimizer of the task's parameters, its helpers' too, with the task's factors on the learning rate."""
    helpers = task.helpers.named_parameters() if task.helpers is not None else ()
    params = [*task.model.named_parameters(), *((f"helpers.{name}", p) for name, p in helpers)]
    optimizer: Optimizer = make(params=params)
    if isinstance(task, ScalesRates):
        optimizer.scale_lr(task.lr_factors())
    return optimizer


def step_of(task: Task, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
    """Return what one update of a task is: its own, or one batch (or `runtime.accumulate`) and one optimizer."""
    if isinstance(task, OwnStep):
        return task.step(make_optimizer, runtime)
    return TrainStep.of(task, make_optimizer, runtime)


def _number(value: float) -> Tensor:
    return from_numpy(np.array(value, dtype=np.float32))


def _state(name: str, like: Tensor) -> Tensor:
    """Zeros that a Program keeps from run to run."""
    zeros = tensor(np.zeros(like.shape, like.dtype))
    zeros.persistable, zeros.name = True, name
    return zeros
