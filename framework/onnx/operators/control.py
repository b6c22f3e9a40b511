"""Control flow of ONNX: blocks of the Program where the data decides, else bodies run as Python decides.

A body whose values change their shapes from step to step, or that needs the number of the step while it is traced, is
unrolled where the number of steps is known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework import control, ops
from framework.errors import PaddockError
from framework.limits import current
from framework.onnx.interpreter import Node, elements_of
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor, tensor

_log = logging.getLogger("paddock")


class Gathered:
    """What the steps of a loop give, counted while it grows: with the steps that are to come where they are known."""

    def __init__(self, node: Node, steps: float) -> None:
        self.rows: list[list[Tensor]] = []
        self._node, self._steps, self._elements = node, steps, 0

    def append(self, row: list[Tensor]) -> None:
        """Takes what one step gives."""
        if not self.rows:
            self.check(row)
        self._elements += elements_of(row)
        self._node.limit([self._elements])
        self.rows.append(row)

    def check(self, row: Sequence[Tensor]) -> None:
        """Refuses a first step after which all of them together would be too much."""
        if math.isfinite(self._steps):
            self._node.limit([int(self._steps), elements_of(row)])


@onnx_op("If")
def if_(node: Node, cond: Tensor) -> tuple[Any, ...]:
    """One of two bodies."""
    if cond.is_traced:
        blocks = _tried(node, lambda: _as_cond(node, cond))
        if blocks is not None:
            return blocks
    chosen = "then_branch" if bool(node.host(cond, "condition").reshape(())) else "else_branch"
    return tuple(node.body(chosen, []))


@onnx_op("Loop")
def loop(node: Node, trips: Tensor | None, cond: Tensor | None, *carried: Any) -> tuple[Any, ...]:
    """A body that runs while its condition holds, at most so many times."""
    if node.reads_traced(trips, cond, *carried):
        blocks = _tried(node, lambda: _as_loop(node, trips, cond, carried))
        if blocks is not None:
            return blocks
    most = math.inf if trips is None else node.ints(trips, "trip count")[0]
    go = True if cond is None else bool(node.host(cond, "condition").reshape(()))
    if go and trips is not None and not _condition_is_computed(node):
        node.steps(int(most))  # all of them will run
    state, gathered = list(carried), Gathered(node, most)
    i = 0
    while go and i < most:
        node.step()
        more, *outputs = node.body("body", [constant(i, "int64"), constant(go), *state])
        go = bool(node.host(more, "condition").reshape(()))
        state = outputs[: len(carried)]
        gathered.append(outputs[len(carried) :])
        i += 1
    return (*state, *_stacked(node, gathered.rows, len(carried)))


def _tried(node: Node, blocks: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...] | None:
    """The node as blocks of the Program, or None where its bodies do not fit into blocks."""
    try:
        return blocks()
    except (PaddockError, AttributeError, TypeError) as e:  # a sequence or nothing where a block needs a tensor
        _log.info("onnx: %s '%s' is no block of the Program: %s", node.op, node.name, e)
        return None


def _as_cond(node: Node, cond: Tensor) -> tuple[Any, ...]:
    pred = ops.reshape(cond, shape=[])
    return control.cond(pred, lambda: _results(node, "then_branch", []), lambda: _results(node, "else_branch", []))


def _results(node: Node, name: str, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    results = tuple(node.body(name, arguments))
    if not all(isinstance(r, Tensor) for r in results):
        raise node.fail("its body gives something else than tensors")
    return results


def _as_loop(node: Node, trips: Tensor | None, cond: Tensor | None, carried: Sequence[Any]) -> tuple[Any, ...]:
    """A scan where the number of steps is known; a loop where it is not, and nothing is gathered."""
    known = cond is None or not cond.is_traced
    if (
        trips is not None
        and not trips.is_traced
        and known
        and (cond is None or bool(node.host(cond, "condition").reshape(())))
    ):
        most = node.ints(trips, "trip count")[0]
        node.steps(most)
        if not _condition_is_computed(node):
            return _as_counted(node, most, carried)
    if len(node.attr("body").outputs) > 1 + len(carried):
        raise node.fail("gathers values in a number of steps that depends on the data")
    return _as_while(node, trips, cond, carried)


def _condition_is_computed(node: Node) -> bool:
    """Whether the body makes its condition out of anything but a constant or the condition that it gets."""
    body = node.attr("body")
    makers = {name: n for n in body.nodes for name in n.outputs}
    name = body.outputs[0].name
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    is_true = name in body.initializers and bool(body.initializers[name].all())
    if name in makers and makers[name].op == "Constant":
        value = makers[name].attributes.get("value")
        is_true = value is not None and bool(np.asarray(value).all())
    return not (is_true or (len(body.inputs) > 1 and name == body.inputs[1].name))


def _as_counted(node: Node, most: int, carried: Sequence[Any]) -> tuple[Any, ...]:
    count, gathered_rows = len(carried), Gathered(node, most)

    def step(state: Sequence[Tensor], i: Tensor) -> Any:
        out = _results(node, "body", [i, constant(True), *state])[1:]
        gathered_rows.check(out[count:])
        return out[:count], out[count:]

    last, gathered = control.scan(step, tuple(carried), tensor(np.arange(most)))
    return (*last, *gathered)


def _as_while(node: Node, trips: Tensor | None, cond: Tensor | None, carried: Sequence[Any]) -> tuple[Any, ...]:
    go = constant(True) if cond is None else ops.reshape(cond, shape=[])
    most = None if trips is None else ops.reshape(trips, shape=[])

    def more(i: Tensor, go: Tensor, *_: Tensor) -> Tensor:
        return go if most is None else ops.logical_and(go, ops.less(i, most))

    def step(i: Tensor, go: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        following, *out = _results(node, "body", [i, go, *state])
        return (i + 1, ops.reshape(following, shape=[]), *out)

    start = (constant(0, "int64"), go, *carried)
    return tuple(control.while_loop(more, step, start, max_iterations=current().unrolled_steps, must_end=True)[2:])


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
    for b in range(node.steps(extents(inputs[0])[0])):
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
    if node.reads_traced(*inputs):
        blocks = _tried(node, lambda: _as_scan(node, state, columns, axes, reverse, out_axes, out_reverse))
        if blocks is not None:
            return list(blocks)
    steps = node.steps(extents(columns[0])[axes[0]])
    gathered = Gathered(node, steps)
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
        for column, a, r in zip(zip(*gathered.rows, strict=True), out_axes, out_reverse, strict=True)
    ]
    return [*state, *stacked]


def _as_scan(
    node: Node,
    state: Sequence[Tensor],
    columns: Sequence[Tensor],
    axes: Sequence[int],
    reverse: Sequence[int],
    out_axes: Sequence[int],
    out_reverse: Sequence[int],
) -> tuple[Any, ...]:
    def step(now: Sequence[Tensor], rows: Sequence[Tensor]) -> Any:
        out = _results(node, "body", [*now, *rows])
        return out[: len(state)], out[len(state) :]

    over = [_flipped(_moved(x, a, 0), r) for x, a, r in zip(columns, axes, reverse, strict=True)]
    last, gathered = control.scan(step, tuple(state), tuple(over))
    turned = [_flipped(y, r) for y, r in zip(gathered, out_reverse, strict=True)]
    return (*last, *(_moved(y, 0, axis_of(a, y.ndim)) for y, a in zip(turned, out_axes, strict=True)))


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """With an axis at another place."""
    if source == target:
        return x
    perm = [a for a in range(x.ndim) if a != source]
    perm.insert(target, source)
    return ops.transpose(x, perm=perm)


def _flipped(x: Tensor, reverse: int) -> Tensor:
    return ops.slice(x, starts=[-1], ends=[-(2**62)], axes=[0], steps=[-1]) if reverse else x
