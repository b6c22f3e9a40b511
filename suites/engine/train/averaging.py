"""MovingAverage: an exponential average of a model's weights, which often scores better than the last ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from framework import Tensor, no_grad, tensor
from framework.errors import CheckpointError
from framework.ops import internal

if TYPE_CHECKING:
    from framework.nn import Layer


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

    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, live in self._live.items():
            live.set(values[name])
