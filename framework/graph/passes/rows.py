"""Tables of vectors: the gradient of a lookup stays the rows that were looked up, all the way into the optimizer."""

from __future__ import annotations

import math

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.optimizer import SMALL
from framework.graph.passes.report import PassReport, chain_of, graph_pass, name_of
from framework.graph.passes.rewriter import Readers
from framework.ops import dispatch

_STEPS = {"adam_step": "adam_rows_step"}


@graph_pass(after=("fold_gradient_scale",), before=("update_early", "group_optimizer_steps", "fuse_chains"))
def keep_gradient_rows(program: Program, report: PassReport) -> None:
    """embedding_grad -> adam_step (and sum_of_squares) becomes embedding_grad_rows -> adam_rows_step.

    The numbers are the same, but no gradient of the table's size is written, and rows that never had one are only read.
    """
    readers, replaced = Readers(program), dict[Operation, list[Operation]]()
    for op in program.block:
        if op.name != "embedding_grad":
            continue
        step = next((r for r in readers.of(op.outputs[0]) if r.name in _STEPS), None)
        if step is None:
            continue
        why = _why_dense(op, step, readers)
        if why:
            report.miss(chain_of(op, step), why)
            continue
        info = dispatch.OPS["embedding_grad_rows"]
        rows = program.make_operation(info, op.inputs, op.attrs, op.where)
        replaced[op], replaced[step] = [rows], [_step_of_rows(program, step, rows)]
        _read_instead(readers.of(op.outputs[0]), op.outputs[0], rows.outputs[1])
        report.match(f"{op} stays rows until {name_of(step)}")
    program.block.ops = [new for op in program.block for new in replaced.get(op, [op])]


def _why_dense(op: Operation, step: Operation, readers: Readers) -> str:
    """Why the whole gradient is needed, or why it may be."""
    gradient, table = op.outputs[0], step.inputs[0]
    if table is None or not table.static or math.prod(table.shape) <= SMALL:
        return "the table is small, or its size may vary"
    others = [r for r in readers.of(gradient) if r is not step and r.name != "sum_of_squares"]
    if others:
        return readers.why_not_only(gradient, step, [r for r in readers.of(gradient) if r not in others])
    if gradient in readers.kept or step.inputs[1] is not gradient or step.inputs.count(gradient) != 1:
        return readers.why_not_only(gradient, step)
    return ""


def _step_of_rows(program: Program, step: Operation, rows: Operation) -> Operation:
    param, _, *others = step.inputs
    inputs: list[Value | None] = [param, *rows.outputs, *others]
    return Operation(dispatch.OPS[_STEPS[step.name]], inputs, step.outputs, step.attrs, step.where)


def _read_instead(ops: list[Operation], old: Value, new: Value) -> None:
    for op in ops:
        if op.name == "sum_of_squares":
            op.inputs = [new if v is old else v for v in op.inputs]
