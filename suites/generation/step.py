"""The step of models with critics: generators by one optimizer, critics by another, each a Program of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import framework
from framework import Tensor, from_numpy, no_grad, program
from framework.errors import CheckpointError, ConfigError
from framework.optim import Optimizer
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch
from suites.engine.contract.step import Step, Update
from suites.engine.train.averaging import MovingAverage
from suites.generation.models.base import Adversarial


class ImageBuffer:
    """Pictures that were drawn earlier: critics shall not see the latest alone (Shrivastava et al. 2017).

    Args:
        size: how many it holds; 50 in CycleGAN's paper. 0 gives what it is given.
        seed: of its draws; those of each call depend on `seed` and `call` alone.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._kept: list[np.ndarray] = []

    def swapped(self, pictures: np.ndarray, call: int) -> np.ndarray:
        """Returns pictures [N, H, W, 3], each with probability 1/2 an older one in whose place it is kept."""
        rng = np.random.Generator(np.random.Philox(key=[self._seed & (2**64 - 1), call]))
        return np.stack([self._swap(picture, rng) for picture in pictures])

    def _swap(self, picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if len(self._kept) < self._size:
            self._kept.append(picture.copy())
            return picture
        if not self._size or rng.random() < 0.5:
            return picture
        place = int(rng.integers(self._size))
        older, self._kept[place] = self._kept[place], picture.copy()
        return older

    def state_dict(self) -> dict[str, Tensor]:
        """The pictures, by place."""
        return {str(place): from_numpy(picture) for place, picture in enumerate(self._kept)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Takes up what `state_dict` returned."""
        self._kept = [state[str(place)].numpy().copy() for place in range(len(state))]


class AdversarialStep(Step):
    """One update of the critics, and of the generators before it wherever it is their turn.

    Args:
        task: gives the model, and its critics as `helpers`.
        make_optimizer: makes each of the two optimizers of its parameters.
        runtime: how the run trains.
    """

    def __init__(self, task: Any, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> None:
        super().__init__(task)
        if runtime.accumulate > 1 or runtime.precision != "float32" or runtime.clip_norm is not None:
            raise ConfigError("runtime: models with critics take no accumulate, clip_norm or precision; leave them out")
        self._model: Adversarial = task.model
        self._critics = task.helpers
        self.inputs = task.train_inputs
        self._generators = make_optimizer(params=task.model.named_parameters())
        self._judges = make_optimizer(params=task.helpers.named_parameters())
        self.lr_scaling = self._generators.lr_scaling
        self._average = MovingAverage(task.model, runtime.ema.decay) if runtime.ema else None
        self._buffers = {
            name: ImageBuffer(self._model.buffer, runtime.seed + at) for at, name in enumerate(self._model.shows)
        }
        self._conv_algorithm = runtime.conv_algorithm
        self._make = self._improve_generators if runtime.eager else program(self._improve_generators)
        self._judge = self._improve_critics if runtime.eager else program(self._improve_critics)
        self._latest: dict[str, Tensor] = {}  # the generators' losses, which stay where it is not their turn

    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Updates the generators, where it is their turn, then the critics."""
        inputs = {name: from_numpy(np.asarray(batches[0][name])) for name in self.inputs}
        rate = _number(lr)
        with framework.conv_algorithm(self._conv_algorithm):
            if self.updates % self._model.critic_steps == 0:
                turn = self.updates // self._model.critic_steps
                decay = _number(self._average.decay_at(turn) if self._average else 0.0)
                self._latest, made = self._make(inputs, rate, decay)
                # The buffers are on this side: a read.
                older = {n: self._buffers[n].swapped(made[n].numpy(), self.updates) for n in self._model.shows}
                inputs |= {name: from_numpy(pictures) for name, pictures in older.items()}
            told = self._judge(inputs, rate)
        return Update({**self._latest, **told})

    def _improve_generators(
        self, inputs: dict[str, Tensor], lr: Tensor, decay: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Traced: the generators' losses, and what they drew."""
        losses, made = self._model.make(inputs, self._critics)
        self._improve(self._generators, losses, lr)
        if self._average:
            self._average.update(decay)
        return losses, {name: picture.detach() for name, picture in made.items()}

    def _improve_critics(self, inputs: dict[str, Tensor], lr: Tensor) -> dict[str, Tensor]:
        """Traced: the critics' losses."""
        losses = self._model.judge(inputs, self._critics)
        self._improve(self._judges, losses, lr)
        return losses

    def _improve(self, optimizer: Optimizer, losses: Mapping[str, Tensor], lr: Tensor) -> None:
        """One optimizer's update; what the losses say of the other's parameters is forgotten."""
        terms = iter(losses.values())
        total = next(terms)
        for term in terms:
            total = total + term
        for each in (self._generators, self._judges):
            each.zero_grad()
        total.backward()
        for each in (self._generators, self._judges):
            if each is not optimizer:
                each.zero_grad()
        optimizer.step(lr)

    def averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the generators have their averaged weights, if an average is kept."""
        return self._average.in_place() if self._average else contextlib.nullcontext()

    def optimizers(self) -> Sequence[Optimizer]:
        """That of the generators and that of the critics."""
        return self._generators, self._judges

    def state_dict(self) -> dict[str, Any]:
        """Networks, both optimizers, the average, the buffers, and the losses that stay."""
        state = {
            **super().state_dict(),
            "generators_optimizer": self._generators.state_dict(),
            "critics_optimizer": self._judges.state_dict(),
            "latest": {name: float(loss) for name, loss in self._latest.items()},
        }
        if self._buffers:
            state["buffers"] = {name: buffer.state_dict() for name, buffer in self._buffers.items()}
        if self._average:
            state["average"] = self._average.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` returned; CheckpointError where it is another model's."""
        if self._average and "average" not in state:
            raise CheckpointError("checkpoint: it holds no moving average but the config asks for one")
        super().load_state_dict(state)
        self._generators.load_state_dict(state["generators_optimizer"])
        self._judges.load_state_dict(state["critics_optimizer"])
        self._latest = {name: _number(loss) for name, loss in state["latest"].items()}
        for name, buffer in self._buffers.items():
            buffer.load_state_dict(state["buffers"][name])
        if self._average:
            self._average.load_state_dict(state["average"])


def _number(value: float) -> Tensor:
    with no_grad():
        return from_numpy(np.array(value, np.float32))
