"""How far an output may be from its reference: each element by what moves it, not by the largest number around.

A stable kernel gives f(x (1 + d)) (1 + e), with d and e of a few roundings (Higham 2002, section 1.5). So element i may
be off by `roundings` eps (|f_i| + s_i), where s_i is how far f_i moves when every input moves by one relative unit of
random sign. The reference itself tells, in float64: what four of five draws stay below, without jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_STEP = 2.0**-24  # half the digits of float64: what is cut off by it, and by float64, is below 2^-24 of s
_DRAWS = 24
_SPREAD = 4.0  # from what a few draws show to a bound: all signs alike are rare
_JUMP = 1e4  # times the largest number around: a place where the function jumps, such as a tie


def sensitivities(
    reference: Callable[..., Any], inputs: Sequence[np.ndarray | None], attrs: dict[str, Any], outputs: list[np.ndarray]
) -> list[np.ndarray]:
    """s of every element of every float output, float64; an empty array for other outputs."""
    rng = np.random.default_rng(0)
    around = [np.abs(x[np.isfinite(x)]) for x in [*inputs, *outputs] if x is not None and x.dtype.kind == "f"]
    most = _JUMP * max((float(x.max()) for x in around if x.size), default=1.0)
    moves: list[list[np.ndarray]] = [[] for _ in outputs]
    with np.errstate(all="ignore"):
        for _ in range(_DRAWS):
            found = reference(*[_moved(x, rng) for x in inputs], **attrs)
            after = found if isinstance(found, tuple) else (found,)
            for move, before, now in zip(moves, outputs, after, strict=True):
                if before.dtype.kind == "f":
                    by = np.abs(np.asarray(now) - before) / _STEP
                    move.append(np.where(by < most, by, 0.0))
        return [np.quantile(m, 0.8, axis=0) * _SPREAD if m else np.zeros(0) for m in moves]


def _moved(x: np.ndarray | None, rng: np.random.Generator) -> np.ndarray | None:
    if x is None or x.dtype.kind != "f":
        return x
    return x * (1 + _STEP * rng.choice([-1.0, 1.0], size=x.shape))
