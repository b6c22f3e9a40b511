"""cond, while_loop and scan: what a user calls. Eagerly Python runs the bodies; while tracing they become blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from framework import precision
from framework.autograd import tape
from framework.context import context
from framework.control import block as blocks
from framework.control.node import recorded
from framework.errors import AttributeValueError, NotSupportedError, ShapeError
from framework.tensors import Tensor, tensor

Tensors: TypeAlias = "Tensor | Sequence[Tensor]"

MAX_STEPS = 2**62


def cond(pred: Any, if_true: Callable[..., Any], if_false: Callable[..., Any], *args: Tensor) -> Any:
    """`if_true(*args)` where `pred` holds, else `if_false(*args)`; only one of them runs.

    In a Program both are blocks, and must return tensors of the same shapes and types in the same structure. They may
    read any tensor from around them. Differentiable to any order.

    Args:
        pred: one bool, a Tensor or Python's; a Tensor that is known while tracing is decided then.
        if_true, if_false: return a Tensor, or tuples, lists or dicts of Tensors.
        args: tensors that are passed on.

    Raises:
        ShapeError: the results do not fit each other.
    """
    if not (isinstance(pred, Tensor) and _is_traced(pred)):
        return if_true(*args) if bool(pred) else if_false(*args)
    values = _values(args)
    yes, no = blocks.Body(if_true, values), blocks.Body(if_false, values)
    if yes.structure != no.structure:
        raise ShapeError(
            "cond: the two functions return different structures; return as many tensors in the same order"
        )
    captured = blocks.share_captures(yes, no)
    out = recorded("cond", [yes.block, no.block], [pred, *args, *captured], ())
    return blocks.results(yes.structure, out)


def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    state: Tensors,
    *,
    max_iterations: int | None = None,
    must_end: bool = False,
) -> Any:
    """Runs `state = body(*state)` while `condition(*state)` holds.

    In a Program both are blocks, and the state keeps its shapes and types. With `max_iterations` it is differentiable,
    to any order, at the price of that many steps: those after the end only pass the state on.

    Args:
        condition: returns one bool.
        body: returns the next state, as many tensors as it takes.
        state: one tensor, or several.
        max_iterations: at most so many steps.
        must_end: an error, instead of the state so far, where `condition` still holds after these steps. No gradient.

    Returns:
        The last state: a Tensor where `state` is one, else a tuple.

    Raises:
        ShapeError: the state changes its shape or type.
        NotSupportedError: with `must_end`, it would take more steps.
    """
    if max_iterations is not None and max_iterations < 0:
        raise AttributeValueError(f"while_loop: max_iterations is {max_iterations} but must be at least 0")
    start = _several(state)

    def step(*now: Tensor) -> tuple[Tensor, ...]:
        following = _several(body(*now))
        if len(following) != len(now):
            raise ShapeError(f"while_loop: its body returns {len(following)} tensors for a state of {len(now)}")
        return _as_carried(following, now)

    if context.trace is None:
        out = _run_loop(condition, step, start, max_iterations, must_end)
    else:
        out = _record_loop(condition, step, start, max_iterations, must_end)
    return out[0] if isinstance(state, Tensor) else tuple(out)


def _run_loop(
    condition: Callable[..., Any],
    step: Callable[..., tuple[Tensor, ...]],
    state: tuple[Tensor, ...],
    most: int | None,
    must_end: bool,
) -> tuple[Tensor, ...]:
    taken = 0
    while bool(condition(*state)):
        if taken == most:
            if must_end:
                raise NotSupportedError(f"loop: it does not end after {most} steps")
            break
        state = step(*state)
        taken += 1
    return state


def _record_loop(
    condition: Callable[..., Any],
    step: Callable[..., tuple[Tensor, ...]],
    state: tuple[Tensor, ...],
    most: int | None,
    must_end: bool,
) -> tuple[Tensor, ...]:
    values = _values(state)
    test, body = blocks.Body(lambda *now: _as_tensor(condition(*now)), values), blocks.Body(step, values)
    inputs = [*state, *blocks.share_captures(test, body)]
    if most is not None and not must_end and context.grad_enabled and any(t.requires_grad for t in inputs):
        return _bounded(condition, step, state, most)
    attrs = (len(state), MAX_STEPS if most is None else most, must_end)
    return recorded("loop", [test.block, body.block], inputs, attrs)


def _bounded(
    condition: Callable[..., Any], step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...], most: int
) -> tuple[Tensor, ...]:
    """As a scan over the numbers of the steps, so that each step's state is kept for the gradient."""
    import numpy as np

    def one(now: tuple[Tensor, ...], _: tuple[Tensor, ...]) -> Any:
        return cond(_as_tensor(condition(*now)), lambda: step(*now), lambda: now), ()

    return scan(one, state, (tensor(np.arange(most)),))[0]


