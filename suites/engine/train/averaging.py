"""Averages of a model's weights while it is trained, which often score better than the last ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from framework import Tensor, no_grad, tensor
from framework.errors import CheckpointError
from framework.ops import internal

if TYPE_CHECKING:
    from framework.nn import Layer
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.task import Task


_BEGUN = "$begun"  # no weight has this name


class MovingAverage:
    """Averages all floating-point weights and buffers; others are taken as they are.

    The decay grows as min(decay, (1 + t) / (10 + t)) with the update t, so that the start is forgotten soon
    (TensorFlow's ExponentialMovingAverage; used so by PP-YOLO).
    """

    def __init__(self, model: Layer, decay: float) -> None:
        self._decay = decay
        self._live = {n: t for n, t in model.state_dict().items() if t.dtype.startswith("float")}
        self._averages = {name: tensor(value) for name, value in self._live.items()}
        for name, average in self._averages.items():
            average.persistable, average.name = True, f"average/{name}"

    def decay_at(self, update: int) -> float:
        """Return the weight of the past at update number `update`, from 0."""
        return min(self._decay, (1 + update) / (10 + update))

    def update(self, decay: Tensor) -> None:
        """Move the averages towards the live weights; `decay` is a scalar."""
        with no_grad():
            for name, average in self._averages.items():
                average.set(internal.ema_step(average, self._live[name], decay))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        trained = {name: live.detach() for name, live in self._live.items()}
        try:
            self._put(self._averages)
            yield
        finally:
            self._put(trained)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the averages by weight name."""
        return dict(self._averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replace the averages; raise CheckpointError if they are another model's."""
        wrong = sorted(state.keys() ^ self._averages.keys())
        if wrong:
            raise CheckpointError(
                f"moving average: it is another model's; {len(wrong)} names differ, first '{wrong[0]}'"
            )
        for name, average in self._averages.items():
            average.set(tensor(state[name]))

    @property
    def begins_later(self) -> bool:
        """Whether it waits for `begin`."""
        return False

    def begin(self, update: int) -> None:
        """Average from update number `update` on; by default it always does."""

    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, live in self._live.items():
            live.set(values[name])


class LaterAverage(MovingAverage):
    """The weights as they are until `begin` is called, then the mean of all since."""

    def __init__(self, model: Layer) -> None:
        super().__init__(model, 0.0)
        self._begun: int | None = None

    @property
    def begins_later(self) -> bool:
        """Until it was told to begin."""
        return self._begun is None

    def begin(self, update: int) -> None:
        """Average from update number `update` on."""
        self._begun = update

    def decay_at(self, update: int) -> float:
        """Return the weight of the past: 0 before the beginning, n / (n + 1) behind n weights."""
        count = 0 if self._begun is None else max(update - self._begun, 0)
        return count / (count + 1)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the means by weight name, and when they began."""
        return super().state_dict() | {_BEGUN: tensor(np.array(-1 if self._begun is None else self._begun))}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replace the means; raise CheckpointError if they are another model's, or of another kind."""
        if _BEGUN not in state:
            raise CheckpointError("moving average: it is runtime.ema's, but the config asks for runtime.asgd")
        begun = int(state[_BEGUN].numpy())
        super().load_state_dict({name: value for name, value in state.items() if name != _BEGUN})
        self._begun = None if begun < 0 else begun


def average_of(task: Task, runtime: Runtime) -> MovingAverage | None:
    """Return the average of a task's model that the settings of a run ask for."""
    if runtime.asgd is not None:
        return LaterAverage(task.model)
    return MovingAverage(task.model, runtime.ema.decay) if runtime.ema else None
