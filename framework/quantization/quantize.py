"""quantize: a Program whose products with constant weights are computed in 8 bits, and what was not and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from framework.errors import AttributeValueError
from framework.graph import passes
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import PassReport, name_of, place_of
from framework.ops import dispatch
from framework.quantization.calibration import Batch, observe
from framework.quantization.observers import METHODS, range_of
from framework.tensor import Tensor, from_numpy

MODES = ("dynamic", "static")
SMALLEST_RANGE = 1e-30  # of an input: below, its steps leave the range of float32

Keep = Sequence[str] | Callable[[Operation], bool]


def quantize(
    program: Program,
    *,
    mode: str = "dynamic",
    calibration: Iterable[Batch] = (),
    method: str = "abs_max",
    keep: Keep = (),
    smallest: int = 4096,
) -> Program:
    """A copy of a Program that computes its matrix products in 8 bits; see docs/quantization.md.

    A `matmul` whose second factor is a constant matrix becomes a `quantized_matmul`: the weights are rounded to 8 bits,
    each column of the result with a scale of its own, and the float weights are dropped.
    `explain()["quantize"]` of the result says which products these are, and of the others why not.

    Args:
        program: forward only, with constant weights: made with `INFERENCE_PASSES`, or `EXPORT_PASSES` for ONNX.
        mode: "dynamic" finds the scale of each row of activations while the model runs, "static" uses one for all rows
            of an input, which calibration finds. Products inside of control flow are dynamic in either mode.
        calibration: batches of the Program's inputs, in order or by name, for mode "static".
        method: how calibration makes a range of what it sees: "abs_max", "average" (of the batches' maxima),
            "percentile" (99.99 %), "mse" or "kl".
        keep: patterns, such as "*.pooler.*", of names of weights whose products stay in float32; or a function that
            says so of a `matmul`.
        smallest: products with fewer weights than this stay in float32.

    Raises:
        AttributeValueError: an argument is outside of its range, or the Program updates states.
        ShapeError, DTypeError, NumericsError: a batch does not fit the Program, or leads to values that are not finite.
    """
    _check(program, mode, method)
    new = program.clone()
    new.reports = list(program.reports)
    rewrite = _Rewrite(keep, smallest, dynamic="dynamic" if mode == "dynamic" else "dynamic, being inside control flow")
    chosen = [i for i, op in enumerate(new.block) if rewrite.takes(new, op)]
    limits: dict[int, float] = {}
    if mode == "static" and chosen:
        seen = observe(new, chosen, calibration)
        limits = {i: range_of(observer, method) for i, observer in zip(chosen, seen, strict=True)}
    rewrite.run(new, chosen, limits, f"static ({method})" if mode == "static" else "")
    new.reports.append(rewrite.report)
    passes.run(new, ["drop_dead_code"])
    new.reports.pop()  # of the clearing up: of no interest
    return new


def _check(program: Program, mode: str, method: str) -> None:
    if mode not in MODES:
        raise AttributeValueError(f"quantize: mode is '{mode}'; takes {', '.join(map(repr, MODES))}")
    if method not in METHODS:
        raise AttributeValueError(f"quantize: method is '{method}'; takes {', '.join(map(repr, METHODS))}")
    if program.updates:
        raise AttributeValueError(
            f"quantize: the Program updates {len(program.updates)} states, so it trains; give one that only runs "
            "forward"
        )


class _Rewrite:
    """Chooses products and rewrites them, in a Program and its blocks; `report` says what and why not."""

    def __init__(self, keep: Keep, smallest: int, dynamic: str) -> None:
        self.report = PassReport("quantize")
        self._keep, self._smallest, self._dynamic = keep, smallest, dynamic

    def takes(self, program: Program, op: Operation) -> bool:
        """Whether an operation is a product to be computed in 8 bits; notes why not where it nearly is."""
        why = self._why_not(program, op)
        if why:
            self.report.missed.append(f"{_label(op)} stays in float32: {why}")
        return why == ""

    def _why_not(self, program: Program, op: Operation) -> str | None:
        """Empty where it is one; None where nothing is to be said."""
        if op.name != "matmul":
            weights = [v for v in op.inputs if v in program.constants and len(v.shape) > 1]
            has_products = op.info.family in ("conv", "recurrent") and weights
            return f"{op.name} has no 8-bit form, only matmul has" if has_products else None
        a, b = op.inputs[:2]
        assert a is not None and b is not None
        if b not in program.constants:
            return "its second factor is computed, not a constant" if b.kind != "state" else f"{b} is not frozen"
        if len(b.shape) != 2 or op.attr("transpose_a"):
            return "it is not rows times one matrix"
        if a.dtype != "float32":
            return f"it is {a.dtype}"
        if self._is_kept(op, b):
            return "it is to be kept"
        if (count := int(np.prod(b.shape))) < self._smallest:
            return f"it has {count} weights only (smallest={self._smallest})"
        if not np.isfinite(_array(program, b)).all():
            return "its weights are not all finite"
        return ""

    def _is_kept(self, op: Operation, weight: Value) -> bool:
        if callable(self._keep):
            return bool(self._keep(op))
        return weight.name is not None and any(fnmatchcase(weight.name, pattern) for pattern in self._keep)

    def run(self, program: Program, chosen: Sequence[int], limits: dict[int, float], static: str) -> None:
        """Rewrites the chosen operations; `limits` are the ranges of their inputs, for those that are static."""
        weights: dict[tuple[Value | None, bool], tuple[Value, Value]] = {}
        for i in chosen:
            op = program.block.ops[i]
            limit = limits.get(i)
            if limit is not None and limit < SMALLEST_RANGE:
                self.report.missed.append(f"{_label(op)} stays in float32: its input was 0 all through calibration")
                continue
            key = (op.inputs[1], bool(op.attr("transpose_b")))
            if key not in weights:
                weights[key] = _rounded_weights(program, op)
            program.block.ops[i] = _quantized(program, op, *weights[key], limit)
            how = self._dynamic if limit is None else f"{static}, range {limit:.4g}"
            self.report.match(f"{_label(op)}, {weights[key][0].type_text}: {how}")
        for op in program.block:
            for block in op.blocks:
                self._run_block(block, op)

    def _run_block(self, block: Program, around: Operation) -> None:
        inner = _Rewrite(self._keep, self._smallest, self._dynamic)
        inner.run(block, [i for i, op in enumerate(block.block) if inner.takes(block, op)], {}, "")
        passes.run(block, ["drop_dead_code"])
        block.reports.clear()
        self.report.matched += [f"in {name_of(around)}: {line}" for line in inner.report.matched]
        self.report.missed += [f"in {name_of(around)}: {line}" for line in inner.report.missed]


def _label(op: Operation) -> str:
    """Such as `matmul %5 'layers.0.out.weight' (linear.py:45)`."""
    names = [v.name for v in op.inputs[1:2] if v is not None and v.name]
    return name_of(op) + (f" {names[0]!r}" if names else "") + place_of(op)


def _array(program: Program, v: Value) -> np.ndarray:
    return Tensor(program.constants[v]).numpy()


def _constant(program: Program, array: np.ndarray, name: str | None) -> Value:
    value = program.add_constant(from_numpy(array).array())
    value.name = name
    return value


def _rounded_weights(program: Program, op: Operation) -> tuple[Value, Value]:
    """int8 [K, C] and the float32 scales [K] of the weights of a product."""
    weight = op.inputs[1]
    assert weight is not None
    w = _array(program, weight)
    w = w if op.attr("transpose_b") else w.T
    largest = np.abs(w).max(axis=1, initial=0).astype(np.float32)
    scale = largest / np.float32(127)
    steps = np.where(scale > 0, scale, np.float32(1))
    q = np.clip(np.rint(w / steps[:, None]), -127, 127).astype(np.int8)
    turned = "" if op.attr("transpose_b") else ".turned"
    named = [None if weight.name is None else f"{weight.name}{turned}.{end}" for end in ("int8", "scale")]
    return _constant(program, np.ascontiguousarray(q), named[0]), _constant(program, scale, named[1])


def _quantized(program: Program, op: Operation, weight: Value, scale: Value, limit: float | None) -> Operation:
    x_scale = None if limit is None else _constant(program, np.float32(limit / 127) * np.ones((), np.float32), None)
    info = dispatch.OPS["quantized_matmul"]
    attrs = info.attr_values({"activation": op.attr("activation"), "slope": op.attr("slope")})
    inputs = [op.inputs[0], weight, scale, op.input("bias"), op.input("residual"), x_scale]
    return Operation(info, inputs, op.outputs, attrs, op.where)
