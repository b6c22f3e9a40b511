"""A value of a Program: what a tensor stands for while one is traced. Below the tensor; Programs are in graph.ir."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

Kind = Literal["input", "state", "constant", "temporary"]


class Owner(Protocol):
    """What a value asks of its Program.

    Attributes:
        on_shape_read: called when Python reads an input-dependent shape; None when it is not being traced.
    """

    on_shape_read: Callable[[Any], None] | None

    def next_id(self) -> int:
        """A number that no value of it has yet."""

    def equal_shapes(self, a: Value | None, b: Value | None) -> bool:
        """Whether a pass may take two values to have one shape: it must then call `assume_equal_shapes`."""

    def assume_equal_shapes(self, a: Value, b: Value) -> None:
        """Notes that an operator which a pass emits is only right while `a` and `b` have one shape."""


class Value:
    """One value: defined once, by the Program's border (input, state, constant) or by an operation.

    `static` says that its shape cannot vary from call to call, as with a parameter's.
    """

    __slots__ = ("dtype", "id", "kind", "name", "program", "shape", "static")

    def __init__(self, program: Owner, kind: Kind, shape: tuple[int, ...], dtype: str, name: str | None = None) -> None:
        self.program = program
        self.id = program.next_id()
        self.kind: Kind = kind
        self.shape = tuple(shape)
        self.dtype = dtype
        self.name = name
        self.static = kind in ("state", "constant")

    def read_shape(self) -> tuple[int, ...]:
        """The shape, for code that runs while tracing; ties the Program to its input shapes unless it is static."""
        if not self.static and self.program.on_shape_read is not None:
            self.program.on_shape_read(self)
        return self.shape

    @property
    def type_text(self) -> str:
        """Such as `float32[8, 20, 20, 64]`."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        prefix = {"input": "%in", "state": "%s", "constant": "%c", "temporary": "%"}[self.kind]
        return f"{prefix}{self.id}"
