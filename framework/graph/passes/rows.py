"""Tables of vectors: the gradient of lookups stays the rows that were looked up, all the way into the optimizer."""

from __future__ import annotations

import math

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.optimizer import ROW_STEPS, SMALL
from framework.graph.passes.report import chain_of, graph_pass, name_of
from framework.graph.passes.rewriter import Readers
from framework.graph.reports import PassReport
from framework.ops import registry


@graph_pass(after=("fold_gradient_scale",), before=("update_early", "group_optimizer_steps", "fuse_chains"))
def keep_gradient_rows(program: Program, report: PassReport) -> None:
    """embedding_grad -> an optimizer's step (and sum_of_squares) becomes embedding_grad_rows -> the step of rows.

    Several lookups of one table, whose gradients are added, become one. No gradient of the table's size is written.
    Rows without a gradient are not touched where the rule leaves them alone: SGD without weight decay, `lazy_rows`. For
    Adam those that never had one are only read.
    """
    readers, producers = Readers(program), program.producers()
    replaced: dict[Operation, list[Operation]] = {}
    for step in program.block:
        gradient = _gradient_of(step)
        if gradient is None:
            continue
        sums, lookups = _lookups(gradient, producers)
        if not lookups:
            continue
        why = _why_dense(step, gradient, sums, lookups, readers)
        if why:
            report.miss(chain_of(lookups[0], step), why)
            continue
        made = _rows_of(program, lookups)
        replaced |= {op: [] for op in (*sums, *lookups)}
        replaced[max((*sums, *lookups), key=program.block.ops.index)] = made
        replaced[step] = [_step_of_rows(step, made[-1])]
        _read_instead(readers.of(gradient), gradient, made[-1].outputs[1])
        report.match(f"{lookups[0]} stays rows until {name_of(step)}")
    program.block.ops = [new for op in program.block for new in replaced.get(op, [op])]
    read = {v for op in program.block for v in op.inputs} | program.kept()
    program.constants = {v: a for v, a in program.constants.items() if v in read}  # the numbers of all rows


def _gradient_of(step: Operation) -> Value | None:
    """The gradient that an optimizer's step reads; None for another operation."""
    if step.name in ROW_STEPS:
        return step.input("values")
    return step.input("grad") if step.info.rows_step else None


def _lookups(gradient: Value, producers: dict[Value, Operation]) -> tuple[list[Operation], list[Operation]]:
    """The additions and the gradients of lookups that a gradient is the sum of; no lookups where it is another sum."""
    op = producers.get(gradient)
    if op is not None and op.name == "embedding_grad":
        return [], [op]
    if op is None or op.name != "add":
        return [], []
    parts = [_lookups(v, producers) for v in op.inputs if v is not None]
    if not all(lookups for _, lookups in parts):
        return [], []
    return [*(s for sums, _ in parts for s in sums), op], [x for _, lookups in parts for x in lookups]


def _why_dense(
    step: Operation, gradient: Value, sums: list[Operation], lookups: list[Operation], readers: Readers
) -> str:
    """Why the whole gradient is needed, or why it may be."""
    table = step.inputs[0]
    if table is None or not table.static or math.prod(table.shape) <= SMALL:
        return "the table is small, or its size may vary"
    unless = step.info.rows_step[1] if step.info.rows_step else ""
    if unless and step.attr(unless) != 0:
        return f"{unless.replace('_', ' ')} moves every row"
    if len({op.attrs for op in lookups}) > 1 or len({v.dtype for op in lookups for v in (op.inputs[1],) if v}) > 1:
        return "its lookups differ in padding_idx or in the type of their ids"
    inner = [op for op in (*sums, *lookups) if op.outputs[0] is not gradient]
    for op in inner:
        if len(readers.of(op.outputs[0])) > 1 or op.outputs[0] in readers.kept:
            return readers.why_not_only(op.outputs[0], readers.of(op.outputs[0])[0])
    others = [r for r in readers.of(gradient) if r is not step and r.name != "sum_of_squares"]
    if others:
        return readers.why_not_only(gradient, step, [r for r in readers.of(gradient) if r not in others])
    if gradient in readers.kept or step.inputs.count(gradient) != 1:
        return readers.why_not_only(gradient, step)
    return ""


def _rows_of(program: Program, lookups: list[Operation]) -> list[Operation]:
    """embedding_grad_rows of one lookup, or of several laid end to end, with what it needs before it."""

    def make(name: str, inputs: list[Value | None], **attrs: object) -> Operation:
        info = registry.OPS[name]
        return program.make_operation(info, inputs, info.attr_values(attrs), lookups[0].where)

    first = lookups[0]
    if len(lookups) == 1:
        return [make("embedding_grad_rows", first.inputs, padding_idx=first.attr("padding_idx"))]
    like = first.inputs[2]
    assert like is not None
    flat = [
        (make("reshape", [op.inputs[0]], shape=[-1, like.shape[1]]), make("reshape", [op.inputs[1]], shape=[-1]))
        for op in lookups
    ]
    joined = [make("concat", [pair[k].outputs[0] for pair in flat], axis=0) for k in (0, 1)]
    inputs: list[Value | None] = [joined[0].outputs[0], joined[1].outputs[0], like]
    rows = make("embedding_grad_rows", inputs, padding_idx=first.attr("padding_idx"))
    return [*(op for pair in flat for op in pair), *joined, rows]


def _step_of_rows(step: Operation, rows: Operation) -> Operation:
    info = registry.OPS[step.info.rows_step[0] if step.info.rows_step else step.name]
    param, *others = step.inputs
    others = others[2:] if step.name in ROW_STEPS else others[1:]
    attrs = {a["name"]: v for a, v in zip(step.info.attrs, step.attrs, strict=True)}
    return Operation(info, [param, *rows.outputs, *others], step.outputs, info.attr_values(attrs), step.where)


def _read_instead(ops: list[Operation], old: Value, new: Value) -> None:
    for op in ops:
        if op.name == "sum_of_squares":
            op.inputs = [new if v is old else v for v in op.inputs]
