"""TrainStep: forward, backward, optimizer and moving average of one batch, as one traced Program.

Where several batches count as one there are three Programs: one finds what each batch's losses weigh, one adds a
batch's gradients to what was gathered, one makes the update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import Tensor, from_numpy, no_grad, ops, program, tensor
from framework.errors import CheckpointError, ConfigError
from framework.optim import LossScaler, Optimizer, clip_by_global_norm
from framework.random import default_generator
from suites.engine.averaging import MovingAverage

if TYPE_CHECKING:
    from suites.engine.task import Batch, Task


class TrainStep:
    """Updates the model with one batch, or with some that count as one large batch.

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
        self._task = task
        self._optimizer = optimizer
        self._average = average
        self._clip_norm = clip_norm
        self._conv_algorithm = conv_algorithm
        self._precision = precision
        self.scaler = scaler
        self._update = self._compute if eager else program(self._compute)
        self._updates = 0
        self._gathered: dict[str, Tensor] = {}
        self._reached: set[str] = set()  # the parameters that the losses depend on, known after the first batch
        if accumulate > 1:
            self._gathered = {name: _state(f"gathered/{name}", p) for name, p in optimizer.params.items()}
            self._weigh = program(self._weights, pass_names=("drop_dead_code",), updates=False)
            self._gather_one = self._gather if eager else program(self._gather)
            self._apply_all = self._apply if eager else program(self._apply)

    def __call__(self, batches: Sequence[Batch], lr: float) -> dict[str, float]:
        """Make one update at learning rate `lr`; return the loss terms before it, means over all that they weigh."""
        self._task.model.train()
        decay = _number(self._average.decay_at(self._updates) if self._average else 0.0)
        with framework.conv_algorithm(self._conv_algorithm):
            if self._gathered:
                losses = self._update_with_all(batches, _number(lr), decay)
            else:
                losses = self._numbers(self._update(self._inputs(batches[0]), _number(lr), decay))
        self._updates += 1
        return losses

    def _update_with_all(self, batches: Sequence[Batch], lr: Tensor, decay: Tensor) -> dict[str, float]:
        total: dict[str, float] = {}
        for batch, shares in zip(batches, self._shares(batches), strict=True):
            given = {name: _number(share) for name, share in shares.items()}
            losses = self._numbers(self._gather_one(self._inputs(batch), given))
            for name, value in losses.items():
                total[name] = total.get(name, 0.0) + value * shares[name]
        self._apply_all(lr, decay)
        return total

    def _shares(self, batches: Sequence[Batch]) -> list[dict[str, float]]:
        """For each batch the share of each loss term: its weight over that of all batches."""
        weights = [self._numbers(self._weights_of(self._inputs(batch))) for batch in batches]
        totals = {name: sum(each[name] for each in weights) for name in weights[0]}
        return [{name: weight / (totals[name] or 1.0) for name, weight in each.items()} for each in weights]

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
        return {name: from_numpy(batch[name]) for name in self._task.train_inputs}

    @staticmethod
    def _numbers(losses: Mapping[str, Tensor]) -> dict[str, float]:
        return {name: float(value) for name, value in losses.items()}

    def averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the model has its averaged weights, if an average is kept."""
        return self._average.in_place() if self._average else contextlib.nullcontext()

    def state_dict(self) -> dict[str, Any]:
        """Return model, optimizer and average as they are after the last update."""
        state: dict[str, Any] = {
            "model": self._task.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "step": {"updates": self._updates, "random": default_generator.get_state()},
        }
        if self._task.helpers is not None:
            state["helpers"] = self._task.helpers.state_dict()
        if self._average:
            state["average"] = self._average.state_dict()
        if self.scaler:
            state["scaler"] = self.scaler.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned; raise CheckpointError if it is another model's."""
        if self._average and "average" not in state:
            raise CheckpointError("checkpoint: it holds no moving average but the config asks for one")
        if (self._task.helpers is None) != ("helpers" not in state):
            raise CheckpointError(
                "checkpoint: layers that only training needs are in it or in the task, but not in both"
            )
        if self.scaler and "scaler" not in state:
            raise CheckpointError("checkpoint: it holds no loss scale but the config asks for one")
        self._task.model.load_state_dict(state["model"])
        if self._task.helpers is not None:
            self._task.helpers.load_state_dict(state["helpers"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self._average:
            self._average.load_state_dict(state["average"])
        if self.scaler:
            self.scaler.load_state_dict(state["scaler"])
        self._updates = state["step"]["updates"]
        default_generator.set_state(state["step"]["random"])

    def _weights(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of the loss terms; what is traced, and then rid of all that they do not depend on."""
        with no_grad():
            return {name: loss.weight for name, loss in self._task.train_step(inputs).items()}

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
            losses = {name: loss.mean for name, loss in self._task.train_step(inputs).items()}
        terms = iter([mean * shares[name] if shares else mean for name, mean in losses.items()])
        total = next(terms)
        for term in terms:
            total = total + term
        self._optimizer.zero_grad()
        (self.scaler.scaled(total) if self.scaler else total).backward()
        return losses

    def _improve(self, lr: Tensor, decay: Tensor) -> None:
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


def _number(value: float) -> Tensor:
    return from_numpy(np.array(value, dtype=np.float32))


def _state(name: str, like: Tensor) -> Tensor:
    """Zeros that a Program keeps from run to run."""
    zeros = tensor(np.zeros(like.shape, like.dtype))
    zeros.persistable, zeros.name = True, name
    return zeros
