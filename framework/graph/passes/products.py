"""Passes around matrix products in training: sums of products, and gradients of activations that are products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass, name_of, place_of
from framework.graph.passes.rewriter import DataReaders, Readers
from framework.graph.reports import PassReport
from framework.ops import registry


def activation_name(op: Operation) -> str:
    """What the attribute `activation` calls this operation, or that of which it is the derivative."""
    name = op.info.derivative_of or op.name
    return "gelu_tanh" if name == "gelu" and op.attr("approximate") else name


@graph_pass(after=("fuse_batch_norm",), before=("fuse_activation", "fuse_residual_layer_norm", "update_early"))
def accumulate_products(program: Program, report: PassReport) -> None:
    """matmul -> add of a tensor of its shape: the product is added to that tensor, in its memory where it dies there.

    So the gradients of a weight that is used several times, or of a layer's input that several products read, are
    summed by the products themselves. Of two products the later one adds to the earlier one's result.
    """
    readers, producers = DataReaders(program), program.producers()
    position = {op: i for i, op in enumerate(program.block)}
    merged: dict[Operation, Operation] = {}  # addition -> product
    gone: set[Operation] = set()
    for add in program.block:
        if add.name != "add":
            continue
        found = [(producers[v], w) for v, w in _both_ways(add) if v in producers and producers[v].name == "matmul"]
        for product, other in sorted(found, key=lambda pair: position[pair[0]], reverse=True):
            why = _why_not_added(program, product, add, other, readers, gone)
            if why:
                report.miss(chain_of(product, add), why)
                continue
            y = product.outputs[0]
            program.assume_equal_shapes(y, other)
            inputs = [*product.inputs[:2], product.input("bias"), other]
            merged[add] = Operation(product.info, inputs, add.outputs, product.attrs, product.where)
            gone.add(product)
            readers.refer_to_shape_of(add.outputs[0], [product])
            report.match(f"{add} fused into {name_of(product)}{place_of(add)}")
            break
    program.block.ops = [merged.get(op, op) for op in program.block if op not in gone]


def _both_ways(add: Operation) -> list[tuple[Any, Any]]:
    a, b = add.inputs
    return [(a, b), (b, a)]


def _why_not_added(
    program: Program, product: Operation, add: Operation, other: Value, readers: Readers, gone: set[Operation]
) -> str:
    y = product.outputs[0]
    if product in gone:
        return "the product has become part of another one"
    if product.attr("activation") != "none":
        return f"it ends in {product.attr('activation')}"
    if product.input("residual") is not None:
        return "it has a residual already"
    if not program.equal_shapes(y, other) or other.dtype != y.dtype:
        return f"{other} is {other.type_text}, not always {y.type_text}"
    if readers.depends(other, product):
        return f"{other} is made from it"
    return "" if readers.only(y) is add else readers.why_not_only(y, add)


@graph_pass(after=("fuse_batch_norm_grad",), before=("update_early", "fuse_chains"))
def fuse_activation_grad(program: Program, report: PassReport) -> None:
    """matmul -> relu_grad, gelu_grad, ... becomes one operator, matmul_activation_grad."""
    readers, producers = DataReaders(program), program.producers()
    endings = registry.OPS["matmul_activation_grad"].choices("activation")
    merged: dict[Operation, Operation] = {}
    gone: set[Operation] = set()
    for op in program.block:
        if not op.info.derivative_of or activation_name(op) not in endings:
            continue
        product = _product_behind(op, producers)
        if product is None:
            continue
        why = _why_not_ended(product, op, readers)
        if why:
            report.miss(chain_of(product, op), why)
            continue
        merged[op] = _with_gradient(product, op)
        gone.add(product)
        readers.refer_to_shape_of(op.inputs[1], [product])
        report.match(f"{op} fused into {name_of(product)}{place_of(op)}")
    program.block.ops = [merged.get(op, op) for op in program.block if op not in gone]


def _product_behind(op: Operation, producers: Mapping[Any, Operation]) -> Operation | None:
    product = producers.get(op.inputs[0])
    return product if product is not None and product.name == "matmul" else None


def _why_not_ended(product: Operation, op: Operation, readers: Readers) -> str:
    if product.attr("activation") != "none":
        return f"it ends in {product.attr('activation')}"
    if product.input("bias") is not None or product.input("residual") is not None:
        return "it adds a bias or a residual"
    if op.name == "leaky_relu_grad" and op.attr("slope") < 0:
        return "its slope is negative"
    y = product.outputs[0]
    return "" if readers.only(y) is op else readers.why_not_only(y, op)


def _with_gradient(product: Operation, op: Operation) -> Operation:
    info = registry.OPS["matmul_activation_grad"]
    how = {name: product.attr(name) for name in ("transpose_a", "transpose_b")}
    slope = {"slope": op.attr("slope")} if op.name == "leaky_relu_grad" else {}
    attrs = info.attr_values({**how, **slope, "activation": activation_name(op)})
    return Operation(info, [*product.inputs[:2], op.inputs[1]], op.outputs, attrs, op.where)
