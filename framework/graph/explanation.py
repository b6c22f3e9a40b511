"""Why a Program is as it is: what its passes found, and which algorithm each convolution takes."""

from __future__ import annotations

from framework import _core
from framework.graph.ir import Operation, Program
from framework.graph.passes.report import place_of
from framework.graph.reports import Explanation, PassReport

NAME = "convolution algorithms"


def explain(program: Program) -> Explanation:
    """What each pass matched and nearly matched, and how convolutions are computed; print it."""
    algorithms = convolution_report(program)
    return Explanation([*program.reports, algorithms] if algorithms else program.reports)


def convolution_report(program: Program) -> PassReport | None:
    """One line for all convolutions of one kind and shape; None where the Program has none.

    Other shapes of input may lead to other algorithms: the choice is the kernel's, at each run.
    """
    alike: dict[str, list[Operation]] = {}
    for op in program.block:
        if "winograd" in op.info.choices("algorithm"):
            alike.setdefault(f"{_shapes(op)}: {_algorithm(op)}", []).append(op)
    if not alike:
        return None
    lines = [f"{what}, {len(ops)} of them{place_of(ops[0])}" for what, ops in alike.items()]
    return PassReport(NAME, matched=lines, is_pass=False)


def _shapes(op: Operation) -> str:
    first, second = op.inputs[:2]
    assert first is not None and second is not None
    return f"{op.name} {first.type_text} {second.type_text} -> {op.outputs[0].type_text}"


def _algorithm(op: Operation) -> str:
    shapes = [None if v is None else v.shape for v in op.inputs]
    dtypes = [None if v is None else v.dtype for v in op.inputs]
    return _core.implementation_of(op.info.native, shapes, dtypes, op.attrs) or "nothing to compute"
