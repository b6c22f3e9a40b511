"""Operations with blocks on the tape; their gradients are declared by framework.control.gradient, as rules are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.autograd import saved, tape
from framework.control import block as blocks
from framework.graph.ir import Program
from framework.tensors import Tensor

Gradient = Callable[["ControlNode", Sequence[Tensor | None]], list[Tensor | None]]
GRADIENTS: dict[str, Gradient] = {}  # by the kind of operation


class ControlNode(tape.Node):
    """An operation with blocks on the tape: keeps its inputs and outputs.

    Attributes:
        kind: `cond`, `loop` or `scan`.
        blocks: its blocks.
        given: its inputs, as `saved.keep` keeps them.
    """

    __slots__ = ("blocks", "given", "kind")

    def __init__(
        self,
        kind: str,
        its_blocks: list[Program],
        inputs: Sequence[Tensor],
        attrs: tuple[Any, ...],
        edges: list[Any],
        outputs: Sequence[Tensor],
    ) -> None:
        self.start(edges, [(o._data, o._value) for o in outputs])
        self.kind, self.blocks, self.attrs = kind, its_blocks, attrs
        self.given = [saved.keep(x) for x in inputs]

    @property
    def name(self) -> str:
        """Of the operator."""
        return self.kind

    def free(self) -> None:
        """Lets go of its inputs and outputs."""
        super().free()
        self.given = []

    def gradients(self, dys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """By the kind of operation."""
        return GRADIENTS[self.kind](self, dys)


def recorded(kind: str, its_blocks: list[Program], inputs: Sequence[Any], attrs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Records an operation with blocks, and its node on the tape."""

    def node(edges: list[Any], outputs: list[Tensor]) -> ControlNode:
        return ControlNode(kind, its_blocks, inputs, attrs, edges, outputs)

    return blocks.add_operation(kind, its_blocks, inputs, attrs, node)
