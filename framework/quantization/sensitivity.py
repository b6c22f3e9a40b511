"""Sensitivity: what each layer of a Program loses when it alone is computed in 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.fusion import finish_convolutions
from framework.quantization.calibration import Batch, in_order
from framework.quantization.images import separate
from framework.quantization.quantize import Keep, expect_fits, is_named, quantize


@dataclass(frozen=True)
class LayerLoss:
    """What one layer loses.

    Attributes:
        layer: its operator and place in the network, such as `conv2d 12`.
        name: of its weights, for `keep`; "" where they have none.
        weights: how many.
        error: of the network's last layers, in the root mean square, as a share of their values'.
        sixteen: the same where the layer's input has 16 bits; None where that was not asked for or has no such form.
        speedup: float32's time / that with an input of 16 bits, see `speedups`; None where it was not measured.
    """

    layer: str
    name: str
    weights: int
    error: float
    sixteen: float | None = None
    speedup: float | None = None


def sensitivity(
    program: Program,
    calibration: Sequence[Batch],
    *,
    method: str = "abs_max",
    keep: Sequence[str] = (),
    smallest: int = 4096,
    sixteen: bool = False,
) -> list[LayerLoss]:
    """What each product and convolution alone loses by mode "static" on `calibration`, most first.

    The error is that of the last layers' results, before boxes are chosen or classes are named. It takes a calibration
    and a run over all batches for each layer.

    Args:
        program, calibration, method, smallest: as of `quantize`.
        keep: patterns of names of weights, which are left out.
        sixteen: measure each with an input of 16 bits too, which takes twice as long.

    Raises AttributeValueError for a pattern that fits nothing, and what `quantize` does.
    """
    expect_fits(program, keep)
    cut = _ending_in_layers(program)
    wanted = _results(cut, calibration)
    layers: dict[int, list[Operation]] = {}  # by the data of their weights, which may be shared
    for op in cut.block:
        if _is_layer(cut, op) and not is_named(keep, op):
            layers.setdefault(_weights_of(op), []).append(op)
    found = []
    for i, (data, ops) in enumerate(layers.items()):

        def others(op: Operation, data: int = data) -> bool:
            return _weights_of(op) != data

        def error(wide: bool, others: Keep = others) -> float | None:
            small = quantize(
                cut,
                mode="static",
                calibration=calibration,
                method=method,
                keep=others,
                sixteen=(lambda op: True) if wide else (),
                smallest=smallest,
                tables=False,
            )
            if wide and not explain(small)["quantize"].matched:
                return None
            return _error(_results(small, calibration), wanted)

        weight, eight = ops[0].inputs[1], error(False)
        assert weight is not None and eight is not None
        row = LayerLoss(f"{ops[0].name} {i}", weight.name or "", int(np.prod(weight.shape)), eight)
        found.append(replace(row, sixteen=error(True)) if sixteen else row)
    return sorted(found, key=lambda row: -row.error)


def _error(results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The root mean square of the differences, as a share of the wanted values'."""
    pairs = list(zip(results, wanted, strict=True))
    noise = sum(float(np.sum((a - b) ** 2, dtype=np.float64)) for a, b in pairs)
    power = sum(float(np.sum(b**2, dtype=np.float64)) for _, b in pairs)
    return float((noise / max(power, 1e-30)) ** 0.5)


def _is_layer(program: Program, op: Operation) -> bool:
    return op.name in ("matmul", "conv2d") and op.inputs[1] in program.constants


def _weights_of(op: Operation) -> int:
    """Which data an operation's weights are: Programs that were cloned share it."""
    weight = op.inputs[0 if op.name == "embedding" else 1]
    program = weight.program if weight is not None else None
    return id(program.constants.get(weight)) if isinstance(program, Program) and weight is not None else 0


def _ending_in_layers(program: Program) -> Program:
    """A copy whose results are those of layers that no other layer reads from, of the whole Program if it has none."""
    cut = program.clone()
    separate(cut)
    finish_convolutions(cut)
    read: set[Value] = set()  # values that lead to a layer
    ends: list[Value] = []
    for op in reversed(cut.block.ops):
        leads = any(v in read for v in op.outputs)
        if _is_layer(cut, op) and not leads:
            ends.append(op.outputs[0])
        if leads or _is_layer(cut, op):
            read.update(v for v in op.inputs if v is not None)
    cut.results = ends[::-1] or cut.results
    passes.run(cut, ["drop_dead_code"])
    return cut


def _results(program: Program, batches: Sequence[Batch]) -> list[np.ndarray]:
    compiled = CompiledProgram(program)
    return [t.numpy() for number, b in enumerate(batches) for t in compiled.run(in_order(program, b, number))]
