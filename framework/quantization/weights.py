"""Weights in 8 bits: integers, each row with a scale of its own, as constants of a Program."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Program, Value
from framework.quantization.ranges import SYMMETRIC, WIDEST
from framework.tensors import Tensor, from_numpy

MOST_STEPS = 1 << 30  # of a bias in whole steps of the sums


def rounded_rows(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers of the shape of w [K, ...] and float32 scales [K]: a row's largest magnitude is 127."""
    rows = w.reshape(len(w), -1)
    scale = np.abs(rows).max(axis=1, initial=0).astype(np.float32) / np.float32(127)
    steps = np.where(scale > 0, scale, np.float32(1))
    q = np.clip(np.rint(rows / steps[:, None]), -127, 127).astype(np.int8)
    return np.ascontiguousarray(q.reshape(w.shape)), scale


def widest(q: np.ndarray) -> int:
    """The largest 16-bit number that an input may be rounded to so that 32 bits hold all sums with weights q [K, ...].

    AdaRound may make each weight larger by 1, so that is counted in.
    """
    sums = np.minimum(np.abs(q.astype(np.int64)) + 1, SYMMETRIC).sum(axis=tuple(range(1, q.ndim)))
    return int(min(WIDEST, (2**31 - 1) // max(int(sums.max(initial=0)), 1)))


def array_of(program: Program, v: Value) -> np.ndarray:
    """A constant of a Program."""
    return Tensor(program.constants[v]).numpy()


def constant_of(program: Program, array: np.ndarray, name: str | None) -> Value:
    """A new constant of a Program."""
    value = program.add_constant(from_numpy(array).array())
    value.name = name
    return value


def set_constant(program: Program, v: Value | None, array: np.ndarray) -> None:
    """Gives a constant of a Program other data of its shape and type."""
    assert v is not None and v.shape == array.shape
    program.constants[v] = from_numpy(np.ascontiguousarray(array)).array()


def rounded_bias(bias: np.ndarray, x_scale: float, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """A bias [K] in steps of the sums: int32 numbers and float32 steps [K], which runtimes want in QDQ files.

    None where weights of 0 leave no step, or 32 bits do not hold it.
    """
    if not (scale > 0).all():
        return None
    steps = (scale.astype(np.float64) * x_scale).astype(np.float32)
    whole = np.rint(bias.astype(np.float64) / np.where(steps > 0, steps, np.nan))
    return (whole.astype(np.int32), steps) if (np.abs(whole) < MOST_STEPS).all() else None


def by_channel(numbers: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    """Numbers [C] of an input's channels beside the weights [K, R, S, C/groups] that meet them: [K, 1, 1, C/groups]."""
    parts = numbers.reshape(groups, 1, -1).repeat(len(weight) // groups, axis=1)
    return np.asarray(parts.reshape(len(weight), 1, 1, -1))
