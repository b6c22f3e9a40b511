"""Passes that make batch norm, its residual and its activation one operator, forward and backward.

The gradient comes first: it takes the activation's derivative from batch norm's own input, or from the final result,
so that what lies between the two has one reader fewer and the forward pass can swallow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass
from framework.graph.passes.rewriter import DataReaders, in_order
from framework.graph.reports import PassReport
from framework.ops import registry

DEFAULT_SLOPE = 0.01  # of operators with another activation: its value means nothing


def _slope(activation: Operation) -> float:
    return float(activation.attr("slope")) if activation.name.startswith("leaky_relu") else DEFAULT_SLOPE


@graph_pass(before=("fuse_batch_norm",))
def fuse_batch_norm_grad(program: Program, report: PassReport) -> None:
    """activation gradient -> batch_norm_grad becomes one operator, which also gives a residual's gradient.

    Without a residual the derivative comes from batch norm's input (batch_norm_activation_grad); where a residual was
    added before the activation it comes from the result, and the activation's gradient is the residual's gradient too
    (batch_norm_residual_grad).
    """
    _read_results_of_leaky_relu(program)
    fused: dict[Operation, Operation] = {}  # batch_norm_grad -> what replaces it
    gone: set[Operation] = set()
    readers = DataReaders(program)
    producers = program.producers()
    for op in program.block:
        if op.name != "batch_norm_grad":
            continue
        found = _Backward.find(op, producers)
        if found is None or found.activation_grad in gone:
            continue
        what, why = chain_of(found.activation_grad, op), found.obstacle(readers)
        if why:
            report.miss(what, why)
            continue
        fused[op] = found.fused()
        gone.update(found.path)
        readers.refer_to_shape_of(op.inputs[1], found.path)
        report.match(f"{what} fused into {fused[op].name}")
    program.block.ops = in_order(program, [fused.get(op, op) for op in program.block if op not in gone])


def _read_results_of_leaky_relu(program: Program) -> None:
    """leaky_relu's gradient reads the result in place of the input: the sign is the same, and the input may go."""
    results = {
        (op.inputs[0], op.attr("slope")): op.outputs[0]
        for op in program.block
        if op.name == "leaky_relu" and op.attr("slope") >= 0
    }
    for op in program.block:
        if op.name == "leaky_relu_grad":
            op.inputs[1] = results.get((op.inputs[1], op.attr("slope")), op.inputs[1])


@dataclass
class _Backward:
    """An activation's gradient, a sum_to that may follow it, and the batch_norm_grad that reads it."""

    activation_grad: Operation
    path: list[Operation]  # from activation_grad to just before norm_grad
    norm_grad: Operation
    norm: Operation  # the forward batch_norm
    add: Operation | None  # of the residual, where one stands before the activation

    @classmethod
    def find(cls, norm_grad: Operation, producers: Mapping[Any, Operation]) -> _Backward | None:
        """None where `norm_grad` is no gradient of a batch norm that an activation follows."""
        norm, last = producers.get(norm_grad.inputs[3]), producers.get(norm_grad.inputs[0])
        if norm is None or last is None or norm.name != "batch_norm" or not _belong_together(norm, norm_grad):
            return None
        before = producers.get(last.inputs[0]) if last.name == "sum_to" else None
        path = [last] if before is None else [before, last]
        grad = path[0]
        if grad.info.derivative_of not in norm.info.choices("activation") or norm.attr("activation") != "none":
            return None
        activation = producers.get(grad.inputs[1])
        if activation is None or activation.name != grad.info.derivative_of or _slope(activation) != _slope(grad):
            return None
        inner = producers.get(activation.inputs[0])
        if inner is norm:  # with a residual of its own, batch norm's input does not tell the activation's derivative
            return cls(grad, path, norm_grad, norm, None) if norm.input("residual") is None else None
        if inner is not None and inner.name == "add" and norm.outputs[0] in inner.inputs:
            return cls(grad, path, norm_grad, norm, inner)
        return None

    def obstacle(self, readers: DataReaders) -> str:
        """Why the two gradients cannot be one; "" when they can."""
        for op, reader in zip(self.path, [*self.path[1:], self.norm_grad], strict=True):
            if self.add is None and readers.only(op.outputs[0]) is not reader:
                return readers.why_not_only(op.outputs[0], reader)
        if self.add is not None and any(self.norm_grad.inputs[5:]):
            return "the statistics have a gradient of their own"
        y, dy = self.norm.outputs[0], self.path[0].outputs[0]
        if self.add is not None and not y.program.equal_shapes(y, dy):
            return "the residual broadcasts"
        if len(self.path) == 2 and readers.only(self.path[1].outputs[0]) is not self.norm_grad:
            return readers.why_not_only(self.path[1].outputs[0], self.norm_grad)
        return ""

    def fused(self) -> Operation:
        """The operator that replaces all of it."""
        grad, norm = self.activation_grad, self.norm
        how = {
            "eps": norm.attr("eps"),
            "activation": grad.info.derivative_of,
            "slope": _slope(grad),
        }
        x, scale, bias = norm.inputs[:3]
        tail = [*norm.outputs[1:], *self.norm_grad.inputs[5:]]
        if self.add is None:
            name, inputs, outputs = "batch_norm_activation_grad", [grad.inputs[0], x, scale, bias], []
        else:
            norm.outputs[0].program.assume_equal_shapes(norm.outputs[0], grad.outputs[0])
            name, inputs, outputs = "batch_norm_residual_grad", [*grad.inputs, x, scale], grad.outputs
        info = registry.OPS[name]
        outputs = [*self.norm_grad.outputs, *outputs]
        return Operation(info, [*inputs, *tail], outputs, info.attr_values(how), self.norm_grad.where)


