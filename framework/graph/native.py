"""From a Program's operations to native objects: the Executable that runs them, and operators that have blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework import _core
from framework.graph.ir import Program, Value
from framework.ops.registry import OpInfo


def number_values(program: Program) -> dict[Value, int]:
    """The numbering of the native side: inputs, states, constants, then results of operations."""
    ordered = [*program.inputs, *program.states, *program.constants]
    ordered += [v for op in program.block for v in op.outputs]
    return {v: i for i, v in enumerate(ordered)}


class Native:
    """A Program's Executable, with those of its blocks.

    Attributes:
        executable: runs it.
        inner: the same of each block, with the block.
    """

    def __init__(self, program: Program) -> None:
        self.numbers = number_values(program)
        self.inner: list[tuple[Program, Native]] = []
        operators = [self._operator(op.info, op.name, op.blocks) for op in program.block]
        rows = [
            (
                operator,
                [-1 if v is None else self.numbers[v] for v in op.inputs],
                [self.numbers[v] for v in op.outputs],
                op.attrs,
            )
            for operator, op in zip(operators, program.block, strict=True)
        ]
        first_state = len(program.inputs)
        updates = [(self.numbers[s] - first_state, self.numbers[v]) for s, v in program.updates.items()]
        self.executable = _core.Executable(
            len(program.inputs),
            len(program.states),
            len(self.numbers),
            list(program.constants.values()),
            rows,
            [self.numbers[v] for v in program.results],
            updates,
        )
        self._operators = operators  # the executable refers to them

    def _operator(self, info: OpInfo, name: str, blocks: Sequence[Program]) -> Any:
        if not blocks:
            return info.native
        inner = [Native(block) for block in blocks]
        self.inner += zip(blocks, inner, strict=True)
        return _with_blocks(name, inner)


def _with_blocks(kind: str, blocks: Sequence[Native]) -> Any:
    return _core.ControlOp(kind, [block.executable for block in blocks], list(blocks))


def control_info(kind: str, blocks: Sequence[Program]) -> OpInfo:
    """The description of one use of `cond`, `loop` or `scan`, which infers the types of what its blocks give."""
    pure = all(op.info.pure for block in blocks for op in block.operations())
    return OpInfo(_with_blocks(kind, [Native(block) for block in blocks]), pure=pure)
