"""A pass for sums of matrix products, such as the gradients of what several products read."""

from __future__ import annotations

from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import PassReport, chain_of, graph_pass, name_of, place_of
from framework.graph.passes.rewriter import DataReaders, Readers


@graph_pass(after=("fuse_batch_norm",), before=("fuse_activation", "update_early"))
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
            why = _why_not_added(product, add, other, readers, gone)
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


def _why_not_added(product: Operation, add: Operation, other: Value, readers: Readers, gone: set[Operation]) -> str:
    y = product.outputs[0]
    if product in gone:
        return "the product has become part of another one"
    if product.attr("activation") != "none":
        return f"it ends in {product.attr('activation')}"
    if product.input("residual") is not None:
        return "it has a residual already"
    if (other.shape, other.dtype) != (y.shape, y.dtype):
        return f"{other} is {other.type_text}, not {y.type_text}"
    return "" if readers.only(y) is add else readers.why_not_only(y, add)
