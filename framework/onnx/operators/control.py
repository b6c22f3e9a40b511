"""Control flow of ONNX: bodies run as Python decides, which a trace follows where it can."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.registry import onnx_op
from framework.tensor import Tensor

MAX_TRIPS = 100_000  # of a loop: a file must not run for ever


@onnx_op("If")
def if_(node: Node, cond: Tensor) -> tuple[Any, ...]:
    """One of two bodies."""
    chosen = "then_branch" if bool(node.host(cond, "condition").reshape(())) else "else_branch"
    return tuple(node.body(chosen, []))


@onnx_op("Loop")
def loop(node: Node, trips: Tensor | None, cond: Tensor | None, *carried: Any) -> tuple[Any, ...]:
    """A body that runs while its condition holds, at most so many times."""
    most = math.inf if trips is None else node.ints(trips, "trip count")[0]
    go = True if cond is None else bool(node.host(cond, "condition").reshape(()))
    state, gathered = list(carried), []
    i = 0
    while go and i < most:
        if i >= MAX_TRIPS:
            raise node.fail(f"loops more than {MAX_TRIPS} times")
        more, *outputs = node.body("body", [constant(i, "int64"), constant(go), *state])
        go = bool(node.host(more, "condition").reshape(()))
        state = outputs[: len(carried)]
        gathered.append(outputs[len(carried) :])
        i += 1
    return (*state, *_stacked(node, gathered, len(carried)))


def _stacked(node: Node, gathered: Sequence[Sequence[Tensor]], carried: int) -> list[Tensor]:
    if gathered:
        return [ops.stack(list(column), axis=0) for column in zip(*gathered, strict=True)]
    ports = node.attr("body").outputs[1 + carried :]
    return [
        ops.full(
            shape=[0, *(d if isinstance(d, int) else 0 for d in p.shape or ())], value=0.0, dtype=p.dtype or "float32"
        )
        for p in ports
    ]


@onnx_op("Scan")
def scan_8(node: Node, lengths: Tensor | None, *inputs: Tensor) -> tuple[Any, ...]:
    """Batch by batch, as in version 8."""
    if lengths is not None:
        raise node.fail("sequence lengths of Scan version 8 are not supported")
    each = []
    for b in range(extents(inputs[0])[0]):
        own = [ops.squeeze(ops.slice(x, starts=[b], ends=[b + 1], axes=[0]), axis=0) for x in inputs]
        each.append(_scanned(node, own))
    return tuple(ops.stack(list(column), axis=0) for column in zip(*each, strict=True))


@onnx_op("Scan", since=9)
def scan(node: Node, *inputs: Tensor) -> tuple[Any, ...]:
    """A body over the slices of some inputs, carrying the others along."""
    return tuple(_scanned(node, list(inputs)))


def _scanned(node: Node, inputs: list[Tensor]) -> list[Any]:
    count = node.attr("num_scan_inputs")
    if not 1 <= count <= len(inputs):
        raise ValueError(f"num_scan_inputs is {count} of {len(inputs)}")
    carried = len(inputs) - count
    state, columns = inputs[:carried], inputs[carried:]
    outs = len(node.attr("body").outputs) - carried
    axes = node.attr("scan_input_axes") or [0] * count
    reverse = node.attr("scan_input_directions") or node.attr("directions") or [0] * count
    out_axes = node.attr("scan_output_axes") or [0] * outs
    out_reverse = node.attr("scan_output_directions") or [0] * outs
    axes = [axis_of(a, x.ndim) for a, x in zip(axes, columns, strict=True)]
    steps = extents(columns[0])[axes[0]]
    gathered = []
    for t in range(steps):
        at = [steps - 1 - t if r else t for r in reverse]
        now = [
            ops.squeeze(ops.slice(x, starts=[i], ends=[i + 1], axes=[a]), axis=a)
            for x, a, i in zip(columns, axes, at, strict=True)
        ]
        outputs = node.body("body", [*state, *now])
        state = outputs[:carried]
        gathered.append(outputs[carried:])
    stacked = [
        ops.stack(list(column)[::-1] if r else list(column), axis=a)
        for column, a, r in zip(zip(*gathered, strict=True), out_axes, out_reverse, strict=True)
    ]
    return [*state, *stacked]