def scan(body: Callable[..., Any], state: Tensors, columns: Tensors, *, reverse: bool = False) -> tuple[Any, Any]:
    """Runs `state, row = body(state, rows)` over the rows of `columns`, and gathers what it gives for each.

    In a Program the body is a block, which serves any number of rows. The state keeps its shapes and types.
    Differentiable to any order; the gradient keeps the state of each step.

    Args:
        body: takes the state and one row of each column, returns the next state and rows (a Tensor, or a sequence of
            Tensors, which may be empty). State and rows are single tensors where `state` and `columns` are.
        state: what is carried from step to step: one tensor, or a sequence, which may be empty.
        columns: [T, ...] each, at least one.
        reverse: from the last row to the first; what is gathered stays at the place of its row.

    Returns:
        The last state, and the gathered rows [T, ...]: Tensors, or tuples of them, as `body` returns them.

    Raises:
        ShapeError: columns differ in length, or the state changes its shape or type.
    """
    start, over = _several(state), _several(columns)
    if not over:
        raise AttributeValueError("scan: it needs at least one column, for the number of its steps")
    one_state, one_column = isinstance(state, Tensor), isinstance(columns, Tensor)
    single = True

    def step(*values: Tensor) -> tuple[Tensor, ...]:
        nonlocal single
        now, rows = values[: len(start)], values[len(start) :]
        following, given = body(now[0] if one_state else now, rows[0] if one_column else rows)
        single = isinstance(given, Tensor)
        following = _several(following)
        if len(following) != len(start):
            raise ShapeError(f"scan: its body returns a state of {len(following)} tensors, not of {len(start)}")
        return (*_as_carried(following, start), *_several(given))

    if context.trace is not None:
        out = _record_scan(step, start, over, reverse)
    else:
        out = _run_scan(step, start, over, reverse)
    last, gathered = out[: len(start)], out[len(start) :]
    return last[0] if one_state else last, gathered[0] if single else gathered


def _run_scan(
    step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...], columns: tuple[Tensor, ...], reverse: bool
) -> tuple[Tensor, ...]:
    from framework import ops

    steps = columns[0].shape[0]
    if any(c.shape[0] != steps for c in columns):
        raise ShapeError(
            f"scan: columns have {', '.join(str(c.shape[0]) for c in columns)} rows; all must have as many"
        )
    if not steps:
        return _without_rows(step, state, columns)
    carried, gathered = len(state), []
    for t in reversed(range(steps)) if reverse else range(steps):
        out = step(*state, *(c[t] for c in columns))
        _expect_same(state, out)
        state = out[:carried]
        gathered.append(out[carried:])
    rows = gathered[::-1] if reverse else gathered
    return (*state, *(ops.stack(list(column), axis=0) for column in zip(*rows, strict=True)))


def _without_rows(
    step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...], columns: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Of no rows only the shapes are known; a step on zeros tells those of what it would gather."""
    from framework import ops

    with tape.no_grad():
        out = step(*state, *(ops.full(shape=list(c.shape[1:]), value=0.0, dtype=c.dtype) for c in columns))
    rows = out[len(state) :]
    return (*state, *(ops.full(shape=[0, *r.shape], value=0.0, dtype=r.dtype) for r in rows))


def _expect_same(state: tuple[Tensor, ...], following: tuple[Tensor, ...]) -> None:
    for i, (a, b) in enumerate(zip(state, following, strict=False)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ShapeError(
                f"scan: value {i} enters as {a.dtype} {list(a.shape)} but leaves as {b.dtype} {list(b.shape)}; what is "
                "carried from step to step keeps its shape and type"
            )


def _record_scan(
    step: Callable[..., tuple[Tensor, ...]], state: tuple[Tensor, ...], columns: tuple[Tensor, ...], reverse: bool
) -> tuple[Tensor, ...]:
    body = blocks.Body(step, [*_values(state), *(blocks.row_of(v) for v in _values(columns))])
    inputs = [*state, *columns, *blocks.share_captures(body)]
    given = len(body.block.results)
    if context.grad_enabled and any(t.requires_grad for t in inputs):
        body.block.results += body.block.inputs[: len(state)]  # the state of each step, for the gradient
    return recorded("scan", [body.block], inputs, (len(state), len(columns), reverse))[:given]


def _is_traced(t: Tensor) -> bool:
    return t.is_traced or (t.persistable and context.trace is not None)


def _values(tensors: Sequence[Tensor]) -> list[Any]:
    trace = context.trace
    assert trace is not None
    return [trace.value_of(t) for t in tensors]


def _several(tensors: Any) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def _as_carried(following: Sequence[Tensor], now: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """In mixed precision a state keeps the type it came with, whatever operators made of it."""
    if precision.current() == "float32":
        return tuple(following)
    return tuple(
        precision.like(f, n) if f.dtype in precision.PRECISIONS else f for f, n in zip(following, now, strict=True)
    )


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else tensor(bool(x))
