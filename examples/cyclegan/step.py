"""The step of CycleGAN: both generators by one optimizer, then both discriminators by another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from framework import Tensor, from_numpy, ops, program
from framework.errors import ConfigError
from framework.optim import Optimizer
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch
from suites.engine.contract.step import Step, Update

SIDES = ("a", "b")


class ImageBuffer:
    """Pictures that were made earlier: discriminators shall not see the latest alone (Shrivastava et al. 2017).

    Args:
        size: how many it holds; 50 in the paper. 0 gives what it is given.
        seed: of its draws; those of each call depend on `seed` and `call` alone.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._kept: list[np.ndarray] = []

    def swapped(self, pictures: np.ndarray, call: int) -> np.ndarray:
        """Return pictures [N, S, S, 3], each with probability 1/2 an older one in whose place it is kept."""
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
        """Take up what `state_dict` returned."""
        self._kept = [state[str(place)].numpy().copy() for place in range(len(state))]


class CycleStep(Step):
    """One update of generators and discriminators with least-squares losses (Mao et al. 2017).

    Args:
        task: gives generators as `model` and discriminators as `helpers`, each with sides `a` and `b`.
        make_optimizer: makes each of the two optimizers of its parameters.
        runtime: how the run trains.
        cycle: weight of the way there and back; 10 in the paper.
        identity: weight of leaving alone what is in the right style already, as a share of `cycle`; 0.5 in the paper.
        buffer: pictures that each image buffer holds.
    """

    inputs = SIDES

    def __init__(
        self, task: Any, make_optimizer: Callable[..., Optimizer], runtime: Runtime, *,
        cycle: float, identity: float, buffer: int,
    ) -> None:  # fmt: skip
        super().__init__(task)
        if runtime.accumulate > 1 or runtime.ema or runtime.precision != "float32" or runtime.clip_norm is not None:
            raise ConfigError("runtime: CycleGAN takes no accumulate, ema, clip_norm or precision; leave them out")
        self._cycle, self._identity = cycle, identity
        self._made_by, self._told_by = task.model, task.helpers
        self._generators = make_optimizer(params=task.model.named_parameters())
        self._discriminators = make_optimizer(params=task.helpers.named_parameters())
        self._buffers = {side: ImageBuffer(buffer, runtime.seed + place) for place, side in enumerate(SIDES)}
        self._make = self._update_generators if runtime.eager else program(self._update_generators)
        self._tell = self._update_discriminators if runtime.eager else program(self._update_discriminators)

    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Update the generators, then the discriminators with real and made pictures."""
        real = {side: np.asarray(batches[0][side]) for side in SIDES}
        rate = from_numpy(np.array(lr, np.float32))
        losses = self._make({side: from_numpy(pictures) for side, pictures in real.items()}, rate)
        made = {side: losses.pop(f"made_{side}").numpy() for side in SIDES}  # the buffers are on this side: a read
        older = {side: self._buffers[side].swapped(made[side], self.updates) for side in SIDES}
        pictures = {**real, **{f"made_{side}": older[side] for side in SIDES}}
        told = self._tell({name: from_numpy(array) for name, array in pictures.items()}, rate)
        return Update(losses, told)

    def _update_generators(self, real: dict[str, Tensor], lr: Tensor) -> dict[str, Tensor]:
        """Traced: the losses of the generators by name, and the pictures `made_a`, `made_b`."""
        to, told_by = self._made_by, self._told_by
        made = {"b": to.b(real["a"]), "a": to.a(real["b"])}
        back = {"a": to.a(made["b"]), "b": to.b(made["a"])}
        losses = {
            "adversarial": ops.mean(ops.square(told_by.a(made["a"]) - 1.0))
            + ops.mean(ops.square(told_by.b(made["b"]) - 1.0)),
            "cycle": self._cycle * (_away(back["a"], real["a"]) + _away(back["b"], real["b"])),
        }
        if self._identity:
            same = _away(to.a(real["a"]), real["a"]) + _away(to.b(real["b"]), real["b"])
            losses["identity"] = self._cycle * self._identity * same
        self._improve(self._generators, losses, lr)
        return losses | {f"made_{side}": picture for side, picture in made.items()}

    def _update_discriminators(self, pictures: dict[str, Tensor], lr: Tensor) -> dict[str, Tensor]:
        """Traced: the loss of each discriminator, halved, so that it learns more slowly than its generator."""
        told_by = {"a": self._told_by.a, "b": self._told_by.b}
        losses = {
            f"discriminator_{side}": 0.5
            * (
                ops.mean(ops.square(told_by[side](pictures[side]) - 1.0))
                + ops.mean(ops.square(told_by[side](pictures[f"made_{side}"])))
            )
            for side in SIDES
        }
        self._improve(self._discriminators, losses, lr)
        return losses

    def _improve(self, optimizer: Optimizer, losses: Mapping[str, Tensor], lr: Tensor) -> None:
        """One optimizer's update; what the losses say of the other's parameters is forgotten."""
        terms = iter(losses.values())
        total = next(terms)
        for term in terms:
            total = total + term
        for each in (self._generators, self._discriminators):
            each.zero_grad()
        total.backward()
        for each in (self._generators, self._discriminators):
            if each is not optimizer:
                each.zero_grad()
        optimizer.step(lr)

    def state_dict(self) -> dict[str, Any]:
        """Networks, both optimizers and both buffers."""
        return {
            **super().state_dict(),
            "generators_optimizer": self._generators.state_dict(),
            "discriminators_optimizer": self._discriminators.state_dict(),
            "buffers": {side: buffer.state_dict() for side, buffer in self._buffers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""
        super().load_state_dict(state)
        self._generators.load_state_dict(state["generators_optimizer"])
        self._discriminators.load_state_dict(state["discriminators_optimizer"])
        for side, buffer in self._buffers.items():
            buffer.load_state_dict(state["buffers"][side])


def _away(a: Tensor, b: Tensor) -> Tensor:
    """Mean absolute difference."""
    return ops.mean(ops.abs(a - b))
