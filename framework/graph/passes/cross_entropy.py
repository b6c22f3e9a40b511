"""A pass that finds softmax and negative log-likelihood written by hand and makes them cross_entropy.

    take_along_axis(log_softmax(x), expand_dims(labels))

and, in a step that trains, the gradient of that by x. Softmax is then not written to memory. Other forms mean something
else at the limits and stay as they are: log(softmax(x)) is -infinity where softmax is 0, and one_hot(labels) *
log_softmax(x) is NaN where a logit is -infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass
from framework.graph.passes.rewriter import DataReaders, Rewriter
from framework.graph.reports import PassReport

# What take_along_axis does with labels: none is ignored, and those below 0 count from the end.
_LABELS = {"ignore_index": -(2**63), "from_end": True}


@graph_pass(after=("merge_equal_operations",), before=("drop_dead_code", "fuse_chains"))
def fuse_cross_entropy(program: Program, report: PassReport) -> None:
    """log_softmax and the choice of a class become cross_entropy, their gradient cross_entropy_grad.

    What is computed for nothing then is left to drop_dead_code.
    """
    finder = _Finder(program)
    ends: dict[Operation, _End] = {}
    for op in program.block:
        logs = finder.log_softmax(op)
        if logs is None:
            continue
        why = finder.obstacle(logs)
        if why:
            report.miss(chain_of(logs.op), why)
            continue
        for end in logs.ends:
            ends[end.op] = end
            report.match(f"{chain_of(logs.op, end.op)} is {end.name}")
            for pair in end.equal:
                program.assume_equal_shapes(*pair)
    _rewrite(program, ends)


@dataclass
class _End:
    """The last operation of a pattern, and what it gives by a cross entropy or its gradient.

    Values are asked for when the pattern is rewritten: one may be the result of another that was rewritten before.
    """

    op: Operation
    name: str  # cross_entropy, or cross_entropy_grad
    logs: Operation  # log_softmax
    indices: Operation  # expand_dims of the labels
    put: Operation | None = None  # of a gradient: what puts -dloss, [..., 1], at the labels
    equal: list[tuple[Value, Value]] = field(default_factory=list)  # which shapes it relies on

    @property
    def given(self) -> tuple[Value, Value]:
        """Logits and labels."""
        logits, labels = self.logs.inputs[0], self.indices.inputs[0]
        assert logits is not None and labels is not None
        return logits, labels


@dataclass
class _Logs:
    """log_softmax(logits): who may read its result, and the patterns that end there."""

    op: Operation
    members: set[Operation] = field(default_factory=set)
    ends: list[_End] = field(default_factory=list)

    @property
    def value(self) -> Value:
        return self.op.outputs[0]


class _Finder:
    """Looks down from log_softmax, and up from the ends of its gradient."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers = DataReaders(program)
        self.producers: Mapping[Any, Operation] = program.producers()

    def log_softmax(self, op: Operation) -> _Logs | None:
        """The logarithm of softmax over the last axis that `op` is, with all that is made of it."""
        if op.name != "log_softmax" or not self._is_last(op, op.attr("axis")):
            return None
        logs = _Logs(op)
        for reader in self.readers.of(logs.value):
            if reader.name == "take_along_axis" and self._is_last(reader, reader.attr("axis")):
                self._forward(logs, reader)
        for reader in self.readers.of(logs.value):
            if reader.name == "exp":
                self._backward(logs, reader)
        return logs if any(end.name == "cross_entropy" for end in logs.ends) else None

    def obstacle(self, logs: _Logs) -> str:
        """Why the logarithms are needed all the same; "" when they are not."""
        if logs.value in self.readers.kept or not logs.members.issuperset(self.readers.of(logs.value)):
            return self.readers.why_not_only(logs.value, logs.op, logs.members)
        return ""

    def _is_last(self, op: Operation, axis: int) -> bool:
        return axis in (-1, len(op.outputs[0].shape) - 1)

    def _maker(self, value: Value | None, name: str) -> Operation | None:
        op = self.producers.get(value)
        return op if op is not None and op.name == name else None

    def _forward(self, logs: _Logs, take: Operation) -> None:
        indices = self._indices(take.inputs[1])
        if indices is not None:
            logs.members.add(take)
            logs.ends.append(_End(take, "cross_entropy", logs.op, indices))

    def _indices(self, value: Value | None) -> Operation | None:
        """What makes indices [..., 1] of labels [...]."""
        op = self._maker(value, "expand_dims")
        return op if op is not None and self._is_last(op, op.attr("axis")) else None

    def _backward(self, logs: _Logs, exponent: Operation) -> None:
        """dy - exp(y) * sum(dy), with dy 0 but at the labels."""
        product = self.readers.only(exponent.outputs[0])
        end = self.readers.only(product.outputs[0]) if product is not None and product.name == "mul" else None
        if product is None or end is None or end.name != "sub" or end.inputs[1] is not product.outputs[0]:
            return
        dy = end.inputs[0]
        total = next((t for v in product.inputs if (t := self._maker(v, "sum")) is not None), None)
        if total is None or total.inputs[0] is not dy or not self._keeps_rows(total):
            return
        self._end_gradient(logs, end, dy, exponent)

    def _keeps_rows(self, op: Operation) -> bool:
        rank = len(op.outputs[0].shape)
        return bool(op.attr("keepdims")) and tuple(op.attr("axes")) in ((-1,), (rank - 1,))

    def _end_gradient(self, logs: _Logs, end: Operation, dlogs: Value | None, exponent: Operation) -> None:
        """Notes the gradient that ends in `end` if the gradient `dlogs` of the logarithms is 0 but at the labels."""
        cut, equal = self._maker(dlogs, "sum_to"), list[tuple[Value, Value]]()
        if cut is not None and cut.inputs[0] is not None and self.program.equal_shapes(cut.inputs[0], cut.outputs[0]):
            equal.append((cut.inputs[0], cut.outputs[0]))
            dlogs = cut.inputs[0]
        put = self._maker(dlogs, "put_along_axis_add")
        zeros = self._maker(put.inputs[0], "full_like") if put is not None else None
        if put is None or zeros is None or zeros.attr("value") != 0.0 or not self._is_last(put, put.attr("axis")):
            return
        indices = self._indices(put.inputs[1])
        if indices is not None and any(indices.inputs[0] is e.given[1] for e in logs.ends):
            logs.members.add(exponent)
            logs.ends.append(_End(end, "cross_entropy_grad", logs.op, indices, put, equal))


