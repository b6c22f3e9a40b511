"""One run of an operator's kernel, as a profile records it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from framework.ops.registry import find
from framework.profiler.work import Shape, Work, work


@dataclass(frozen=True)
class Call:
    """One run of one operator's kernel.

    Attributes:
        operator: its name.
        begin_ns, end_ns: of the clock of `time.perf_counter_ns`.
        implementation: which of its ways to work it took, such as "winograd F(4x4,3x3)"; "" when it has one only.
        inputs, outputs: (shape, data type) each; None for an absent optional input.
        attrs: values in signature order.
        where: the user's `file:line` that caused it; "" for an eager call.
        program: which Program it belongs to, by its executable's id; -1 for an eager call.
        instruction: its place among the Program's operations.
    """

    operator: str
    begin_ns: int
    end_ns: int
    implementation: str
    inputs: list[tuple[Shape, str] | None]
    outputs: list[tuple[Shape, str]]
    attrs: tuple[Any, ...]
    where: str
    program: int = -1
    instruction: int = -1

    @property
    def seconds(self) -> float:
        """How long it ran."""
        return (self.end_ns - self.begin_ns) * 1e-9

    @cached_property
    def work(self) -> Work:
        """Its arithmetic and memory traffic."""
        return work(self.operator, self.inputs, self.outputs, self.attrs)

    @cached_property
    def label(self) -> str:
        """The operator with what matters most for its speed, such as `conv2d 3x3 stride 2`."""
        return f"{self.operator} {self._window()}".rstrip()

    @cached_property
    def shapes(self) -> str:
        """Such as `[4, 80, 80, 64], [64, 3, 3, 64] -> [4, 80, 80, 64]`."""
        inputs = ", ".join("-" if t is None else str(list(t[0])) for t in self.inputs)
        return f"{inputs} -> {', '.join(str(list(shape)) for shape, _ in self.outputs)}"

    def _window(self) -> str:
        """Of a convolution: its kernel, and stride, dilation and groups where they are not 1."""
        info = find(self.operator)
        given = {} if info is None else dict(zip([a["name"] for a in info.attrs], self.attrs, strict=True))
        if info is None or info.library or "stride" not in given or "groups" not in given:
            return ""
        arg_names = [a["name"] for a in info.inputs]
        name = next((n for n in ("depth_weight", "weight") if n in arg_names), None)
        weight = self.inputs[arg_names.index(name)] if name else self.outputs[0]
        if weight is None:
            return ""
        (filters, height, width, depth), groups = weight[0], given["groups"]
        words = [f"{height}x{width}"]
        words += [f"{name} {_extent(given[name])}" for name in ("stride", "dilation") if _extent(given[name]) != "1"]
        if groups != 1:
            words.append("depthwise" if depth == 1 and groups == filters else f"groups {groups}")
        return " ".join(words)


def _extent(value: Any) -> str:
    """(2, 2) as 2, (2, 1) as 2x1."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return "x".join(map(str, values if len(set(values)) > 1 else values[:1]))
