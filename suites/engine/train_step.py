"""TrainStep: forward, backward, optimizer and moving average of one batch, as one traced Program."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import Tensor, from_numpy, program
from framework.errors import CheckpointError
from framework.optim import Optimizer, clip_by_global_norm
from framework.random import default_generator
from suites.engine.averaging import MovingAverage

if TYPE_CHECKING:
    from suites.engine.task import Batch, Task


class TrainStep:
    """Updates the model with one batch.

    Args:
        task: gives model and losses.
        optimizer: of the model's parameters.
        average: moving average of the weights, if there is one.
        clip_norm: bound on the joint norm of all gradients, if there is one.
        eager: run operator by operator, for debugging.
        conv_algorithm: see `framework.conv_algorithm`.
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
    ) -> None:
        self._task = task
        self._optimizer = optimizer
        self._average = average
        self._clip_norm = clip_norm
        self._conv_algorithm = conv_algorithm
        self._update = self._compute if eager else program(self._compute)
        self._updates = 0

    def __call__(self, batch: Batch, lr: float) -> dict[str, float]:
        """Make one update at learning rate `lr`; return the loss terms before it."""
        self._task.model.train()
        inputs = {name: from_numpy(batch[name]) for name in self._task.train_inputs}
        decay = self._average.decay_at(self._updates) if self._average else 0.0
        with framework.conv_algorithm(self._conv_algorithm):
            losses = self._update(inputs, _number(lr), _number(decay))
        self._updates += 1
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
        if self._average:
            state["average"] = self._average.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned; raise CheckpointError if it is another model's."""
        if self._average and "average" not in state:
            raise CheckpointError("checkpoint: it holds no moving average but the config asks for one")
        self._task.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self._average:
            self._average.load_state_dict(state["average"])
        self._updates = state["step"]["updates"]
        default_generator.set_state(state["step"]["random"])

    def _compute(self, inputs: dict[str, Tensor], lr: Tensor, decay: Tensor) -> dict[str, Tensor]:
        """The step itself; what is traced."""
        losses = self._task.train_step(inputs)
        terms = iter(losses.values())
        total = next(terms)
        for term in terms:
            total = total + term
        self._optimizer.zero_grad()
        total.backward()
        if self._clip_norm is not None:
            clip_by_global_norm(self._optimizer.params.values(), self._clip_norm)
        self._optimizer.step(lr)
        if self._average:
            self._average.update(decay)
        return losses


def _number(value: float) -> Tensor:
    return from_numpy(np.array(value, dtype=np.float32))
