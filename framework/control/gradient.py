"""Gradients of control flow, made of control flow: so they have gradients too.

The gradient of a block computes the block again from its inputs, and then backwards. That of `scan` is a scan from the
last row to the first, over the states with which the forward pass entered each step, which it gives as results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework.autograd import saved, tape
from framework.control.flow import cond, scan
from framework.control.node import GRADIENTS, ControlNode, recorded
from framework.errors import GradientError
from framework.graph.ir import Operation, Program, Value
from framework.ops.dispatch import apply
from framework.ops.functions import full_like, reshape_like
from framework.tensors import Tensor


def _of_loop(node: ControlNode, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    raise GradientError(
        "while_loop: it has no gradient without a bound, as its steps cannot be kept; give max_iterations, or use scan"
    )


def _of_cond(node: ControlNode, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    pred, *inputs = map(saved.kept, node.given)
    wanted = [i for i, edge in enumerate(node.edges[1:]) if edge is not None]
    yes, no = [lambda b=b: tuple(backwards(b, inputs, wanted, dys)) for b in node.blocks]
    found = cond(pred, yes, no)
    return [None, *_spread(len(inputs), wanted, found)]


def _of_scan(node: ControlNode, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The carried gradients are those of float states and, summed up, of captured tensors."""
    carried, columns, reverse = node.attrs
    block, inputs = node.blocks[0], [saved.kept(x) for x in node.given]
    states = [i for i in range(carried) if inputs[i].dtype in tape.DIFFERENTIABLE]
    rows = [i for i in range(carried, carried + columns) if node.edges[i] is not None]
    captured = [i for i in range(carried + columns, len(inputs)) if node.edges[i] is not None]
    entered = [node.output(len(node.outputs) - carried + i) for i in range(carried)]
    per_row = [i for i in range(carried, len(dys)) if dys[i] is not None]

    def step(state: tuple[Tensor, ...], row: tuple[Tensor, ...]) -> Any:
        now = [*row[:carried], *row[carried : carried + columns], *inputs[carried + columns :]]
        d_outputs = dict(zip(states, state, strict=False)) | dict(zip(per_row, row[carried + columns :], strict=True))
        found = backwards(block, now, [*states, *rows, *captured], [d_outputs.get(i) for i in range(len(dys))])
        d_states, d_rows = found[: len(states)], found[len(states) : len(states) + len(rows)]
        sums = [s + g for s, g in zip(state[len(states) :], found[len(states) + len(rows) :], strict=True)]
        return (*d_states, *sums), tuple(d_rows)

    start = [dy if (dy := dys[i]) is not None else _zeros_like(node.output(i)) for i in states]
    start += [_zeros_like(inputs[i]) for i in captured]
    over = [*entered, *inputs[carried : carried + columns], *(dy for i in per_row if (dy := dys[i]) is not None)]
    last, d_rows = scan(step, tuple(start), tuple(over), reverse=not reverse)
    found = [*last[: len(states)], *d_rows, *last[len(states) :]]
    grads = _spread(len(inputs), [*states, *rows, *captured], found)
    return [g if edge is not None else None for g, edge in zip(grads, node.edges, strict=True)]


def _spread(count: int, places: Sequence[int], values: Sequence[Tensor]) -> list[Tensor | None]:
    spread: list[Tensor | None] = [None] * count
    for i, v in zip(places, values, strict=True):
        spread[i] = v
    return spread


def backwards(
    block: Program, inputs: Sequence[Tensor], wanted: Sequence[int], dys: Sequence[Tensor | None]
) -> list[Tensor]:
    """Gradients of the inputs numbered `wanted` from those of a block's results; the block is computed again."""
    with tape.recording(True):
        views = [_leaf(x) if i in wanted else x.detach() for i, x in enumerate(inputs)]
        outputs = replay(block, views)
    pairs = [(o, dy) for o, dy in zip(outputs, dys, strict=True) if dy is not None and o.requires_grad]
    leaves = [views[i] for i in wanted]
    found: list[Tensor | None] = [None] * len(leaves)
    if pairs:
        found = tape.gradients([o for o, _ in pairs], leaves, [dy for _, dy in pairs])
    return [_zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


def _zeros_like(x: Tensor) -> Tensor:
    return full_like(x.detach(), value=0.0)


def _leaf(x: Tensor) -> Tensor:
    """The same value, at which the block's gradient stops; a view where `x` has a history, which must not be lost."""
    if x.requires_grad:
        return reshape_like(x, x)
    leaf = x.detach()
    leaf.requires_grad = True
    return leaf


def replay(block: Program, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Runs a block's operations once more, as a part of whatever is being traced."""
    known: dict[Value, Any] = dict(zip(block.inputs, inputs, strict=True))
    known |= {v: Tensor(array) for v, array in block.constants.items()}
    for op in block.block:
        given = [None if v is None else known[v] for v in op.inputs]
        known.update(zip(op.outputs, again(op, given), strict=True))
    return [known[v] for v in block.results]


def again(op: Operation, given: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    """The results of an operation once more, of other inputs."""
    if op.blocks:
        out: Any = recorded(op.name, [inner.clone() for inner in op.blocks], given, op.attrs)
    else:
        out = apply(op.info, given, op.attrs)
    return out if isinstance(out, tuple) else (out,)


GRADIENTS |= {"cond": _of_cond, "loop": _of_loop, "scan": _of_scan}
