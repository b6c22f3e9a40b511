"""A pass that finds softmax and negative log-likelihood written by hand and makes them cross_entropy.

    log_softmax(x) or log(softmax(x)), then take_along_axis(., expand_dims(labels)) or sum(one_hot(labels) * .)

and, in a step that trains, the gradient of that by x. Neither softmax nor one-hot labels are then written to memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import PassReport, chain_of, graph_pass
from framework.graph.passes.rewriter import DataReaders, Rewriter

NO_LABEL = -(2**63)  # as ignore_index: every label outside of the classes is an error, as it was


@graph_pass(after=("merge_equal_operations",), before=("drop_dead_code", "fuse_chains"))
def fuse_cross_entropy(program: Program, report: PassReport) -> None:
    """Softmax, logarithm and the choice of a class become cross_entropy, their gradient cross_entropy_grad.

    What is computed for nothing then is left to drop_dead_code. A negative label, which take_along_axis would count
    from the end, is refused by cross_entropy.
    """
    finder = _Finder(program)
    ends: dict[Operation, _End] = {}
    for op in program.block:
        logs = finder.log_softmax(op)
        if logs is None:
            continue
        why = finder.obstacle(logs)
        if why:
            report.miss(chain_of(*logs.path), why)
        elif logs.ends:
            ends |= {end.op: end for end in logs.ends}
            for end in logs.ends:
                report.match(f"{chain_of(*logs.path, end.op)} is {end.name}")
    _rewrite(program, ends)


@dataclass
class _End:
    """The last operation of a pattern, and what it gives by a cross entropy or its gradient."""

    op: Operation
    name: str  # cross_entropy, or cross_entropy_grad
    logits: Value
    labels: Value
    upstream: Operation | Value | None = None  # of a gradient: what -dloss is made from


@dataclass
class _Logs:
    """log(softmax(logits)): one operation or two, who may read their results, and the patterns that end there."""

    path: list[Operation]
    members: set[Operation] = field(default_factory=set)
    ends: list[_End] = field(default_factory=list)

    @property
    def logits(self) -> Value:
        x = self.path[0].inputs[0]
        assert x is not None
        return x

    @property
    def value(self) -> Value:
        return self.path[-1].outputs[0]


class _Finder:
    """Looks up and down from a logarithm of softmax."""

    def __init__(self, program: Program) -> None:
        self.readers = DataReaders(program)
        self.producers: Mapping[Any, Operation] = program.producers()

    def log_softmax(self, op: Operation) -> _Logs | None:
        """The logarithm of softmax over the last axis that ends in `op`, with all that is made of it."""
        if op.name == "log_softmax" and self._is_last(op, op.attr("axis")):
            logs = _Logs([op])
        else:
            softmax = self._maker(op.inputs[0], "softmax") if op.name == "log" else None
            if softmax is None or not self._is_last(softmax, softmax.attr("axis")):
                return None
            logs = _Logs([softmax, op], {op})
        for reader in self.readers.of(logs.value):
            self._forward(logs, reader)
        self._backward(logs)
        return logs if any(end.name == "cross_entropy" for end in logs.ends) else None

    def obstacle(self, logs: _Logs) -> str:
        """Why the softmax is needed all the same; "" when it is not."""
        for op in logs.path:
            value = op.outputs[0]
            if value in self.readers.kept or not logs.members.issuperset(self.readers.of(value)):
                return self.readers.why_not_only(value, op, logs.members)
        return ""

    def _is_last(self, op: Operation, axis: int) -> bool:
        return axis in (-1, len(op.outputs[0].shape) - 1)

    def _maker(self, value: Value | None, *names: str) -> Operation | None:
        op = self.producers.get(value)
        return op if op is not None and op.name in names else None

    # -- forward
    def _forward(self, logs: _Logs, reader: Operation) -> None:
        if reader.name == "take_along_axis" and self._is_last(reader, reader.attr("axis")):
            labels = self._labels_of_indices(reader.inputs[1])
            if labels is not None:
                logs.members.add(reader)
                logs.ends.append(_End(reader, "cross_entropy", logs.logits, labels))
            return
        labels = self._labels_of_product(reader, logs.value)
        total = self.readers.only(reader.outputs[0]) if labels is not None else None
        if labels is not None and total is not None and total.name == "sum" and self._sums_rows(total):
            logs.members.add(reader)
            logs.ends.append(_End(total, "cross_entropy", logs.logits, labels))

    def _labels_of_indices(self, indices: Value | None) -> Value | None:
        """labels [...] of indices [..., 1]."""
        op = self._maker(indices, "expand_dims")
        if op is None or op.attr("axis") not in (-1, len(op.outputs[0].shape) - 1):
            return None
        return op.inputs[0]

    def _labels_of_product(self, op: Operation, other: Value | None = None) -> Value | None:
        """labels of one_hot(labels) * other, where both have one shape."""
        if op.name != "mul":
            return None
        for one, rest in (op.inputs, op.inputs[::-1]):
            hot = self._maker(one, "one_hot")
            if hot is not None and rest is not None and other in (None, rest) and rest.shape == hot.outputs[0].shape:
                return hot.inputs[0]
        return None

    def _sums_rows(self, op: Operation) -> bool:
        """Over the classes, or over everything."""
        rank = len(op.inputs[0].shape) if op.inputs[0] is not None else 0
        return not op.attr("keepdims") and tuple(op.attr("axes")) in ((), (-1,), (rank - 1,), tuple(range(rank)))

    # -- backward
    def _backward(self, logs: _Logs) -> None:
        if len(logs.path) == 1:
            for exponent in self.readers.of(logs.value):
                if exponent.name == "exp":
                    self._gradient_of_log_softmax(logs, exponent)
        else:
            for share in self.readers.of(logs.path[0].outputs[0]):
                if share.name == "div":
                    self._gradient_of_softmax(logs, share)

    def _gradient_of_log_softmax(self, logs: _Logs, exponent: Operation) -> None:
        """dy - exp(y) * sum(dy), with dy 0 but at the labels."""
        product = self.readers.only(exponent.outputs[0])
        end = self.readers.only(product.outputs[0]) if product is not None and product.name == "mul" else None
        if product is None or end is None or end.name != "sub" or end.inputs[1] is not product.outputs[0]:
            return
        dy = end.inputs[0]
        total = next((t for v in product.inputs if (t := self._maker(v, "sum")) is not None), None)
        if total is None or total.inputs[0] is not dy or not self._keeps_rows(total):
            return
        self._end_gradient(logs, end, dy, {exponent})

    def _gradient_of_softmax(self, logs: _Logs, share: Operation) -> None:
        """s * (dy - sum(dy * s)) of dy = share, d(log s) / s, with d(log s) 0 but at the labels."""
        s, dy = logs.path[0].outputs[0], share.outputs[0]
        if share.inputs[1] is not s:
            return
        product = next((r for r in self.readers.of(dy) if r.name == "mul" and set(r.inputs) == {dy, s}), None)
        difference = next((r for r in self.readers.of(dy) if r.name == "sub" and r.inputs[0] is dy), None)
        if product is None or difference is None:
            return
        total, end = self._maker(difference.inputs[1], "sum"), self.readers.only(difference.outputs[0])
        if total is None or total.inputs[0] is not product.outputs[0] or not self._keeps_rows(total):
            return
        if end is None or end.name != "mul" or set(end.inputs) != {s, difference.outputs[0]}:
            return
        self._end_gradient(logs, end, share.inputs[0], {share, product, end})

    def _keeps_rows(self, op: Operation) -> bool:
        rank = len(op.outputs[0].shape)
        return bool(op.attr("keepdims")) and tuple(op.attr("axes")) in ((-1,), (rank - 1,))

    def _end_gradient(self, logs: _Logs, end: Operation, dlogs: Value | None, members: set[Operation]) -> None:
        """Notes the gradient that ends in `end` if the gradient `dlogs` of the logarithms is 0 but at the labels."""
        put = self._maker(dlogs, "sum_to")
        if put is not None and put.inputs[0] is not None and put.inputs[0].shape == put.outputs[0].shape:
            dlogs = put.inputs[0]
        put = self._maker(dlogs, "put_along_axis_add", "mul")
        if put is None:
            return
        if put.name == "put_along_axis_add":
            zeros, labels = self._maker(put.inputs[0], "full_like"), self._labels_of_indices(put.inputs[1])
            upstream: Operation | Value | None = put.inputs[2]
            if zeros is None or zeros.attr("value") != 0.0 or not self._is_last(put, put.attr("axis")):
                return
        else:
            labels = self._labels_of_product(put)
            upstream = next((u for v in put.inputs if (u := self._maker(v, "unreduce")) is not None), None)
            if upstream is None or upstream.attr("average") or not self._spreads_rows(upstream):
                return
        if labels is not None and any(labels is e.labels for e in logs.ends):
            logs.members |= members
            logs.ends.append(_End(end, "cross_entropy_grad", logs.logits, labels, upstream))

    def _spreads_rows(self, op: Operation) -> bool:
        rank = len(op.outputs[0].shape)
        return not op.attr("keepdims") and tuple(op.attr("axes")) in ((), (-1,), (rank - 1,), tuple(range(rank)))


def _rewrite(program: Program, ends: Mapping[Operation, _End]) -> None:
    rewriter = Rewriter(program)
    losses: dict[tuple[Value, Value], Value] = {}
    for op in program.block:
        end = ends.get(op)
        if end is None:
            rewriter.ops.append(op)
        elif end.name == "cross_entropy":
            _emit_loss(rewriter, end, losses)
        else:
            _emit_gradient(rewriter, end, losses)
    program.block.ops = rewriter.ops


def _emit_loss(rewriter: Rewriter, end: _End, losses: dict[tuple[Value, Value], Value]) -> None:
    """The logarithms at the labels: minus the cross entropy, as [..., 1], or summed over the rows."""
    op, key = end.op, (end.logits, end.labels)
    if key not in losses:
        losses[key] = rewriter.emit("cross_entropy", [*key], op.where, ignore_index=NO_LABEL)
    y = rewriter.emit("neg", [losses[key]], op.where)
    if op.name == "take_along_axis":
        y = rewriter.emit("expand_dims", [y], op.where, axis=-1)
    elif len(op.outputs[0].shape) < len(end.labels.shape):
        y = rewriter.emit("sum", [y], op.where)
    rewriter.program.replace(op.outputs[0], y)


def _emit_gradient(rewriter: Rewriter, end: _End, losses: Mapping[tuple[Value, Value], Value]) -> None:
    """cross_entropy_grad of minus what comes from above, a number for each row."""
    where, up = end.op.where, end.upstream
    if isinstance(up, Operation):
        dlog = up.inputs[0]
        if dlog is not None and dlog.shape != end.labels.shape:
            dlog = rewriter.emit("unreduce", [dlog, losses[end.logits, end.labels]], where)
    else:
        dlog = rewriter.emit("squeeze", [up], where, axis=-1)
    dloss = rewriter.emit("neg", [dlog], where)
    dx = rewriter.emit("cross_entropy_grad", [dloss, end.logits, end.labels], where, ignore_index=NO_LABEL)
    rewriter.program.replace(end.op.outputs[0], dx)
