"""How 8 bits hold values, and which values have one range: the same in a Program that trains and in one that infers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.graph.ir import Operation, Program, Value

SMALLEST = 1e-25  # of a range: below, its steps leave what the operators take
LARGEST = 1e30  # the same of a magnitude, above
SYMMETRIC = 127  # the largest number of products, which have no zero
WIDEST = 32767  # the largest number of 16 bits
HEADROOM = 2.0  # 16 bits reach so many times as far as calibration saw, so that they cut next to nothing


def not_held(largest: float) -> str:
    """Why 8 bits do not hold a value of this largest magnitude."""
    if largest > LARGEST:
        return f"reached {largest:.3g} in calibration, and 8 bits hold up to {LARGEST:g}"
    return "was 0 all through calibration"


@dataclass(frozen=True)
class Steps:
    """How 8 bits hold a value: q stands for (q - zero) * scale."""

    scale: float
    zero: int

    @classmethod
    def of(cls, low: float, high: float) -> Steps:
        """Those of a range that includes 0, which they hold exactly; [-1, 1] where nothing but 0 was seen.

        The scale is a float32, as files hold it.
        """
        if high - low < SMALLEST:
            low, high = -1.0, 1.0
        scale = float(np.float32((high - low) / 255))
        return cls(scale, int(np.clip(np.rint(-low / scale), 0, 255)))

    def attrs(self, name: str) -> dict[str, float | int]:
        """As attributes of an operator's argument."""
        return {f"{name}_scale": self.scale, f"{name}_zero": self.zero}


@dataclass(frozen=True)
class Range:
    """Steps of all values that do `roles`, such as `backbone.stem.conv.weight:x`: the input of that convolution."""

    roles: tuple[str, ...]
    steps: Steps


@dataclass(frozen=True)
class Roles:
    """Values of a Program that have one range, and what they do."""

    roles: tuple[str, ...]
    values: tuple[Value, ...]


class Places:
    """Calls a Program's layers by their weights; of several that share them the second is called `NAME#1`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._met: Counter[str] = Counter()

    def of(self, op: Operation) -> str:
        """The next operation's place; operations come in the Program's order."""
        weight = op.inputs[1]
        name = (weight.name if weight is not None else None) or op.name
        count = self._met[name]
        self._met[name] += 1
        return f"{name}#{count}" if count else name


def weight_of(role: str) -> str | None:
    """The name of the weights of the layer that a role is of; None for a sum's, or those of a layer without a name."""
    place, _, _ = role.rpartition(":")
    name, _, _ = place.partition("#")
    return None if name.startswith("sum ") or name in ("matmul", "conv2d") else name


class Known:
    """Ranges by what their values do."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = list(ranges)
        self._index = {role: i for i, found in enumerate(ranges) for role in found.roles}

    def __contains__(self, role: str) -> bool:
        return role in self._index

    def index(self, roles: Sequence[str]) -> int | None:
        """Which range values of these roles have; None where none is known."""
        return next((self._index[role] for role in roles if role in self._index), None)
