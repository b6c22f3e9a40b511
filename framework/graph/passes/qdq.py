"""A pass for files that hold float operations between 8-bit numbers (QDQ): they work on the whole numbers themselves.

Letters: x [N, H, W, C], weight [K, R, S, C/groups]. An 8-bit number q stands for (q - zero) * scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.fusion import finish_convolutions, is_ending
from framework.graph.passes.report import graph_pass, name_of, place_of
from framework.graph.passes.rewriter import Rewriter, shape_only
from framework.graph.passes.whole import Wholes
from framework.graph.reports import PassReport
from framework.ops import registry
from framework.tensors import from_numpy

MOST_DEPTH = 1 << 16  # products of a number in [0, 255] with one of at most 128 that 32 bits hold the sum of
_WINDOW = ("stride", "padding", "dilation", "groups", "residual_last")
_ENDING = ("activation", "slope")


@graph_pass(after=("sink_transposes",), before=("fold_constants", "fuse_bias", "fuse_activation", "fuse_chains"))
def fuse_qdq(program: Program, report: PassReport) -> None:
    """Operations between dequantize_linear and quantize_linear work on 8-bit numbers, by the steps that these have.

    conv2d and matmul with 8-bit weights and add have 8-bit forms, which may differ by one step from the float ones;
    what moves numbers or picks among them does so in 8 bits, which changes nothing. All else stays float32.
    """
    if any(op.name == "dequantize_linear" for op in program.block):
        finish_convolutions(program, ("conv2d", "matmul"))
        _Writer(program, report).run()


@dataclass(frozen=True)
class _Held:
    """8-bit numbers that stand for a float32 value."""

    q: Value
    scale: float
    zero: int

    def attrs(self, name: str) -> dict[str, float | int]:
        """As attributes of an operator's argument."""
        return {f"{name}_scale": self.scale, f"{name}_zero": self.zero}


class _Misfit(Exception):
    """Why an operation stays in float32."""


