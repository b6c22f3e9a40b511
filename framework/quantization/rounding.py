"""AdaRound: which weights of a layer are rounded up and which down, learnt from what it reads and should give.

Nagel et al. 2020, arXiv:2004.10568. Each weight lies between two steps; h in [0, 1] says where, a sigmoid stretched to
[-0.1, 1.1] and cut (equation 23). The squared error of the layer's results, behind its activation (25), and a
regulariser that drives h to 0 or 1, the harder the lower beta falls (24), are made small by Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from framework import ops
from framework.autograd.tape import recording
from framework.graph.function import program
from framework.nn.layer import parameter
from framework.ops.dispatch import call_by_name
from framework.optim import Adam
from framework.quantization.ranges import SYMMETRIC
from framework.tensors import Tensor, from_numpy

STRETCH = (-0.1, 1.1)
BETAS = (20.0, 2.0)
WARM_UP = 0.2  # of the steps: the regulariser waits
SHARE = 10_000.0  # of the regulariser's mean, where the error of nearest rounding counts as 1
RATE = 0.01
PLACES = 256  # a step
HELD = 8  # each so-manieth place is not learnt from, but judges


@dataclass(frozen=True)
class Places:
    """What a layer reads and should give at M places of the results of one call.

    Attributes:
        x: [M, R, S, C] its input as 8 bits hold it, less the mean that the bias correction accounts for.
        target: [M, 1, 1, K] what it gives in float32.
        residual: [M, 1, 1, K] what is added to it; None for nothing.
        offset: [K] what is added at all places: bias and mean.
        groups: of the convolution.
        activation: its name, "none" for none.
        slope: of a leaky ReLU.
        residual_last: whether the residual is added behind the activation.
    """

    x: np.ndarray
    target: np.ndarray
    residual: np.ndarray | None
    offset: np.ndarray
    groups: int
    activation: str
    slope: float
    residual_last: bool

    def chosen(self, which: np.ndarray) -> list[Tensor]:
        """Input, target and residual at some of the places."""
        arrays = [self.x, self.target, *([] if self.residual is None else [self.residual])]
        return [from_numpy(array[which]) for array in arrays]

    def results(self, weight: Tensor, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """What the layer gives with these weights [K, R, S, C/groups]."""
        y = ops.conv2d(x, weight, groups=self.groups, algorithm="direct") + from_numpy(self.offset)
        if residual is not None and not self.residual_last:
            y = y + residual
        if self.activation != "none":
            slope = {"slope": self.slope} if self.activation == "leaky_relu" else {}
            y = call_by_name(self.activation, [y], **slope)
        return y + residual if residual is not None and self.residual_last else y


@dataclass(frozen=True)
class Learnt:
    """Whole numbers like the weights, and the mean squared errors of both roundings at places not learnt from.

    With fewer than two places there is nothing to learn from and judge by: errors are 0 then.
    """

    q: np.ndarray
    nearest: float
    error: float


def learn(
    weight: np.ndarray, scale: np.ndarray, calls: Sequence[Places], *, steps: int, seed: int, more: Callable[[], bool]
) -> Learnt | None:
    """Learns how to round a layer's weights; None where `more` ended it.

    Args:
        weight: [K, R, S, C/groups] float32.
        scale: [K] what a step stands for; 0 where all weights are 0.
        calls: what it is learnt from, of each call of the layer: seven of eight places, the others judge.
        steps: updates.
        seed: of the places that each update looks at.
        more: asked before each update; where it says no, learning ends.
    """
    size = np.where(scale > 0, scale, np.float32(1))[:, None, None, None]
    stepped = weight / size
    nearest = np.clip(np.rint(stepped), -SYMMETRIC, SYMMETRIC).astype(np.int8)
    count = sum(len(places.x) for places in calls)
    if count < 2:
        return Learnt(nearest, 0.0, 0.0)
    held = np.arange(count) % HELD == min(HELD, count) - 1
    ends = np.cumsum([len(places.x) for places in calls])
    parts = np.split(held, ends[:-1])
    judged = [places.chosen(np.flatnonzero(part)) for places, part in zip(calls, parts, strict=True)]

    def error(q: np.ndarray) -> float:
        rounded = from_numpy((q * size).astype(np.float32))
        squares = []
        for places, (x, target, *residual) in zip(calls, judged, strict=True):
            if target.size:
                y = places.results(rounded, x, *residual)
                squares.append((y.numpy().astype(np.float64) - target.numpy()).ravel() ** 2)
        return float(np.mean(np.concatenate(squares)))

    before = error(nearest)
    if not 0 < before < float(np.finfo(np.float32).max):  # exact; or float32 does not hold the error, and cannot learn
        return Learnt(nearest, before, before)
    learning = [(places, np.flatnonzero(~part)) for places, part in zip(calls, parts, strict=True) if not part.all()]
    found = _found(stepped, size, learning, before, steps, seed, more)
    return None if found is None else Learnt(found, before, error(found))


def _found(
    stepped: np.ndarray,
    size: np.ndarray,
    calls: Sequence[tuple[Places, np.ndarray]],
    unit: float,
    steps: int,
    seed: int,
    more: Callable[[], bool],
) -> np.ndarray | None:
    low, high = STRETCH
    floor = np.floor(stepped)
    inside = (stepped - floor - low) / (high - low)
    v = parameter(np.log(inside / (1 - inside)).astype(np.float32))
    adam = Adam([("v", v)], lr=RATE)
    below, steps_of = from_numpy(floor.astype(np.float32)), from_numpy(size.astype(np.float32))
    limit, count = float(SYMMETRIC), sum(len(which) for _, which in calls)

    def part() -> Tensor:
        return ops.clip(ops.sigmoid(v) * (high - low) + low, min=0.0, max=1.0)

    @program
    def step(given: list[list[Tensor]], beta: Tensor, share: Tensor) -> None:
        h = part()
        rounded = ops.clip(below + h, min=-limit, max=limit) * steps_of
        loss = share * ops.mean(1.0 - ops.abs(h * 2.0 - 1.0) ** beta)
        for (places, which), (x, target, *residual) in zip(calls, given, strict=True):
            error = ops.mean((places.results(rounded, x, *residual) - target) ** 2.0)
            loss = error * (len(which) / count) / unit + loss
        adam.zero_grad()
        loss.backward()
        adam.step()

    random = np.random.default_rng(seed)
    drawn = [max(1, round(PLACES * len(which) / count)) for _, which in calls]
    for number in range(steps):
        if not more():
            return None
        done = (number / steps - WARM_UP) / (1 - WARM_UP)
        beta = BETAS[1] + (BETAS[0] - BETAS[1]) * (1 - max(done, 0))
        share = SHARE if done >= 0 else 0.0
        given = [
            places.chosen(which[random.integers(0, len(which), n)])
            for (places, which), n in zip(calls, drawn, strict=True)
        ]
        with recording(True):  # whatever the caller does with gradients
            step(given, *(from_numpy(np.array(value, np.float32)) for value in (beta, share)))
    return np.asarray(np.clip(floor + (part().numpy() >= 0.5), -limit, limit), np.int8)
