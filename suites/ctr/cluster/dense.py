"""Dense weights of trainers: each trains its own, and every few batches they are drawn together.

A trainer sends what its weights moved since the last exchange, divided by the number of trainers that the run is made
for. The shards add it to the common weights and answer with them; what the trainer moved meanwhile stays on top. So the
common weights are the trainers' average (local SGD, Stich 2019, without a barrier), and nobody waits. While a trainer
is away the divisor stays, so that a batch moves the common weights as far as it does when all are there. The
optimizer's averages stay each trainer's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from framework import tensor

if TYPE_CHECKING:
    from framework.nn import Layer
    from framework.table.remote import Push, ShardClient


class DenseWeights:
    """The float32 parameters and buffers of a model as one array, in the order of their names."""

    def __init__(self, model: Layer) -> None:
        state = model.state_dict()
        self._tensors = {name: state[name] for name in sorted(state) if state[name].dtype == "float32"}
        self.size = sum(t.size for t in self._tensors.values())

    def get(self) -> np.ndarray:
        """A copy, float32 [size]."""
        return np.concatenate([np.zeros(0, np.float32), *(t.numpy().ravel() for t in self._tensors.values())])

    def set(self, values: np.ndarray) -> None:
        """Replace all, float32 [size]."""
        at = 0
        for t in self._tensors.values():
            t.set(tensor(values[at : at + t.size].reshape(t.shape)))
            at += t.size


class Exchange:
    """Draws a trainer's dense weights together with the others'.

    Args:
        weights: of the trainer.
        client: of the shards.
    """

    def __init__(self, weights: DenseWeights, client: ShardClient) -> None:
        self._weights, self._client = weights, client
        self._base = self._sent = np.zeros(0, np.float32)
        self._open: Push | None = None

    def begin(self) -> None:
        """Take the common weights."""
        self._open = None
        self._base = self._client.dense()
        self._weights.set(self._base)

    def change(self, trainers: int) -> np.ndarray:
        """What is to be sent now, as one of so many trainers; an exchange that is still open is waited for."""
        self.take(wait=True)
        self._sent = self._weights.get()
        moved: np.ndarray = (self._sent - self._base) / np.float32(max(trainers, 1))
        return moved

    def sent(self, push: Push) -> None:
        """The push that `change` went with."""
        self._open = push

    def take(self, *, wait: bool = False) -> None:
        """Take the common weights where the answer is there."""
        if self._open is None or not (wait or self._open.done):
            return
        common = self._open.dense()
        self._weights.set(common + (self._weights.get() - self._sent))
        self._base, self._open = common, None
