"""Fused operators as the nodes of the composition that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.writer import Writer, exports, refuse
from framework.ops.compositions import composition_of
from framework.tensors import Tensor, tensor


def write_composition(w: Writer, op: Operation, nodes: tuple[str, ...]) -> None:
    """The composition's nodes in place of the operator; `nodes` are all kinds that it may be made of."""
    import framework

    attrs = {spec["name"]: value for spec, value in zip(op.info.attrs, op.attrs, strict=True)}
    if attrs.get("p"):
        raise refuse(op, "weights are dropped at random; export a model in evaluation mode")
    given = [v for v in op.inputs if v is not None]

    def composed(*tensors: Tensor) -> Any:
        found = iter(tensors)
        return composition_of(op.info)(*(None if v is None else next(found) for v in op.inputs), **attrs)

    with framework.no_grad():
        examples = [tensor(np.zeros(v.shape, v.dtype)) for v in given]  # their shapes alone count
        traced = framework.program(composed, pass_names=("merge_equal_operations", "drop_dead_code"))
        block = traced.program_for(*examples).program
    before = len(w.nodes)
    for v, name in zip(op.outputs, w.inline(block, [w.get(v) for v in given]), strict=True):
        w.set(v, name)
    assert {node.op_type for node in w.nodes[before:]} <= set(nodes)


@exports("ragged_attention", "ragged_self_attention")
def ragged_attention(w: Writer, op: Operation) -> None:
    """One masked T x T matrix a head, for T tokens of all sequences."""
    nodes = (
        "MatMul", "Where", "Softmax", "Equal", "And", "GreaterOrEqual", "Mul", "Sub", "ReduceLogSumExp", "ReduceMax",
        "ReduceSum", "Range", "Slice", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast", "Shape", "Gather",
        "Identity",
    )  # fmt: skip
    write_composition(w, op, nodes)


@exports("scaled_dot_product_attention")
def attention(w: Writer, op: Operation) -> None:
    """One T x S matrix a head."""
    nodes = (
        "MatMul", "Where", "Softmax", "Equal", "Not", "LessOrEqual", "GreaterOrEqual", "Mul", "Add", "Sub",
        "ReduceLogSumExp", "ReduceMax", "Range", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast", "Shape",
        "Gather", "Identity",
    )  # fmt: skip
    write_composition(w, op, nodes)


@exports("rms_norm")
def rms_norm(w: Writer, op: Operation) -> None:
    """The mean square's reciprocal root: RMSNormalization came with operator set 23."""
    nodes = ("Mul", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Unsqueeze", "Identity")
    write_composition(w, op, nodes)


@exports("rotary_embedding")
def rotary_embedding(w: Writer, op: Operation) -> None:
    """Slices, products and joins: RotaryEmbedding came with operator set 23."""
    nodes = (
        "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze", "Mul", "Add", "Sub", "Concat", "Shape", "Gather",
        "Transpose", "Identity",
    )  # fmt: skip
    write_composition(w, op, nodes)
