"""Control flow: blocks become functions of lax.cond, lax.while_loop and lax.scan. Faults travel with the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from framework.graph.ir import Operation, Program
from framework.xla.lower import BLOCKS, Array, Lowering

_UNBOUNDED = 2**31  # steps of a loop that need no counting


def _block(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        BLOCKS[name] = function
        return function

    return declare


def _run(lowering: Lowering, program: Program, inputs: Sequence[Array]) -> tuple[list[Array], Array]:
    """The results of a block, and what data it refused."""
    inner = lowering.inner()
    results = inner.block(program, inputs)
    return results, inner.faults.state


def _first(found: Array, later: Array) -> Array:
    return jnp.where(found[0] > 0, found, later)


@_block("cond")
def _cond(lowering: Lowering, op: Operation, inputs: Sequence[Array]) -> list[Array]:
    predicate, *given = inputs
    branches = [lambda xs, block=block: _run(lowering, block, xs) for block in op.blocks]
    results, faults = lax.cond(predicate.reshape(()).astype(bool), *branches, given)
    lowering.faults.merge(faults)
    return list(results)


@_block("loop")
def _loop(lowering: Lowering, op: Operation, inputs: Sequence[Array]) -> list[Array]:
    count, most, must_end = op.attrs
    start, captured = inputs[:count], list(inputs[count:])
    test, body = op.blocks

    def holds(state: Sequence[Array]) -> Array:
        return _run(lowering, test, [*state, *captured])[0][0].reshape(()).astype(bool)

    def goes_on(carry: Any) -> Array:
        taken, faults, state = carry
        bounded = taken < most if most < _UNBOUNDED else True
        return holds(state) & bounded & (faults[0] == 0)

    def step(carry: Any) -> Any:
        taken, faults, state = carry
        following, found = _run(lowering, body, [*state, *captured])
        return taken + 1, _first(faults, found), [f.astype(s.dtype) for f, s in zip(following, state, strict=True)]

    taken, faults, state = lax.while_loop(goes_on, step, (jnp.int64(0), jnp.zeros(2, jnp.int64), list(start)))
    lowering.faults.merge(faults)
    if must_end:
        lowering.faults.note(holds(state), taken, "loop: it does not end after {} steps", op.where)
    return list(state)


@_block("scan")
def _scan(lowering: Lowering, op: Operation, inputs: Sequence[Array]) -> list[Array]:
    count, columns, reverse = op.attrs
    start, over, captured = inputs[:count], inputs[count : count + columns], inputs[count + columns :]

    def step(carry: Any, rows: Sequence[Array]) -> Any:
        faults, state = carry
        results, found = _run(lowering, op.blocks[0], [*state, *rows, *captured])
        following = [f.astype(s.dtype) for f, s in zip(results[:count], state, strict=True)]
        return (_first(faults, found), following), results[count:]

    (faults, state), gathered = lax.scan(
        step, (jnp.zeros(2, jnp.int64), list(start)), list(over), reverse=bool(reverse)
    )
    lowering.faults.merge(faults)
    return [*state, *gathered]