class _Writer(Rewriter):
    """Emits the Program with 8-bit operations; what is held in 8 bits becomes float32 where it is first read so.

    Numbers that never leave the Program are uint8, which kernels compute with; int8 ones have 128 more there.
    """

    def __init__(self, program: Program, report: PassReport) -> None:
        super().__init__(program)
        self._report = report
        self._wholes = Wholes(program)
        self._held: dict[Value, _Held] = {}  # by the float32 value
        self._missing: set[Value] = set()  # float32 values that only their 8-bit form stands for so far
        self._bytes: dict[Value, tuple[Value, int]] = {}  # 8-bit value -> the same in uint8, and what it has more
        self._gone: set[Operation] = set()

    def run(self) -> None:
        for op in self.program.block.ops:
            if op not in self._gone and not self._rewritten(op):
                op.inputs = [self._plain(v, op.where) for v in op.inputs]
                self.ops.append(op)
        self.program.results = [self._known(v) for v in self.program.results]
        self.program.updates = {state: self._known(v) for state, v in self.program.updates.items()}
        self.program.block.ops = self.ops

    def _rewritten(self, op: Operation) -> bool:
        if op.name == "quantize_linear":
            return self._quantized(op)
        if op.name == "dequantize_linear":
            return self._dequantized(op)
        try:
            if op.name in ("conv2d", "matmul"):
                return self._layer(op)
            return self._sum(op) if op.name == "add" else self._moved(op)
        except _Misfit as why:
            self._report.missed.append(f"{self._label(op)} stays in float32: {why}")
            return False

    # -- to 8 bits and back
    def _float(self, v: Value | None, where: str) -> None:
        """Makes sure that a float32 value is there."""
        if v is None or v not in self._missing:
            return
        self._missing.remove(v)
        info, held = registry.OPS["dequantize_linear"], self._held[v]
        self.ops.append(Operation(info, [held.q], [v], info.attr_values(held.attrs("x")), where))

    def _hold(self, v: Value, held: _Held) -> None:
        self._held[v] = held
        self._missing.add(v)

    def _known(self, v: Value) -> Value:
        """A value as it is now: there, and rounded once only."""
        self._float(v, "")
        return self._bytes[v][0] if v in self._bytes else v

    def _plain(self, v: Value | None, where: str) -> Value | None:
        self._float(v, where)
        return None if v is None else self._known(v)

    def _is_inner(self, op: Operation) -> bool:
        """Whether the results of a quantize_linear are uint8, or only read as the fractions that they stand for."""
        y = op.outputs[0]
        readers = self.of(y)
        return y.dtype == "uint8" or (y not in self.kept and all(r.name == "dequantize_linear" for r in readers))

    def _steps(self, op: Operation) -> tuple[float, int, int]:
        """Scale and zero of a quantize_linear as uint8, and what is added to its own numbers for that."""
        more = 128 if op.attr("dtype") == "int8" else 0
        return op.attr("y_scale"), op.attr("y_zero") + more, more

    def _quantized(self, op: Operation) -> bool:
        v, y = op.inputs[0], op.outputs[0]
        assert v is not None
        if not self._is_inner(op):
            return False
        scale, zero, more = self._steps(op)
        self._bytes[y] = (self._rounded(v, scale, zero, op.where), more)
        return True

    def _rounded(self, v: Value, scale: float, zero: int, where: str) -> Value:
        """A float32 value as uint8."""
        held = self._held.get(v)
        if held is not None and (held.scale, held.zero, held.q.dtype) == (scale, zero, "uint8"):
            return held.q
        self._float(v, where)
        return self.emit("quantize_linear", [v], where, y_scale=scale, y_zero=zero, dtype="uint8")

    def _dequantized(self, op: Operation) -> bool:
        x = op.inputs[0]
        assert x is not None
        q, more = self._bytes.get(x, (x, 0))
        self._hold(op.outputs[0], _Held(q, op.attr("x_scale"), op.attr("x_zero") + more))
        return True

    def _wanted(self, v: Value) -> tuple[float, int] | None:
        """Scale and zero as uint8 of the one way in which all readers of a value round it; else None."""
        readers = self.of(v)
        if v in self.kept or any(r.name != "quantize_linear" or not self._is_inner(r) for r in readers):
            return None
        found = {self._steps(r)[:2] for r in readers}
        return found.pop() if len(found) == 1 else None

    # -- operations on 8-bit numbers
    def _layer(self, op: Operation) -> bool:
        """A convolution, or a product as a 1 x 1 convolution of images of one row."""
        x = self._held.get(_given(op, 0))
        filters = self._wholes.filters(op)
        if x is None or filters is None:
            if x is None and filters is None:
                return False  # nobody meant it to be in 8 bits
            raise _Misfit(
                "its input is not in 8 bits of one scale"
                if x is None
                else "its weights are no constants in 8 bits with a scale for each filter"
            )
        q, scale = filters
        y = op.outputs[0]
        residual = op.input("residual")
        other = None if residual is None else self._held.get(residual)
        steps = self._wanted(y) if residual is None or other is not None else None
        self._check(op, q, scale, x, steps)
        if other is not None and steps is not None:
            self._expect_steps(steps[0], other)
        axes = 4 - len(y.shape)
        inputs = [
            self._image(x.q, axes, op.where),
            self._constant(q, _given(op, 1), "int8"),
            self._constant(scale, _given(op, 1), "scale"),
            self._plain(op.input("bias"), op.where),
            residual if residual is None else self._image(other.q if other else residual, axes, op.where),
        ]
        attrs = {name: op.attr(name) for name in (_ENDING if op.name == "matmul" else _ENDING + _WINDOW)}
        attrs |= x.attrs("x") | (other.attrs("residual") if other is not None else {})
        attrs |= {"dtype": "float32"} if steps is None else {"y_scale": steps[0], "y_zero": steps[1], "dtype": "uint8"}
        new = self.emit("quantized_conv2d", inputs, op.where, **attrs)
        for _ in range(axes):
            new = self.emit("squeeze", [new], op.where, axis=0)
        if steps is None:
            self.ops[-1].outputs = [y]
        else:
            self._hold(y, _Held(new, *steps))
        self._report.match(f"{self._label(op)}: x has the scale {x.scale:.4g}, y is {attrs['dtype']}")
        return True

    def _check(
        self, op: Operation, q: np.ndarray, scale: np.ndarray, x: _Held, steps: tuple[float, int] | None
    ) -> None:
        """Refuses what `quantized_conv2d` does not take."""
        if q.min(initial=0) < -128 or q.max(initial=0) > 127:
            raise _Misfit(f"its weights less their zero points reach from {q.min()} to {q.max()}, beyond int8")
        if (depth := int(np.prod(q.shape[1:]))) > MOST_DEPTH:
            raise _Misfit(f"it adds {depth} products, and 32 bits hold the sum of {MOST_DEPTH}")
        bias = op.input("bias")
        known = np.zeros(()) if bias is None else self._wholes.array(bias)
        ends = [scale.astype(np.float64) * x.scale, *([] if known is None else [known.astype(np.float64)])]
        most = float(np.finfo(np.float32).max) * (1.0 if steps is None else steps[0])
        if not all((np.abs(v) < most).all() for v in ends):  # a NaN is not either
            raise _Misfit("its weights or biases are not finite in steps of its result")

    def _expect_steps(self, y_scale: float, *given: _Held) -> None:
        if any(held.scale / y_scale > float(np.finfo(np.float32).max) for held in given):
            raise _Misfit(f"steps of what it adds are too large beside those of its result, {y_scale:.4g}")

    def _sum(self, op: Operation) -> bool:
        """A sum of two 8-bit images, and the activation behind it."""
        a, b = (self._held.get(_given(op, i)) for i in (0, 1))
        y, end = op.outputs[0], self.only(op.outputs[0])
        info = registry.OPS["quantized_add"]
        attrs: dict[str, object] = {}
        if end is not None and is_ending(end, info):
            y = end.outputs[0]
            attrs["activation"] = end.name
            attrs |= {"slope": end.attr("slope")} if end.name == "leaky_relu" else {}
        steps = self._wanted(y)
        if steps is None or (a is None and b is None):
            return False
        if a is None or b is None:
            raise _Misfit("only one of its summands is in 8 bits")
        self._expect_steps(steps[0], a, b)
        if not self.program.equal_shapes(_given(op, 0), _given(op, 1)):
            raise _Misfit("its summands are not of one shape at all times")
        self.program.assume_equal_shapes(_given(op, 0), _given(op, 1))
        if end is not None and attrs:
            self._gone.add(end)
        attrs |= a.attrs("a") | b.attrs("b") | {"y_scale": steps[0], "y_zero": steps[1]}
        self._hold(y, _Held(self.emit("quantized_add", [a.q, b.q], op.where, **attrs), *steps))
        self._report.match(f"{self._label(op)}: a has the scale {a.scale:.4g}, b {b.scale:.4g}")
        return True

    def _moved(self, op: Operation) -> bool:
        """What moves numbers or picks among them: all that it reads and gives has one scale and zero."""
        is_padding = op.name == "pad" and op.attr("mode") == "constant" and op.attr("value") == 0.0
        if not (op.info.picks or op.info.is_view or op.name == "transpose" or is_padding):
            return False
        shapes = shape_only(op)
        data = [v for v, only in zip(op.inputs, shapes, strict=True) if v is not None and not only]
        held = [self._held.get(v) for v in data if v.dtype == "float32"]
        known = [h for h in held if h is not None]
        if not known or len(known) < len(held):
            return False
        if len({(h.scale, h.zero, h.q.dtype) for h in known}) > 1:
            steps = self._wanted(op.outputs[0]) if op.name == "concat" else None
            if steps is None:
                raise _Misfit("its inputs have several scales, and its result is not rounded")
            known = [_Held(self._rounded(v, *steps, op.where), *steps) for v in data]
            self._report.match(f"{name_of(op)}{place_of(op)}: its inputs are rounded to the scale {steps[0]:.4g}")
        eights = iter(known)
        inputs = [
            self._plain(v, op.where)
            if v is None or v.dtype != "float32"
            else (self._held[v].q if v in self._missing else v)
            if only
            else next(eights).q
            for v, only in zip(op.inputs, shapes, strict=True)
        ]
        attrs = op.with_attrs(value=float(known[0].zero)) if is_padding else op.attrs
        new = self.program.make_operation(op.info, inputs, attrs, op.where)
        self.ops.append(new)
        for v, q in zip(op.outputs, new.outputs, strict=True):
            self._hold(v, replace(known[0], q=q))
        return True

    def _label(self, op: Operation) -> str:
        """Such as `conv2d %5 'stem.weight' (model.py:31)`, by the file's name of the weights."""
        name = self._wholes.name(_given(op, 1)) if op.name in ("conv2d", "matmul") else None
        return name_of(op) + (f" {name!r}" if name else "") + place_of(op)

    # -- what they read
    def _image(self, v: Value, axes: int, where: str) -> Value:
        """A value with axes of one before its own, so that it has four."""
        self._float(v, where)
        for _ in range(axes):
            v = self.emit("expand_dims", [v], where, axis=0)
        return v

    def _constant(self, array: np.ndarray, weight: Value, end: str) -> Value:
        value = self.program.add_constant(
            from_numpy(np.ascontiguousarray(array, np.int8 if end == "int8" else np.float32)).array()
        )
        name = self._wholes.name(weight)
        value.name = None if name is None else f"{name.removesuffix('.int8')}.{end}"
        return value


def _given(op: Operation, i: int) -> Value:
    v = op.inputs[i]
    assert v is not None
    return v
