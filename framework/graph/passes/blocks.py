"""What blocks of control flow know of the Program around them."""

from __future__ import annotations

from framework.graph.ir import Operation, Program
from framework.graph.native import control_info
from framework.graph.passes.report import graph_pass, name_of
from framework.graph.reports import PassReport


@graph_pass(after=("freeze_states",), before=("fold_constants", "drop_dead_code"))
def own_captured_constants(program: Program, report: PassReport) -> None:
    """Constants that a block captures become its own: folded there, and prepared once instead of at each step."""
    for op in program.block:
        first, own = _captured_from(op)
        moved = (
            [i for i in range(first + own, len(op.inputs)) if op.inputs[i] in program.constants] if op.blocks else []
        )
        for i in reversed(moved):
            v = op.inputs.pop(i)
            assert v is not None
            for block in op.blocks:
                mine = block.inputs.pop(i - first)
                mine.kind, mine.static = "constant", True
                block.constants[mine] = program.constants[v]
            report.match(f"{v} {v.name or ''} belongs to {name_of(op)} now")
        if moved:
            op.info = control_info(op.name, op.blocks)


def _captured_from(op: Operation) -> tuple[int, int]:
    """How many inputs of an operation its blocks do not get, and how many they get for each step; then it captures."""
    if op.name == "cond":
        return 1, 0
    return 0, sum(op.attr(name) for name in ("carried", "columns") if name in [a["name"] for a in op.info.attrs])