def _rewrite(program: Program, ends: Mapping[Operation, _End]) -> None:
    rewriter = Rewriter(program)
    losses: dict[tuple[Value, Value], Value] = {}
    for op in program.block:
        end = ends.get(op)
        if end is None:
            rewriter.ops.append(op)
        elif end.put is None:
            _emit_loss(rewriter, end, losses)
        else:
            _emit_gradient(rewriter, end, end.put)
    program.block.ops = rewriter.ops


def _emit_loss(rewriter: Rewriter, end: _End, losses: dict[tuple[Value, Value], Value]) -> None:
    """The logarithms at the labels: minus the cross entropy, as [..., 1]."""
    op, key = end.op, end.given
    if key not in losses:
        losses[key] = rewriter.emit("cross_entropy", [*key], op.where, **_LABELS)
    y = rewriter.emit("neg", [losses[key]], op.where)
    rewriter.program.replace(op.outputs[0], rewriter.emit("expand_dims", [y], op.where, axis=-1))


def _emit_gradient(rewriter: Rewriter, end: _End, put: Operation) -> None:
    """cross_entropy_grad of minus what comes from above, a number for each row."""
    where = end.op.where
    dloss = rewriter.emit("neg", [rewriter.emit("squeeze", [put.inputs[2]], where, axis=-1)], where)
    dx = rewriter.emit("cross_entropy_grad", [dloss, *end.given], where, **_LABELS)
    rewriter.program.replace(end.op.outputs[0], dx)
