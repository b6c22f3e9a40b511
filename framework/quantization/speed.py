"""Speed: how much faster each layer of a Program is with an input of 16 bits than in float32, measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program
from framework.graph.passes.fusion import finish_convolutions
from framework.profiler import Profile
from framework.quantization.calibration import Batch, in_order
from framework.quantization.images import separate
from framework.quantization.quantize import quantize
from framework.tensors import Tensor

ROUNDS = 7  # runs of both Programs in turns; of each layer's times the median counts
_FLOAT, _WIDE = ("conv2d", "matmul"), ("quantized_conv2d", "quantized_matmul")
_ENDS = (".turned.int8", ".int8")  # of the names of rounded weights


def speedups(program: Program, calibration: Sequence[Batch], *, smallest: int = 4096) -> dict[str, float]:
    """Float32's time / that with an input of 16 bits, of each layer that has both, by its weights' name.

    The rounding of the input is part of the time. Layers whose weights have no name are left out.

    Args:
        program, smallest: as of `quantize`.
        calibration: batches of the Program's inputs; the first is what runs.
    """
    first = calibration[:1]
    whole = program.clone()
    separate(whole)
    finish_convolutions(whole)
    wide = quantize(program, mode="static", calibration=first, sixteen=lambda op: True, smallest=smallest, tables=False)
    inputs = in_order(program, first[0], 0)
    runs = [(CompiledProgram(whole), _FLOAT), (CompiledProgram(wide), _WIDE)]
    for compiled, _ in runs:
        compiled.run(inputs)  # packs weights
    times: list[dict[str, list[float]]] = [defaultdict(list) for _ in runs]
    for _ in range(ROUNDS):
        for (compiled, kinds), found in zip(runs, times, strict=True):
            for name, seconds in _seconds(compiled, kinds, inputs).items():
                found[name].append(seconds)
    before, after = ({name: float(np.median(t)) for name, t in found.items()} for found in times)
    return {name: before[name] / max(after[name], 1e-9) for name in before if name in after}


def _seconds(compiled: CompiledProgram, kinds: Sequence[str], inputs: Sequence[Tensor]) -> dict[str, float]:
    """What the layers of these operators take in one run, by their weights' name."""
    with Profile() as profile:
        compiled.run(inputs)
    found: dict[str, float] = defaultdict(float)
    inside = set(profile.blocks())
    for call in profile.calls:
        if call.operator not in kinds or call.program in inside:
            continue
        weight = compiled.program.block.ops[call.instruction].inputs[1]
        if name := (weight.name or "") if weight is not None else "":
            found[next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)] += call.seconds
    return found
