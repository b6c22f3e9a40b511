"""Speed: how fast a Program and its layers are in 8 and 16 bits beside float32, measured here."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.fusion import finish_convolutions
from framework.profiler import Profile
from framework.quantization.calibration import Batch, in_order
from framework.quantization.images import separate
from framework.quantization.quantize import quantize
from framework.tensors import Tensor

ROUNDS = 7  # runs of all Programs in turns; of each operation's times the median counts
GAIN = 0.02  # share of the time that float32 layers must save: less is noise
_SEARCHES = 4  # choices of float32 layers that are timed at most
_FLOAT, _SMALL = ("conv2d", "matmul", "separable_conv2d"), ("quantized_conv2d", "quantized_matmul")
_CHANGES = ("quantize_linear", "dequantize_linear")
_ENDS = (".turned.int8", ".int8")  # of the names of rounded weights


@dataclass(frozen=True)
class Speed:
    """How fast a Program in 8 bits is on this machine beside the same in float32; times of operators alone.

    Attributes:
        speedup: float32's time / that in 8 bits.
        slower: of the layers that 8 bits make slower float32's time / that in 8 bits, by their weights' name; those
            that lose most time first. Roundings count for the layers that need them.
        keep: names of the layers that stay in float32 where the whole is fastest; none where that saves less than 2 %.
        best: `speedup` with those in float32.
    """

    speedup: float
    slower: Mapping[str, float]
    keep: tuple[str, ...]
    best: float


def measure_speed(
    program: Program,
    example: Batch,
    *,
    mode: str = "static",
    keep: Sequence[str] = (),
    sixteen: Sequence[str] = (),
    smallest: int = 4096,
    tables: bool = True,
    seconds: float = 30.0,
) -> Speed:
    """Times a Program in 8 bits and in float32 on one input, and finds which layers should stay in float32 to be fast.

    A float32 layer among others in 8 bits needs its input and its result in float32, which takes time too. So the
    first choice of float32 layers is that of the least time where changing over takes a while in proportion to the
    image; what is chosen is timed, layers that take more so go back to 8 bits, until none does, and the choice of the
    least time stays.

    Args:
        program, mode, keep, sixteen, smallest, tables: as of `quantize`.
        example: the Program's inputs, in order or by name; also what is calibrated on, since ranges cost no time.
        seconds: after these no further round begins.

    Raises:
        AttributeValueError, ShapeError, DTypeError, NumericsError: as `quantize`.
    """
    inputs, end = in_order(program, example, 0), time.monotonic() + seconds

    def small(more: Iterable[str]) -> _Timed:
        how: dict[str, Any] = {"mode": mode, "calibration": [example] if mode == "static" else ()}
        kept = [*keep, *sorted(more)]
        return _Timed(quantize(program, keep=kept, sixteen=sixteen, smallest=smallest, tables=tables, **how))

    layers, whole, eight = _Timed(_in_layers(program)), _Timed(program.clone()), small(())
    _in_turns([layers, whole, eight], inputs, end)
    weights = layers.by_layer()
    before, after = whole.by_layer(weights), eight.by_layer(weights)
    lost = {name: after[name] - before[name] for name in eight.small if after[name] > before[name] > 0}
    slower = sorted(lost, key=lambda name: -lost[name])
    shares = {frozenset[str](): 1.0}  # of the time of all in 8 bits
    kept = frozenset(_cheapest(before, eight.by_layer(weights, changes=False), eight.changes()))
    while kept not in shares and len(shares) <= _SEARCHES and time.monotonic() < end:
        again, mixed = small(()), small(kept)
        _in_turns([again, mixed], inputs, end)
        shares[kept] = mixed.total() / again.total()
        there, here = again.by_layer(weights), mixed.by_layer(weights)
        kept = frozenset(name for name in kept if here[name] < there[name])
    best = min(shares, key=lambda names: shares[names])
    best = best if shares[best] <= 1 - GAIN else frozenset()
    speedup = whole.total() / eight.total()
    ratios = {name: before[name] / after[name] for name in slower}
    return Speed(speedup, ratios, tuple(name for name in before if name in best), speedup / shares[best])


def _cheapest(whole: Mapping[str, float], small: Mapping[str, float], changes: Mapping[str, float]) -> tuple[str, ...]:
    """Of a chain of layers those in float32 for the least time: seconds in float32, in 8 bits, and of changing over.

    Args:
        whole, small: of each layer; those that `changes` lacks have no other form.
        changes: what it takes to bring a layer's input from one form to the other, in the network's order.
    """
    floats: tuple[float, tuple[str, ...]] = (0.0, ())
    eights: tuple[float, tuple[str, ...]] = (np.inf, ())
    for name, change in changes.items():
        still, over = (min(a, (b[0] + change, b[1])) for a, b in ((floats, eights), (eights, floats)))
        floats, eights = (still[0] + whole[name], (*still[1], name)), (over[0] + small[name], over[1])
    return min(floats, eights)[1]


def speedups(program: Program, calibration: Sequence[Batch], *, smallest: int = 4096) -> dict[str, float]:
    """Float32's time / that with an input of 16 bits, of each layer that has both, by its weights' name.

    The rounding of the input is part of the time. Layers whose weights have no name are left out.

    Args:
        program, smallest: as of `quantize`.
        calibration: batches of the Program's inputs; the first is what runs.
    """
    first = calibration[:1]
    wide = quantize(program, mode="static", calibration=first, sixteen=lambda op: True, smallest=smallest, tables=False)
    runs = [_Timed(_in_layers(program)), _Timed(wide)]
    _in_turns(runs, in_order(program, first[0], 0))
    before, after = (run.by_layer() for run in runs)
    return {name: before[name] / max(after[name], 1e-9) for name in before if name in runs[1].small}


def _in_layers(program: Program) -> Program:
    """A copy in which each layer is an operation of its own, as 8 bits have them."""
    whole = program.clone()
    separate(whole)
    finish_convolutions(whole)
    return whole


def _in_turns(runs: Sequence[_Timed], inputs: Sequence[Tensor], end: float = np.inf) -> None:
    """All rounds, of which those behind the first begin before `end`."""
    for run in runs:
        run.compiled.run(inputs)  # packs weights
    for count in range(ROUNDS):
        if count and time.monotonic() > end:
            break
        for run in runs:
            run.round(inputs)


class _Timed:
    """A Program under the clock.

    Attributes:
        small: names of the layers in 8 or 16 bits.
    """

    def __init__(self, program: Program) -> None:
        self.compiled = CompiledProgram(program)
        ops = self.compiled.program.block.ops
        self.small = {name for op in ops if op.name in _SMALL for name in _names(op)}
        self._charged = _charged(ops)
        self._ops = ops
        self._seconds: list[list[float]] = []
        self._sizes = [0] * len(ops)  # elements of the first input

    def round(self, inputs: Sequence[Tensor]) -> None:
        """Runs once and notes what each operation takes; those in control flow count for the one around them."""
        with Profile() as profile:
            self.compiled.run(inputs)
        inside = set(profile.blocks())
        found = [0.0] * len(self._ops)
        for call in profile.calls:
            if call.program not in inside:
                found[call.instruction] += call.seconds
                self._sizes[call.instruction] = int(np.prod(call.inputs[0][0])) if call.inputs and call.inputs[0] else 0
        self._seconds.append(found)

    def total(self) -> float:
        """Seconds of all operations."""
        return max(float(np.median(self._seconds, axis=0).sum()), 1e-9)

    def by_layer(self, weights: Mapping[str, float] | None = None, *, changes: bool = True) -> dict[str, float]:
        """Seconds of each layer, with `changes` between 8 bits and float32 or without.

        What counts for several layers is shared out by `weights`, else alike.
        """
        found: dict[str, float] = defaultdict(float)
        for op, names, seconds in zip(self._ops, self._charged, np.median(self._seconds, axis=0), strict=True):
            parts = [max((weights or {}).get(name, 1.0), 1e-9) for name in names]
            for name, part in zip(names, parts, strict=True):
                found[name] += float(seconds) * part / sum(parts) if changes or op.name not in _CHANGES else 0.0
        return found

    def changes(self) -> dict[str, float]:
        """What rounding the input of each layer in 8 bits to them would take, as long as other roundings here."""
        seconds = np.median(self._seconds, axis=0)
        rounded = [i for i, op in enumerate(self._ops) if op.name == "quantize_linear"]
        rate = sum(seconds[i] for i in rounded) / max(1, sum(self._sizes[i] for i in rounded))
        found: dict[str, float] = {}
        for op, size in zip(self._ops, self._sizes, strict=True):
            for name in _names(op) if op.name in _SMALL else ():
                found.setdefault(name, float(rate) * size)
        return found


def _charged(ops: Sequence[Operation]) -> list[list[str]]:
    """For which layers each operation's time counts.

    Making float32 of 8 bits counts for the float32 layers that read it; rounding for the float32 layer that it follows,
    else for the layers that read the result.
    """
    made: dict[Value, list[str]] = {}
    read: dict[tuple[Value, bool], list[str]] = defaultdict(list)
    for op in ops:
        names, is_float = _names(op), op.name in _FLOAT
        made |= {v: names for v in op.outputs if is_float}
        for v in op.inputs:
            if v is not None and names:
                read[v, is_float] += [name for name in names if name not in read[v, is_float]]
    found = []
    for op in ops:
        if op.name == "quantize_linear" and op.inputs[0] is not None:
            found.append(made.get(op.inputs[0]) or read[op.outputs[0], False])
        else:
            found.append(read[op.outputs[0], True] if op.name == "dequantize_linear" else _names(op))
    return found


def _names(op: Operation) -> list[str]:
    """Of a layer's weights, as they were called in float32; none of other operations."""
    if op.name not in _FLOAT + _SMALL:
        return []
    weights = [op.input("depth_weight"), op.input("weight")] if op.name == "separable_conv2d" else [op.inputs[1]]
    named = [v.name for v in weights if v is not None and v.name]
    return [next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name) for name in named]
