"""Optimizer steps: clipping's factor goes into them, and those of small parameters become one operator."""

from __future__ import annotations

import math

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import chain_of, graph_pass, name_of
from framework.graph.passes.rewriter import Readers, in_order
from framework.graph.reports import PassReport
from framework.ops import registry


def _steps() -> dict[str, tuple[int, tuple[str, ...]]]:
    """Steps of one parameter that have a form for a group, as their blocks say: `x_step` and `x_steps`.

    By name: how many tensors are a parameter's own (the first inputs), and the scalars that all of a group share.
    """
    found = {}
    for name, info in registry.OPS.items():
        if name.endswith("_step") and f"{name}s" in registry.OPS:
            shared = tuple(a["name"] for a in registry.OPS[f"{name}s"].inputs if not a["variadic"])
            found[name] = (len(info.inputs) - len(shared), shared)
    return found


STEPS = _steps()
# Steps of some rows of a table: their gradient is the input `values`.
ROW_STEPS = frozenset(name for name in registry.OPS if name.endswith("_rows_step"))
SMALL = 16384  # elements: a parameter that keeps one thread busy for a few microseconds


@graph_pass(before=("update_early", "group_optimizer_steps", "fuse_chains"))
def fold_gradient_scale(program: Program, report: PassReport) -> None:
    """mul of a gradient by one number -> optimizer step becomes the step's `grad_scale`: clipping writes nothing.

    The step then skips nothing: a factor that is NaN makes the weights NaN, as the product would.
    """
    readers, producers = Readers(program), program.producers()
    gone: set[Operation] = set()
    for op in program.block:
        if op.name not in ROW_STEPS and "grad_scale" not in STEPS.get(op.name, (0, ()))[1]:
            continue
        name = "values" if op.name in ROW_STEPS else "grad"
        gradient = op.input(name)
        product = producers.get(gradient) if gradient is not None else None
        if product is None or product.name != "mul" or product.inputs[1] is None or product.inputs[1].shape:
            continue
        is_one = product.inputs[1] in program.constants and program.constants[product.inputs[1]].item() == 1
        if op.input("grad_scale") is not None and not is_one:
            report.miss(chain_of(product, op), "the step has a factor already")
        elif readers.only(product.outputs[0]) is not op:
            report.miss(chain_of(product, op), readers.why_not_only(product.outputs[0], op))
        else:
            names = [a["name"] for a in op.info.inputs]
            inputs = dict(zip(names, op.inputs, strict=False)) | {name: product.inputs[0]}
            if op.input("grad_scale") is None:
                inputs["grad_scale"], op.attrs = product.inputs[1], op.with_attrs(skip=False)
            op.inputs = [inputs[n] for n in names]
            gone.add(product)
            report.match(f"{product} folded into {name_of(op)}")
    program.block.ops = [op for op in program.block if op not in gone]


@graph_pass(after=("update_early",))
def group_optimizer_steps(program: Program, report: PassReport) -> None:
    """Steps of small parameters with equal attributes and scalars become one operator each.

    Large parameters keep their own: each can then be updated as soon as its gradient is there, and the gradient dies.
    """
    groups: dict[tuple[object, ...], list[Operation]] = {}
    readers = Readers(program)
    for op in program.block:
        if op.name not in STEPS:
            continue
        why = _why_alone(op, readers)
        if why:
            report.miss(f"{name_of(op)}", why)
            continue
        scalars = tuple(op.input(name) for name in STEPS[op.name][1])
        groups.setdefault((op.name, op.attrs, op.outputs[0].dtype, scalars), []).append(op)
    for members in groups.values():
        most = _most(members[0])
        for i in range(0, len(members), most):
            part = members[i : i + most]
            if len(part) > 1:
                _replace(program, part)
                report.match(f"{len(part)} {part[0].name} in one {part[0].name}s")


def _why_alone(op: Operation, readers: Readers) -> str:
    param = op.inputs[0]
    if param is None or not param.static:
        return "its parameter's shape may vary"
    if math.prod(param.shape) > SMALL:
        return f"its {math.prod(param.shape)} elements are enough for an operator of its own"
    others = [r for v in op.outputs for r in readers.of(v) if r.name != "ema_step"]
    return f"its result is read by {name_of(others[0])}" if others else ""


def _most(step: Operation) -> int:
    """How many parameters of a group are updated in their own memory, as the group's block says."""
    return (max(output for _, output in registry.OPS[f"{step.name}s"].in_place) + 1) // len(step.outputs)


def _replace(program: Program, members: list[Operation]) -> None:
    """Puts a group in the place of its last member, or just before the first operation that reads a result."""
    first, last = members[0], members[-1]
    tensors, scalars = STEPS[first.name]
    inputs: list[Value | None] = [first.input(name) for name in scalars]
    for op in members:
        inputs += op.inputs[:tensors]
    info = registry.OPS[first.name + "s"]
    group = Operation(info, inputs, [v for op in members for v in op.outputs], first.attrs, last.where)
    program.block.ops = in_order(
        program, [group if op is last else op for op in program.block if op is last or op not in members]
    )
