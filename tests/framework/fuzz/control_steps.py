"""Steps of a recipe that are control flow: operations with blocks, which the registry of operators does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework import control, ops
from framework.ops import dispatch
from framework.tensors import Tensor


def branch(x: Tensor, weight: Tensor, *, yes: str, no: str) -> Tensor:
    """One activation of x * weight where x's sum is positive, another one where it is not.

    Both read the weight: eagerly, what only the other branch reads has no gradient at all, in a Program zeros.
    """
    positive = ops.greater(ops.sum(x), ops.full_like(ops.sum(x), value=0.0))
    return control.cond(
        positive, lambda x: _activated(yes, ops.mul(x, weight)), lambda x: _activated(no, ops.add(x, weight)), x
    )


def repeat(x: Tensor, weight: Tensor, *, activation: str, most: int) -> Tensor:
    """x = activation(x @ weight) until the sum of its squares is below 1, at most so many times."""

    def is_large(x: Tensor) -> Tensor:
        total = ops.sum(ops.mul(x, x))
        return ops.greater(total, ops.full_like(total, value=1.0))

    x = ops.matmul(x, weight)  # a loop of no steps gives the weight no gradient eagerly, and zeros in a Program
    return control.while_loop(is_large, lambda x: _activated(activation, ops.matmul(x, weight)), x, max_iterations=most)


def recurrence(start: Tensor, rows: Tensor, weight: Tensor, *, activation: str, reverse: bool) -> tuple[Tensor, Tensor]:
    """h = activation(h * weight + row) over the rows: the last h, and h times the row for each."""

    def step(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        h = _activated(activation, ops.add(ops.mul(h, weight), row))
        return h, ops.mul(h, row)

    return control.scan(step, start, rows, reverse=reverse)


CONTROL: dict[str, Callable[..., Any]] = {f.__name__: f for f in (branch, repeat, recurrence)}


def call(name: str, inputs: Sequence[Tensor | None], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Runs an operator or a step of control flow; its outputs."""
    out = CONTROL[name](*inputs, **attrs) if name in CONTROL else dispatch.call_by_name(name, inputs, **attrs)
    return out if isinstance(out, tuple) else (out,)


def _activated(name: str, x: Tensor) -> Tensor:
    out = dispatch.call_by_name(name, [x])
    assert isinstance(out, Tensor)
    return out
