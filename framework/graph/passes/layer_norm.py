"""A pass that makes dropout, the add of a residual and layer norm one operator, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass
from framework.graph.passes.rewriter import DataReaders, in_order
from framework.graph.reports import PassReport
from framework.ops import registry


@graph_pass(
    after=("merge_equal_operations", "fuse_bias", "fuse_residual"), before=("update_early", "recompute_activations")
)
def fuse_residual_layer_norm(program: Program, report: PassReport) -> None:
    """[dropout ->] add -> layer_norm becomes residual_layer_norm; the sum may have other readers.

    In a step that trains, layer_norm_grad -> dropout becomes residual_layer_norm_grad, whatever is added to the sum's
    gradient between the two being part of it.
    """
    fuser = _Fuser(program, report)
    for norm in program.block:
        if norm.name == "layer_norm":
            fuser.take(norm)
    fuser.rewrite(program)


class _Fuser:
    """Collects what is fused, and puts it in its place in the end."""

    def __init__(self, program: Program, report: PassReport) -> None:
        self.report = report
        self.readers, self.producers = DataReaders(program), program.producers()
        self.new: dict[Operation, Operation] = {}  # the operation at whose place it stands -> fused operation
        self.gone: set[Operation] = set()

    def take(self, norm: Operation) -> None:
        """Fuses one layer norm with what comes before it, and their gradients."""
        found = _Forward.find(norm, self.readers, self.producers, self.report)
        if found is None or found.add in self.new:
            return
        self._replace(found.add, found.fused(), found.path)
        self.readers.refer_to_shape_of(found.x, found.path[: found.path.index(found.add)])
        for grad in self.readers.of(found.total):
            if grad.name == "layer_norm_grad" and found.dropout is not None:
                back = _Backward.find(found.dropout, grad, self.readers)
                if back is not None:
                    self._replace(back.last, back.fused(), back.path)
                    self.readers.refer_to_shape_of(back.total, back.path[:-1])

    def _replace(self, place: Operation, fused: Operation, path: list[Operation]) -> None:
        self.new[place] = fused
        self.gone.update(op for op in path if op is not place)
        self.report.match(f"{chain_of(*path)} fused")

    def rewrite(self, program: Program) -> None:
        """Puts the fused operations into the block."""
        program.block.ops = in_order(program, [self.new.get(op, op) for op in program.block if op not in self.gone])


@dataclass
class _Forward:
    """A layer norm, the addition before it and the dropout of one summand, if there is one."""

    norm: Operation
    add: Operation
    dropout: Operation | None
    x: Value  # what is dropped out and added to ...
    residual: Value

    @classmethod
    def find(
        cls, norm: Operation, readers: DataReaders, producers: Mapping[Any, Operation], report: PassReport
    ) -> _Forward | None:
        """None where no sum of two tensors of one shape is normalised."""
        add = producers.get(norm.inputs[0])
        if add is None or add.name != "add":
            return None
        a, b = add.inputs
        assert a is not None and b is not None
        if not a.program.equal_shapes(a, b):
            report.miss(chain_of(add, norm), "the residual broadcasts")
            return None
        if any(v is not None and readers.depends(v, add) for v in norm.inputs[1:]):
            report.miss(chain_of(add, norm), "its scale or bias is made from the sum")
            return None
        for x, residual in ((a, b), (b, a)):
            dropout = producers.get(x)
            if dropout is None or dropout.name != "dropout":
                continue
            if readers.only(x) is add:
                assert dropout.inputs[0] is not None
                return cls(norm, add, dropout, dropout.inputs[0], residual)
            report.miss(chain_of(dropout, add, norm), readers.why_not_only(x, add))
        return cls(norm, add, None, a, b)

    @property
    def total(self) -> Value:
        """The sum."""
        return self.add.outputs[0]

    @property
    def path(self) -> list[Operation]:
        """What the fused operation stands for."""
        return [op for op in (self.dropout, self.add, self.norm) if op is not None]

    def fused(self) -> Operation:
        """The operation that gives all results of the path but the dropout's."""
        a, b = self.add.inputs
        assert a is not None and b is not None
        self.x.program.assume_equal_shapes(a, b)
        info, norm = registry.OPS["residual_layer_norm"], self.norm
        key = self.dropout.input("key") if self.dropout else None
        p = self.dropout.attr("p") if self.dropout else 0.0
        y, mean, rstd = norm.outputs
        inputs = [self.x, self.residual, norm.input("scale"), norm.input("bias"), key]
        attrs = info.attr_values({"p": p, "eps": norm.attr("eps")})
        return Operation(info, inputs, [y, self.total, mean, rstd], attrs, norm.where)


@dataclass
class _Backward:
    """The gradient of a layer norm, what is added to it, and the dropout of the sum."""

    grad: Operation
    add: Operation | None
    cut: Operation | None  # a sum_to that changes nothing, since nothing broadcast
    dropout: Operation
    dsum: Value | None
    total: Value  # the gradient of the sum

    @classmethod
    def find(cls, forward: Operation, grad: Operation, readers: DataReaders) -> _Backward | None:
        """None where the gradient of the dropout `forward` is not taken of this result."""
        total, add, dsum = grad.outputs[0], None, None
        follower = readers.only(total)
        if follower is not None and follower.name == "add":
            add = follower
            dsum = add.inputs[1] if add.inputs[0] is total else add.inputs[0]
            total = add.outputs[0]
            if dsum is None or readers.depends(dsum, grad) or not total.program.equal_shapes(dsum, total):
                return None
        for reader in readers.of(total):
            cut = reader if reader.name == "sum_to" and total.program.equal_shapes(reader.outputs[0], total) else None
            dropout = readers.only(cut.outputs[0]) if cut is not None else reader
            if dropout is not None and _same_dropout(dropout, forward):
                return cls(grad, add, cut, dropout, dsum, total)
        return None

    @property
    def path(self) -> list[Operation]:
        """What the fused operation stands for."""
        return [op for op in (self.grad, self.add, self.cut, self.dropout) if op is not None]

    @property
    def last(self) -> Operation:
        """The operation after which all inputs of the fused one are there."""
        return self.add or self.grad

    def fused(self) -> Operation:
        """The operation that gives the gradients of the dropout's input, the residual, scale and bias."""
        for same in (self.dsum, self.cut.outputs[0] if self.cut is not None else None):
            if same is not None:
                self.total.program.assume_equal_shapes(same, self.total)
        info, grad = registry.OPS["residual_layer_norm_grad"], self.grad
        dy, total, mean, rstd = grad.inputs[:4]
        inputs = [dy, total, mean, rstd, self.dropout.input("key"), grad.input("scale"), self.dsum]
        inputs += [grad.input("dmean"), grad.input("drstd")]
        outputs = [self.dropout.outputs[0], self.total, *grad.outputs[1:]]
        return Operation(info, inputs, outputs, info.attr_values({"p": self.dropout.attr("p")}), grad.where)


def _same_dropout(op: Operation, forward: Operation) -> bool:
    if op.name != "dropout":
        return False
    return op.input("key") is forward.input("key") and op.attr("p") == forward.attr("p")
