"""AdaRound over a Program: layer by layer, each learns from what the layers before it give once they are rounded.

That is asymmetric reconstruction (Nagel et al. 2020, section 3.5): a layer reads the 8-bit network so far, and should
give what the float network gives. A layer that is called again learns from all its calls at once, when its last one's
turn has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import name_of, place_of
from framework.graph.reports import PassReport
from framework.quantization.calibration import Batch, giving, in_order
from framework.quantization.rounding import Places, learn
from framework.quantization.weights import array_of, by_channel, rounded_rows

_FEWEST = 64  # places of a layer


@dataclass(frozen=True)
class AdaRound:
    """How rounding is learnt, and what it may cost.

    Attributes:
        steps: updates of each layer.
        seconds: of all layers together; those that are left then are rounded to the nearest.
        megabytes: of what a layer reads and gives, kept in memory; fewer places are looked at to stay below.
        places: of a layer's results that are looked at, at most, in all its calls.
        seed: which places these are.
        say: takes a line about each layer.
    """

    steps: int = 1000
    seconds: float = 1800.0
    megabytes: int = 512
    places: int = 8192
    seed: int = 0
    say: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("seconds", 0), ("megabytes", 1), ("places", _FEWEST)):
            if not (value := getattr(self, name)) >= least:
                raise AttributeValueError(f"AdaRound: {name} is {value:g}; it must be {least} or more")


@dataclass(frozen=True, eq=False)
class Written:
    """A layer in 8 bits, whose weights can still be rounded otherwise.

    Attributes:
        whole: the layer in float32: a conv2d, or a matmul with one matrix of constants.
        small: the one that stands in its place.
        means: [C] what the bias correction takes its input's mean for; None without.
        put: takes other whole numbers, [K, R, S, C/groups] or [K, C].
    """

    whole: Operation
    small: Operation
    means: np.ndarray | None
    put: Callable[[np.ndarray], None]


def reconstruct(
    whole: Program,
    small: Program,
    same: Mapping[Value, Value],
    layers: Sequence[Written],
    batches: Sequence[Batch],
    how: AdaRound,
) -> PassReport:
    """Learns the rounding of layers of `small`, in the Program's order, and says what came of each.

    Args:
        whole: the network in float32.
        small: the same in 8 bits, which still has the layers' float weights among its constants.
        same: the values of `whole` by those that the layers' `whole` gives.
        layers: those that learn.
        batches: inputs of both.
        how: what it may cost.
    """
    report = PassReport("adaround")
    end = time.monotonic() + how.seconds
    every = _calls(small, layers)
    if not layers:
        report.missed.append("no layer is in 8 bits, so none learns its rounding")
    for number, calls in enumerate(every):
        targets = [same[layer.whole.outputs[0]] for layer in calls]
        is_better, line = _learn(whole, small, calls, targets, batches, how, number, lambda: time.monotonic() < end)
        (report.matched if is_better else report.missed).append(line)
        if how.say is not None:
            how.say(f"AdaRound, layer {number + 1} of {len(every)}: {line}")
    return report


def _calls(small: Program, layers: Sequence[Written]) -> list[list[Written]]:
    """The calls of each layer: those with the same weights, read the same way. In the order of the last ones."""
    order = {op: i for i, op in enumerate(small.block)}
    found: dict[tuple[Value | None, bool], list[Written]] = {}
    for layer in sorted(layers, key=lambda layer: order[layer.small]):
        op = layer.whole
        turned = op.name == "matmul" and bool(op.attr("transpose_b"))
        found.setdefault((op.inputs[1], turned), []).append(layer)
    return sorted(found.values(), key=lambda calls: order[calls[-1].small])


def _learn(
    whole: Program,
    small: Program,
    calls: Sequence[Written],
    targets: Sequence[Value],
    batches: Sequence[Batch],
    how: AdaRound,
    number: int,
    more: Callable[[], bool],
) -> tuple[bool, str]:
    op, biases = calls[0].whole, [layer.whole.input("bias") for layer in calls]
    assert op.inputs[1] is not None
    name = name_of(op) + (f" {op.inputs[1].name!r}" if op.inputs[1].name else "") + place_of(op)
    name += f" in {len(calls)} calls" if len(calls) > 1 else ""
    stays = f"{name} stays at nearest rounding"
    late = f"{stays}: its time was up ({how.seconds:g} seconds for all layers)"
    if not more():
        return False, late
    if any(bias is not None and bias not in small.constants for bias in biases):
        return False, f"{stays}: its bias is computed, not a constant"
    weight = array_of(small, op.inputs[1])
    if op.name == "matmul":
        weight = (weight if op.attr("transpose_b") else weight.T)[:, None, None, :]
    weight = np.ascontiguousarray(weight)
    _, scale = rounded_rows(weight)
    random = np.random.default_rng([how.seed, number])
    places = [
        _Gathering(layer, small, weight, how, random, len(calls)).run(whole, target, batches)
        for layer, target in zip(calls, targets, strict=True)
    ]
    learnt = learn(weight, scale, places, steps=how.steps, seed=how.seed, more=more)
    if learnt is None:
        return False, late
    given = np.concatenate([each.target.ravel() for each in places])
    power = max(float(np.mean(given.astype(np.float64) ** 2)), 1e-30)
    nearest, error = ((e / power) ** 0.5 for e in (learnt.nearest, learnt.error))
    if not learnt.error < learnt.nearest:
        return False, f"{stays}, which is no worse: an error of {nearest:.3%} beside {error:.3%}"
    for layer in calls:
        layer.put(learnt.q if op.name == "conv2d" else learnt.q[:, 0, 0, :])
    return True, f"{name}: an error of {error:.3%} of what it gives, {nearest:.3%} by nearest rounding"


class _Gathering:
    """Collects what one call of a layer reads and should give."""

    def __init__(
        self,
        layer: Written,
        small: Program,
        weight: np.ndarray,
        how: AdaRound,
        random: np.random.Generator,
        calls: int,
    ) -> None:
        self._layer, self._small, self._weight, self._random = layer, small, weight, random
        self._groups = int(layer.whole.attr("groups")) if layer.whole.name == "conv2d" else 1
        bytes_ = 4 * (weight[0].size * self._groups + 2 * len(weight))
        self._places = max(min(how.places, how.megabytes * (1 << 20) // bytes_) // calls, _FEWEST)

    def run(self, whole: Program, target: Value, batches: Sequence[Batch]) -> Places:
        """What the layer reads in 8 bits and gives in float32 (`target`), at places spread over all batches."""
        op, residual = self._layer.whole, self._layer.small.input("residual")
        read = [v for v in (self._layer.small.inputs[0], residual) if v is not None]
        first, second = giving(self._small, read), giving(whole, [target])
        count = self._places // len(batches) + 1
        found: list[list[np.ndarray]] = []
        for number, batch in enumerate(batches):
            tensors = in_order(whole, batch, number)
            given = [t.numpy() for t in first.run(tensors)]
            wanted = second.run(tensors)[0].numpy()
            found.append(self._picked(given[0], wanted, given[1] if residual is not None else None, count))
        x, y, *rest = (np.concatenate(parts) for parts in zip(*found, strict=True))
        means = self._means()
        bias = op.input("bias")
        offset = np.zeros(len(self._weight)) if bias is None else array_of(self._small, bias).astype(np.float64)
        offset = offset + (self._weight * by_channel(means, self._weight, self._groups)).sum(axis=(1, 2, 3))
        return Places(
            np.ascontiguousarray(x - means.astype(np.float32)),
            y,
            rest[0] if rest else None,
            offset.astype(np.float32),
            self._groups,
            str(op.attr("activation")),
            float(op.attr("slope")),
            op.name == "conv2d" and bool(op.attr("residual_last")),
        )

    def _means(self) -> np.ndarray:
        means = self._layer.means
        return np.zeros(self._weight.shape[3] * self._groups) if means is None else means

    def _picked(self, x: np.ndarray, y: np.ndarray, residual: np.ndarray | None, count: int) -> list[np.ndarray]:
        new = self._layer.small
        if new.name == "quantized_matmul":
            x, y = x.reshape(-1, 1, 1, x.shape[-1]), y.reshape(-1, 1, 1, y.shape[-1])
        chosen = np.sort(self._random.permutation(y.size // y.shape[-1])[:count])
        at = np.unravel_index(chosen, y.shape[:3])
        found = [self._inputs(x, at), y[at][:, None, None, :]]
        if residual is not None:
            residual = residual.reshape(y.shape)[at][:, None, None, :]
            if residual.dtype != np.float32:
                residual = _real(residual, new.attr("residual_scale"), new.attr("residual_zero"))
            found.append(residual)
        return found

    def _inputs(self, x: np.ndarray, at: tuple[np.ndarray, ...]) -> np.ndarray:
        """[M, R, S, C] what the results at these places are made of."""
        new = self._layer.small
        if new.name == "quantized_matmul":
            scale = new.input("x_scale")
            assert scale is not None
            step = array_of(self._small, scale)
            most = new.attr("x_most")
            return np.clip(np.rint(x[at] * (1 / step)), -most, most)[:, None, None, :] * step
        n, p, q = at
        zero = new.attr("x_zero")
        border = np.atleast_1d(new.attr("padding"))
        top, bottom, left, right = border if len(border) == 4 else np.repeat(border[[0, -1]], 2)
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=zero)
        strides, dilations = (np.atleast_1d(new.attr(name))[[0, -1]] for name in ("stride", "dilation"))
        rows, columns = (
            place[:, None] * stride + np.arange(size) * dilation
            for place, stride, size, dilation in zip((p, q), strides, self._weight.shape[1:3], dilations, strict=True)
        )
        picked = x[n[:, None, None], rows[:, :, None], columns[:, None, :]]
        if x.dtype == np.float32:
            unit, most = np.float32(new.attr("x_scale")), new.attr("x_most")
            return np.asarray(np.clip(np.rint(picked / unit), -most, most) * unit)
        return _real(picked, new.attr("x_scale"), zero)


def _real(q: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)
