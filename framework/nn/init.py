"""Initializers, and drawing a model's weights so that they depend on the seed and each parameter's name alone.

Adding, removing or reordering layers leaves the starting weights of all others unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from framework import _core
from framework.context import context
from framework.errors import AttributeValueError
from framework.tensors import Tensor, from_numpy, tensor

Initializer = Callable[[Sequence[int], np.random.Generator], np.ndarray]  # (shape, rng) -> float32 array


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """(fan in, fan out) of a weight [K, ..., C]: inputs of one output, outputs fed by one input."""
    if len(shape) < 2:
        raise AttributeValueError(f"init: a tensor of shape {list(shape)} has no fan; it needs 2 axes or more")
    receptive = math.prod(shape[1:-1])
    return shape[-1] * receptive, shape[0] * receptive


@dataclass(frozen=True)
class Constant:
    """Every element is `value`."""

    value: float = 0.0

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """The array; `rng` is not used."""
        return np.full(shape, self.value, np.float32)


def _scaled(x: np.ndarray, factor: float, offset: float) -> np.ndarray:
    """x * factor + offset in x's own memory: fresh memory costs more than the arithmetic."""
    x *= np.float32(factor)
    if offset:
        x += np.float32(offset)
    return x


@dataclass(frozen=True)
class Normal:
    """Normal numbers of mean `mean` and standard deviation `std`."""

    std: float = 0.01
    mean: float = 0.0

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """Float32 numbers of `shape` drawn from `rng`."""
        return _scaled(rng.standard_normal(shape, np.float32), self.std, self.mean)


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal numbers drawn again while further than two `std` from `mean`."""

    std: float = 0.02
    mean: float = 0.0

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """Float32 numbers of `shape` drawn from `rng`."""
        x = rng.standard_normal(shape, np.float32)
        while (far := np.abs(x) > 2).any():
            x[far] = rng.standard_normal(int(far.sum()), np.float32)
        return _scaled(x, self.std, self.mean)


@dataclass(frozen=True)
class Uniform:
    """Uniform numbers in [low, high)."""

    low: float = -0.05
    high: float = 0.05

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """Float32 numbers of `shape` drawn from `rng`."""
        return _scaled(rng.random(shape, np.float32), self.high - self.low, self.low)


@dataclass(frozen=True)
class _Scaled:
    """A draw whose variance is gain^2 / fan."""

    distribution: Literal["normal", "uniform"] = "normal"

    def variance(self, shape: Sequence[int]) -> float:
        raise NotImplementedError

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """Float32 numbers of `shape` drawn from `rng`."""
        std = math.sqrt(self.variance(shape))
        if self.distribution == "normal":
            return Normal(std)(shape, rng)
        return Uniform(-std * math.sqrt(3), std * math.sqrt(3))(shape, rng)


@dataclass(frozen=True)
class Kaiming(_Scaled):
    """Variance 2 / ((1 + slope^2) fan): keeps the size of activations through (leaky) ReLU (He et al. 2015).

    Args:
        distribution: "normal" or "uniform".
        slope: of the leaky ReLU that follows; 0 for ReLU, 1 for none.
        mode: "fan_in" keeps activations, "fan_out" gradients.
    """

    slope: float = 0.0
    mode: Literal["fan_in", "fan_out"] = "fan_in"

    def variance(self, shape: Sequence[int]) -> float:
        """2 / ((1 + slope^2) fan)."""
        return 2.0 / ((1 + self.slope**2) * fans(shape)[self.mode == "fan_out"])


@dataclass(frozen=True)
class Xavier(_Scaled):
    """Variance 2 / (fan in + fan out) (Glorot and Bengio 2010)."""

    def variance(self, shape: Sequence[int]) -> float:
        """2 / (fan in + fan out)."""
        return 2.0 / sum(fans(shape))


def draw(initializer: Initializer, shape: Sequence[int], *, seed: int, name: str) -> np.ndarray:
    """Float32 numbers of `shape` from a Philox stream of (seed, name) alone."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
    return np.asarray(initializer(tuple(shape), rng), np.float32)


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Inside, new parameters hold arbitrary numbers: for a model that `initialize` draws as soon as it is built.

    >>> with init.undrawn():
    ...     model = ResNet(50)
    >>> init.initialize(model, seed=0)
    """
    before, context.draws_weights = context.draws_weights, False
    try:
        yield
    finally:
        context.draws_weights = before


def drawing() -> bool:
    """Whether new parameters are drawn as they are made; not inside `undrawn`."""
    return context.draws_weights


def first_values(initializer: Initializer, shape: Sequence[int], name: str) -> Tensor:
    """What a new parameter `name` holds until `initialize`: numbers drawn by its own name, or any inside `undrawn`."""
    if not context.draws_weights:
        return from_numpy(np.empty(tuple(shape), np.float32))
    return tensor(draw(initializer, shape, seed=0, name=name))


class Layers(Protocol):
    """What `initialize` asks of a `Layer`, which stands above this module."""

    _initializers: dict[str, Initializer]

    def named_layers(self) -> Iterator[tuple[str, Layers]]:
        """Itself and all layers in it, by path."""


def initialize(model: Layers, seed: int, keep: Collection[str] = ()) -> None:
    """Draws every parameter that has an initializer again, by (seed, its path in `model`).

    Call it once after a model is built: until then, equal layers hold equal numbers. Parameters are shared out among
    as many threads as operators have. Those whose paths are in `keep` stay as they are.
    """
    tensors: list[Tensor] = []
    jobs: list[tuple[Initializer, Sequence[int], str]] = []
    for path, layer in model.named_layers():
        for name, initializer in layer._initializers.items():
            full = f"{path}.{name}" if path else name
            if full not in keep:
                tensors.append(getattr(layer, name))
                jobs.append((initializer, tensors[-1].shape, full))
    with ThreadPoolExecutor(_core.num_threads()) as pool:
        drawn = pool.map(lambda job: draw(job[0], job[1], seed=seed, name=job[2]), jobs)
        for t, values in zip(tensors, drawn, strict=True):
            t.set(from_numpy(values.astype(t.dtype, copy=False)))
    _core.release_cached_memory()  # what held the numbers before: for a large model half of its size again