def _belong_together(norm: Operation, norm_grad: Operation) -> bool:
    same = [norm_grad.input("x"), norm_grad.input("scale"), norm_grad.input("mean"), norm_grad.input("var")]
    return same == [*norm.inputs[:2], *norm.outputs[1:]] and norm.attr("eps") == norm_grad.attr("eps")


@graph_pass(before=("fuse_activation",))
def fuse_batch_norm(program: Program, report: PassReport) -> None:
    """batch_norm or batch_norm_inference, the add of a residual and an activation become one operator.

    The residual may stand before the activation, as in ResNet, or after it, as in DarkNet.
    """
    readers = DataReaders(program)
    fused: dict[Operation, Operation] = {}  # batch norm -> what replaces it and its followers
    gone: set[Operation] = set()
    for op in reversed(program.block.ops):  # an add of two takes the later one, which needs no change of order
        if op.name not in ("batch_norm", "batch_norm_inference") or op.attr("activation") != "none":
            continue
        found = _Forward(op, readers)
        found.follow(gone, report)
        if found.path:
            fused[op] = found.fused()
            gone.update(found.path)
            readers.refer_to_shape_of(op.inputs[0], [op, *found.path[:-1]])
            report.match(f"{chain_of(op, *found.path)} fused")
    program.block.ops = in_order(program, [fused.get(op, op) for op in program.block if op not in gone])


class _Forward:
    """A batch norm and what follows it and can become part of it."""

    def __init__(self, norm: Operation, readers: DataReaders) -> None:
        self.norm, self.readers = norm, readers
        self.path: list[Operation] = []
        self.activation: Operation | None = None
        self.residual: Value | None = norm.input("residual")
        self.residual_last = False

    @property
    def end(self) -> Operation:
        """The last operation that is part of it so far."""
        return self.path[-1] if self.path else self.norm

    def follow(self, taken: set[Operation], report: PassReport) -> None:
        """Takes in the operations that follow, one after the other; operations of `taken` belong to another one."""
        while True:
            y = self.end.outputs[0]
            follower = next((f for f in self.readers.of(y) if self._wants(f) and f not in taken), None)
            if follower is None:
                return
            why = self._obstacle(y, follower)
            if why:
                report.miss(chain_of(self.end, follower), why)
                return
            if follower.name == "add":
                self.residual = self._other(follower, y)
                self.residual_last = self.activation is not None
                self.norm.outputs[0].program.assume_equal_shapes(y, self.residual)
            else:
                self.activation = follower
            self.path.append(follower)

    def _wants(self, op: Operation) -> bool:
        if op.name == "add":
            return self.residual is None
        return op.name in self.norm.info.choices("activation") and self.activation is None

    def _obstacle(self, y: Value, follower: Operation) -> str:
        if follower.name != "add" and not _slope(follower) >= 0:
            return "its slope is negative"
        if self.readers.only(y) is not follower:
            return self.readers.why_not_only(y, follower)
        if follower.name != "add":
            return ""
        residual = self._other(follower, y)
        if not y.program.equal_shapes(y, residual):
            return "the residual broadcasts"
        return "the residual depends on the statistics" if self.readers.depends(residual, self.norm) else ""

    @staticmethod
    def _other(add: Operation, y: Value) -> Value:
        other = add.inputs[1] if add.inputs[0] is y else add.inputs[0]
        assert other is not None
        return other

    def fused(self) -> Operation:
        """The operator that replaces all of it."""
        norm, activation = self.norm, self.activation
        attrs = norm.with_attrs(
            activation=activation.name if activation else "none",
            slope=_slope(activation) if activation else DEFAULT_SLOPE,
            residual_last=self.residual_last,
        )
        inputs = [*norm.inputs[: len(norm.info.inputs) - 1], self.residual]
        return Operation(norm.info, inputs, [self.end.outputs[0], *norm.outputs[1:]], attrs, norm.where)
