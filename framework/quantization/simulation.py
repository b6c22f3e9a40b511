"""Training in 8 bits: a function that computes what its 8-bit form will, with gradients.

Each value that 8 bits will hold is rounded to its steps. Sums are of whole numbers, so they are those of the 8-bit
kernels as long as they stay below 2^24, and everything after a sum is computed as the kernels do: the numbers are
those of the export, bit for bit. Gradients pass a rounding as if it were not there and stop where a value was cut
(straight-through; Jacob et al. 2018, arXiv:1712.05877). Steps of activations learn too (LSQ; Esser et al. 2020,
arXiv:1902.08153); those of weights follow the largest weight of each filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.context import context
from framework.control.gradient import again
from framework.control.inline import Inlined
from framework.errors import TraceError
from framework.graph import passes
from framework.graph.ir import Operation, Value
from framework.graph.passes.rewriter import shape_only
from framework.ops.dispatch import call_by_name
from framework.quantization.images import MOST_ROUNDED, data_of, image_of
from framework.quantization.quantize import Layers, layers_of
from framework.quantization.ranges import SMALLEST, SYMMETRIC, Known, Range
from framework.quantization.weights import MOST_STEPS
from framework.tensors import Tensor, from_numpy

LEVELS = 255


def simulated(
    function: Callable[..., Any],
    ranges: Sequence[Range],
    factors: Callable[[], Tensor],
    *,
    whole_biases: bool = True,
) -> Callable[..., Any]:
    """A function that computes `function` as its Program in 8 bits with these ranges would.

    It is called while a Program is traced. Its result has gradients where they are wanted, for the factors too.

    Args:
        function: takes and gives trees of tensors; its layers' weights have names.
        ranges: what is in 8 bits, such as `ranges_of` found.
        factors: gives what each range's scale is multiplied with, float32 [len(ranges)]; 1 at first. See `trained`.
        whole_biases: as of `quantize_trained`.
    """
    known = Known(ranges)

    def compute(*args: Any) -> Any:
        if context.trace is None:
            raise TraceError("simulated: 8 bits are simulated in Programs only; call it inside of framework.program")
        with no_grad():
            part = Inlined(function, args)
        passes.run(part.block, ["merge_equal_operations", "drop_dead_code"])
        found = layers_of(part.block, None, known)
        return part.result(_Played(part, found, known, factors(), whole_biases).run())

    return compute


def trained(ranges: Sequence[Range], factors: np.ndarray) -> list[Range]:
    """Ranges with the scales that training came to, for `quantize`.

    Args:
        ranges: those that it began with.
        factors: what they were multiplied with in the end, float32 [len(ranges)].
    """
    first = np.array([found.steps.scale for found in ranges], np.float32)
    scales = np.maximum(first * np.abs(factors), np.float32(SMALLEST))
    return [replace(r, steps=replace(r.steps, scale=float(s))) for r, s in zip(ranges, scales, strict=True)]


class _Played:
    """A block's operations once more in the active trace, those of `found` in 8 bits."""

    def __init__(self, part: Inlined, found: Layers, known: Known, factors: Tensor, whole_biases: bool) -> None:
        self._whole_biases = whole_biases
        self._block, self._images, self._known = part.block, found.images, known
        self._which = found.ranges_of_images(known, strict=False)
        ops_ = part.block.block.ops
        self._products = {ops_[i]: which for i, which in found.ranges_of_products(known).items()}
        self._scales = _learned(known.ranges, factors, self._sizes(found))
        self._one: dict[int, Tensor] = {}
        self._weights: dict[tuple[Value, tuple[int, ...]], tuple[Tensor, Tensor]] = {}
        self._whole: dict[Value, Tensor] = {}  # in steps, whole numbers with 0 for 0
        self._float: dict[Value, Tensor] = part.known()

    def run(self) -> Mapping[Value, Tensor]:
        for op in self._block.block:
            if op in self._images.convolutions:
                self._convolution(op)
            elif op in self._images.held:
                self._other(op)
            elif op in self._products:
                self._float[op.outputs[0]] = self._product(op)
            else:
                given = [None if v is None else self._real(v) for v in op.inputs]
                self._float.update(zip(op.outputs, again(op, given), strict=True))
        for v in self._block.results:
            self._real(v)
        return self._float

    def _sizes(self, found: Layers) -> np.ndarray:
        """How many numbers of a sample each range is of."""
        sizes = np.ones(len(self._known.ranges))
        pairs = [(image_of(op), self._which[image_of(op)]) for op in self._images.convolutions]
        pairs += [(v, self._products[op]) for op in self._products if (v := op.inputs[0]) is not None]
        for v, which in pairs:
            sizes[which] = max(sizes[which], math.prod(v.shape[1:]))
        return sizes

    # -- values
    def _scale(self, which: int) -> Tensor:
        if which not in self._one:
            self._one[which] = self._scales[which]
        return self._one[which]

    def _wide(self, which: int | None) -> Tensor:
        """A scale in float64, in which factors are worked out before they are rounded once; 1 for none."""
        return from_numpy(np.array(1.0)) if which is None else ops.cast(self._scale(which), "float64")

    def _steps(self, v: Value) -> Tensor:
        """A value in steps."""
        if v not in self._whole:
            which = self._which[v]
            self._whole[v] = self._rounded(self._float[v] / self._scale(which), which)
        return self._whole[v]

    def _rounded(self, x: Tensor, which: int) -> Tensor:
        zero = self._known.ranges[which].steps.zero
        return _to_whole(ops.clip(x, min=float(-zero), max=float(LEVELS - zero)))

    def _real(self, v: Value) -> Tensor:
        """A value in float32."""
        if v not in self._float:
            self._float[v] = self._whole[v] * self._scale(self._which[v])
        return self._float[v]

    def _rounded_weights(self, weight: Value, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Weights in steps, and their scales: one for each place of the axes that are not `axes`."""
        if (weight, axes) not in self._weights:
            w = self._real(weight)
            with no_grad():
                scale = ops.max(ops.abs(w.detach()), axes=axes, keepdims=True) / float(SYMMETRIC)
                steps = ops.where(scale > 0.0, scale, 1.0)
            whole = _to_whole(ops.clip(w / steps, min=-float(SYMMETRIC), max=float(SYMMETRIC)))
            self._weights[weight, axes] = whole, ops.reshape(scale, shape=[-1])
        return self._weights[weight, axes]

    # -- operations
    def _convolution(self, op: Operation) -> None:
        x, residual, y = image_of(op), op.input("residual"), op.outputs[0]
        out = self._which[y] if op in self._images.held else None
        weight, weight_scale = self._rounded_weights(_given(op, "weight"), (1, 2, 3))
        window = {name: op.attr(name) for name in ("stride", "padding", "dilation", "groups")}
        sums = call_by_name("conv2d", [self._steps(x), weight, None, None], algorithm="direct", **window)
        step = self._wide(out)
        factor = self._wide(self._which[x]) * ops.cast(weight_scale, "float64") / step
        v = sums * ops.cast(factor, "float32")
        if (bias := op.input("bias")) is not None:
            b = self._real(bias)
            if self._whole_biases and bias.static:  # others are no constants of an export
                b = _on_steps(b, self._wide(self._which[x]), weight_scale)
            v = v + ops.cast(ops.cast(b, "float64") / step, "float32")
        other = None
        if residual is not None and (out is not None or residual not in self._float):
            other = self._in_steps_of(residual, step)
        elif residual is not None:
            other = self._float[residual]
        self._give(y, out, self._ended(op, v, other, step))

    def _in_steps_of(self, v: Value, step: Tensor) -> Tensor:
        return self._steps(v) * ops.cast(self._wide(self._which[v]) / step, "float32")

    def _ended(self, op: Operation, v: Tensor, residual: Tensor | None, step: Tensor) -> Tensor:
        """A value through residual and activation, as the kernels end it."""
        last = op.attr("residual_last")
        if residual is not None and not last:
            v = v + residual
        activation = op.attr("activation")
        if activation == "leaky_relu":
            v = ops.where(v < 0.0, v * op.attr("slope"), v)
        elif activation != "none":
            v = ops.relu(v)
        if activation == "relu6":
            v = ops.minimum(v, ops.cast(6.0 / step, "float32"))
        return v + residual if residual is not None and last else v

    def _give(self, y: Value, out: int | None, v: Tensor) -> None:
        if out is None:
            self._float[y] = v
        else:
            self._whole[y] = self._rounded(v, out)

    def _other(self, op: Operation) -> None:
        if op.name == "add":
            a, b = (v for v in op.inputs[:2] if v is not None)
            out = self._which[op.outputs[0]]
            step = self._wide(out)
            self._give(op.outputs[0], out, self._in_steps_of(a, step) + self._in_steps_of(b, step))
            return
        data, given = set(data_of(op)), []
        for v, shape in zip(op.inputs, shape_only(op), strict=True):
            moved = v is not None and (v in data or (shape and v in self._whole))
            given.append(self._steps(v) if moved and v is not None else None if v is None else self._real(v))
        self._whole.update(zip(op.outputs, again(op, given), strict=True))

    def _product(self, op: Operation) -> Tensor:
        scale = self._scale(self._products[op])
        x, weight = self._real(image_of(op)), _given(op, "b")
        turned = op.attr("transpose_b")
        whole, weight_scale = self._rounded_weights(weight, (1,) if turned else (0,))
        limit = float(SYMMETRIC)
        q = _to_whole(ops.clip(x * (1.0 / scale), min=-limit, max=limit))
        y = ops.matmul(q, whole, transpose_b=turned) * scale * weight_scale
        for name in ("bias", "residual"):
            if (v := op.input(name)) is not None:
                y = y + self._real(v)
        activation = op.attr("activation")
        if activation == "none":
            return y
        slope = {"slope": op.attr("slope")} if activation == "leaky_relu" else {}
        made: Tensor = call_by_name(activation, [y], **slope)
        return made


def _given(op: Operation, name: str) -> Value:
    v = op.input(name)
    assert v is not None
    return v


def _to_whole(x: Tensor) -> Tensor:
    """The nearest whole numbers, halves to even, with the gradient of x. Exact: x + (round(x) - x) has no rounding."""
    return x + (ops.round(x) - x).detach()


def _on_steps(bias: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """A bias [K] on steps of the sums, with the gradient of `bias`: what `rounded_bias` makes, bit for bit."""
    with no_grad():
        steps = ops.cast(ops.cast(weight_scale, "float64") * x_scale.detach(), "float32")
        fits = ops.where(weight_scale > 0.0, ops.where(steps > 0.0, 1.0, 0.0), 0.0)
        shares = ops.cast(bias.detach(), "float64") / ops.cast(ops.where(steps > 0.0, steps, 1.0), "float64")
        whole = ops.cast(ops.round(shares), "float32")
        size = ops.abs(whole)
        all_fit = ops.min(ops.where(size < float(MOST_STEPS), fits, 0.0))  # else no bias of the layer is rounded
        near = ops.where(size < float(MOST_ROUNDED), all_fit, 0.0)
        rounded = ops.where(near > 0.0, whole * steps, bias.detach())
    return rounded + (bias - bias.detach())


def _learned(ranges: Sequence[Range], factors: Tensor, sizes: np.ndarray) -> Tensor:
    """Scales above 0.

    A factor's gradient is that which gives its scale the relative change that plain gradient descent would give it in
    LSQ, where it is divided by sqrt(numbers of a sample * levels) (Esser et al. 2020, section 2.2).
    """
    first = np.array([found.steps.scale for found in ranges])
    share = 1 / (np.sqrt(sizes * LEVELS) * first**2)
    share = from_numpy(np.minimum(share, np.finfo(np.float32).max).astype(np.float32))  # infinity times 0 is a NaN
    here = factors.detach()
    factors = here + (factors - here) * share
    return ops.maximum(from_numpy(first.astype(np.float32)) * ops.abs(factors), SMALLEST)
