"""Rates of rotary positions, and how they are scaled to texts longer than those a model was first trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import framework
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register, register_role


class RotaryScaling:
    """Changes the rates by which pairs of columns turn from place to place."""

    def rates(self, rates: np.ndarray, theta: float, size: int) -> np.ndarray:
        """Rates [size / 2], float64.

        Args:
            rates: theta^(-2 i / size), those without scaling.
            theta: their base.
            size: width of a head.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no rates()")

    @property
    def magnitude(self) -> float:
        """By which cosines and sines are multiplied."""
        return 1.0


register_role("rotary_scaling", RotaryScaling, doc="Rates of rotary positions for longer texts.")


def _expect_factor(who: str, factor: float) -> None:
    if not factor >= 1:
        raise AttributeValueError(f"{who}: factor is {factor}; it must be 1 or more")


@register("rotary_scaling")
@dataclass(frozen=True)
class LinearScaling(RotaryScaling):
    """Places count less (position interpolation; Chen et al. 2023, arXiv:2306.15595).

    Args:
        factor: so many times.
    """

    factor: float

    def __post_init__(self) -> None:
        _expect_factor("LinearScaling", self.factor)

    def rates(self, rates: np.ndarray, theta: float, size: int) -> np.ndarray:
        """All rates divided."""
        return rates / self.factor


@register("rotary_scaling")
@dataclass(frozen=True)
class Llama3Scaling(RotaryScaling):
    """Slow turns count less, fast ones stay, between them a mean (Dubey et al. 2024, arXiv:2407.21783, section 3.4).

    Args:
        factor: by which slow rates are divided.
        low: a pair that turns less often than this over `original` places is slow.
        high: one that turns more often is fast.
        original: places of the texts before.
    """

    factor: float
    low: float = 1.0
    high: float = 4.0
    original: int = 8192

    def __post_init__(self) -> None:
        _expect_factor("Llama3Scaling", self.factor)
        if not 0 < self.low < self.high or self.original < 1:
            raise AttributeValueError(
                f"Llama3Scaling: low is {self.low}, high {self.high} and original {self.original}; low must be above 0 "
                "and below high, original above 0"
            )

    def rates(self, rates: np.ndarray, theta: float, size: int) -> np.ndarray:
        """By the turns of each pair over the original places."""
        turns = self.original * rates / (2 * math.pi)
        fast = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return (1 - fast) * rates / self.factor + fast * rates


@register("rotary_scaling")
@dataclass(frozen=True)
class YarnScaling(RotaryScaling):
    """Slow turns count less along a ramp over columns, and scores are sharpened (Peng et al. 2023, arXiv:2309.00071).

    Args:
        factor: by which slow rates are divided.
        original: places of the texts before.
        fast: turns over `original` places from which on a rate stays.
        slow: turns up to which it is divided in full.
        attention: of `magnitude`; null for 0.1 ln(factor) + 1.
    """

    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float | None = None

    def __post_init__(self) -> None:
        _expect_factor("YarnScaling", self.factor)
        if not 0 < self.slow < self.fast or self.original < 1:
            raise AttributeValueError(
                f"YarnScaling: slow is {self.slow}, fast {self.fast} and original {self.original}; slow must be above "
                "0 and below fast, original above 0"
            )

    def rates(self, rates: np.ndarray, theta: float, size: int) -> np.ndarray:
        """By the number of each pair between those that turn `fast` and `slow` times."""

        def pair(turns: float) -> float:
            return size * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(theta))

        first = max(math.floor(pair(self.fast)), 0)
        last = min(math.ceil(pair(self.slow)), size - 1)
        ramp = np.clip((np.arange(size // 2) - first) / max(last - first, 1e-3), 0, 1)
        return ramp * rates / self.factor + (1 - ramp) * rates

    @property
    def magnitude(self) -> float:
        """Of cosines and sines."""
        return 0.1 * math.log(self.factor) + 1 if self.attention is None else self.attention


def turns(theta: float, size: int, rows: int, scaling: RotaryScaling | None = None) -> tuple[Tensor, Tensor]:
    """Cosines and sines [rows, size / 2] of rotary positions.

    Args:
        theta: base of the rates.
        size: width of a head, even.
        rows: places.
        scaling: of the rates; None for none.
    """
    rates, magnitude = theta ** -(np.arange(0, size, 2, dtype=np.float64) / size), 1.0
    if scaling is not None:
        rates, magnitude = scaling.rates(rates, theta, size), scaling.magnitude
    angles = np.arange(rows)[:, None] * rates.astype(np.float32)
    cos, sin = (magnitude * function(angles) for function in (np.cos, np.sin))
    return framework.tensor(cos.astype(np.float32)), framework.tensor(sin.astype(np.float32))
