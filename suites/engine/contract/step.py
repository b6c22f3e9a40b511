"""Step: what one update of a run is. Update: what it came to, in numbers that are read when somebody looks."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from framework.errors import CheckpointError, NotSupportedError
from framework.optim import Optimizer
from framework.random import default_generator

if TYPE_CHECKING:
    from framework import Tensor
    from framework.optim import LossScaler
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.task import Task


class Update:
    """What one update came to.

    The numbers stay where they were computed until `losses` or `scalars` is looked at. So a step costs no reading.

    Args:
        losses: loss terms by name, before the update; scalars.
        scalars: further scalars by name that are logged only.
        arrays: arrays by name that hooks look at.
    """

    def __init__(
        self,
        losses: Mapping[str, Tensor | float],
        scalars: Mapping[str, Tensor | float] | None = None,
        arrays: Mapping[str, Tensor] | None = None,
    ):
        self._losses, self._scalars, self._arrays = losses, scalars or {}, arrays or {}

    @property
    def done(self) -> bool:
        """Whether looking at the numbers costs no waiting for the update itself."""
        return True

    @cached_property
    def losses(self) -> dict[str, float]:
        """The loss terms by name; read now, and once."""
        return {name: float(value) for name, value in self._losses.items()}

    @cached_property
    def scalars(self) -> dict[str, float]:
        """The scalars that are logged only, by name; read now, and once."""
        return {name: float(value) for name, value in self._scalars.items()}

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a task keeps of a step, by name; read now, and once."""
        return {name: value.numpy() for name, value in self._arrays.items()}


class Step(ABC):
    """One update of the weights: losses, gradients, one or several optimizers.

    A subclass makes its optimizers, defines `update`, and adds them to both state methods. Model, helpers, the number
    of updates and the random state of layers are kept by this class. See docs/howto/training.md for an example.

    Args:
        task: the model and its helpers.

    Attributes:
        inputs: names of the batch arrays that an update takes.
        updates: how many were made.
        lr_scaling: how the learning rate follows the batch where the schedule does not say; see `optim.Schedule`.
        scaler: of the loss, where there is one; without it an update is never skipped.
    """

    inputs: tuple[str, ...] = ()
    scaler: LossScaler | None = None
    lr_scaling: Literal["linear", "sqrt", "none"] = "linear"

    def __init__(self, task: Task) -> None:
        self._task = task
        self.updates = 0

    def __call__(self, batches: Sequence[Batch], lr: float) -> Update:
        """Make one update at learning rate `lr` with one batch, or with some that count as one."""
        self._task.model.train()
        made = self.update(batches, lr)
        self.updates += 1
        return made

    @abstractmethod
    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Change the weights; the model is in training mode."""

    def optimizers(self) -> Sequence[Optimizer]:
        """The optimizers, for the log; by default none is told of."""
        return ()

    def retrace(self) -> None:
        """Forget the traced Programs: which parameters are trained has changed.

        Raises NotSupportedError for a step that cannot.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: what it trains is fixed for the whole run, so it takes no finetune.unfreeze"
        )

    @property
    def averages_later(self) -> bool:
        """Whether it keeps an average that waits for `average_from_now`."""
        return False

    def average_from_now(self) -> None:  # noqa: B027  (an offer, not a duty)
        """Let an average that waits begin."""

    def averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the model has the weights that are evaluated and exported; by default those that are trained."""
        return contextlib.nullcontext()

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides the next update: parts by name, of tensors, arrays and what fits into JSON."""
        state: dict[str, Any] = {
            "model": self._task.model.state_dict(),
            "step": {"updates": self.updates, "random": default_generator.get_state()},
        }
        if self._task.helpers is not None:
            state["helpers"] = self._task.helpers.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned; raise CheckpointError if it is another model's."""
        if (self._task.helpers is None) != ("helpers" not in state):
            raise CheckpointError(
                "checkpoint: layers that only training needs are in it or in the task, but not in both"
            )
        self._task.model.load_state_dict(state["model"])
        if self._task.helpers is not None:
            self._task.helpers.load_state_dict(state["helpers"])
        self.updates = state["step"]["updates"]
        default_generator.set_state(state["step"]["random"])


@runtime_checkable
class OwnStep(Protocol):
    """Offered by tasks whose update is not one batch (or `runtime.accumulate`) and one optimizer."""

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """Return what one update is.

        Args:
            make_optimizer: takes `params`, (name, parameter) pairs, and returns the optimizer that the run asks for.
            runtime: how the run trains.
        """
