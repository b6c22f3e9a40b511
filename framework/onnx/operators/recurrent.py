"""Recurrent layers of ONNX, unrolled over time. Letters: T steps, B sequences, D hidden size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import extents
from framework.onnx.operators.movement import reversed_steps
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

Function = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, list[Tensor]], list[Tensor]]
MakeStep = Callable[..., Step]  # from the activations and the weights of one direction

_ACTIVATIONS: dict[str, Function] = {
    "relu": ops.relu,
    "tanh": ops.tanh,
    "sigmoid": ops.sigmoid,
    "softsign": ops.softsign,
    "softplus": ops.softplus,
}


def _activations(node: Node, defaults: Sequence[str], direction: int) -> list[Function]:
    names = node.attr("activations") or list(defaults) * 2
    names = [n.lower() for n in names][direction * len(defaults) :][: len(defaults)]
    if any(n not in _ACTIVATIONS for n in names) or node.attr("activation_alpha"):
        raise node.fail(f"activations {names} are not supported; {', '.join(_ACTIVATIONS)} are, without parameters")
    return [_ACTIVATIONS[n] for n in names]


def _clipped(node: Node) -> Function:
    limit = node.attr("clip")
    return (lambda x: x) if limit is None else (lambda x: ops.clip(x, min=-limit, max=limit))


def _direction(v: Tensor | None, d: int) -> Tensor | None:
    """Part d of axis 0, without it."""
    return None if v is None else ops.squeeze(ops.slice(v, starts=[d], ends=[d + 1], axes=[0]), axis=0)


def _run(
    node: Node,
    x: Tensor,
    lengths: Tensor | None,
    states: Sequence[Tensor | None],
    weights: Sequence[Tensor | None],
    activations: Sequence[str],
    make_step: MakeStep,
) -> Any:
    """All directions of a layer: y [T, directions, B, D] and the last states [directions, B, D].

    `make_step(functions, *weights)` gets the activations, by default those named, and weights of one direction.
    """
    by_batch = bool(node.attr("layout", 0))
    if by_batch:
        x = ops.transpose(x, perm=[1, 0, 2])
        states = [None if s is None else ops.transpose(s, perm=[1, 0, 2]) for s in states]
    steps, batch, _ = extents(x)
    hidden = node.attr("hidden_size")
    kinds = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[node.attr("direction", "forward")]
    ys, lasts = [], []
    for d, backwards in enumerate(kinds):
        first = [_direction(s, d) for s in states]
        zeros = ops.full(shape=[batch, hidden], value=0.0, dtype=x.dtype)
        state = [zeros if s is None else s for s in first]
        step = make_step(_activations(node, activations, d), *(_direction(v, d) for v in weights))
        y, state = _unrolled(node, x, lengths, state, step, steps, backwards)
        ys.append(y)
        lasts.append(state)
    y = ops.concat([ops.expand_dims(v, axis=1) for v in ys], axis=1)
    outs = [ops.concat([ops.expand_dims(s[i], axis=0) for s in lasts], axis=0) for i in range(len(states))]
    if by_batch:
        y = ops.transpose(y, perm=[2, 0, 1, 3])
        outs = [ops.transpose(o, perm=[1, 0, 2]) for o in outs]
    return (y, *outs)


def _unrolled(
    node: Node, x: Tensor, lengths: Tensor | None, state: list[Tensor], step: Step, steps: int, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    if backwards:
        x = _reversed(node, x, lengths)
    found = []
    for t in range(steps):
        now = ops.squeeze(ops.slice(x, starts=[t], ends=[t + 1], axes=[0]), axis=0)
        new = step(now, state)
        y = new[0]
        if lengths is not None:  # sequences that have ended keep their state and give zeros
            alive = ops.expand_dims(ops.greater(ops.cast(lengths, dtype="int64"), t), axis=1)
            new = [ops.where(alive, n, s) for n, s in zip(new, state, strict=True)]
            y = ops.where(alive, y, ops.full_like(y, value=0.0))
        state = new
        found.append(ops.expand_dims(y, axis=0))
    y = ops.concat(found, axis=0)
    return (_reversed(node, y, lengths) if backwards else y), state


def _reversed(node: Node, x: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return ops.flip(x, axes=[0])
    return reversed_steps(x, lengths, time=0, batch=1)


def _biases(b: Tensor | None, parts: int) -> list[Tensor | None]:
    return [None] * parts if b is None else list(ops.split(b, axis=0, sizes=[extents(b)[0] // parts] * parts))


def _affine(x: Tensor, w: Tensor, *biases: Tensor | None) -> Tensor:
    y = ops.matmul(x, w, transpose_b=True)
    for b in biases:
        y = y if b is None else y + b
    return y


@onnx_op("RNN", compute="float")
def rnn(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> Any:
    """h = f(x W' + h R' + b)."""

    clip = _clipped(node)

    def make(functions: Sequence[Function], w: Tensor, r: Tensor, b: Tensor | None) -> Step:
        (f,) = functions
        return lambda now, state: [f(clip(_affine(now, w, *_biases(b, 2)) + _affine(state[0], r)))]

    return _run(node, x, lengths, [h0], [w, r, b], ["tanh"], make)


@onnx_op("GRU", compute="float")
def gru(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> Any:
    """Gates z, r and the candidate h: Cho et al. 2014."""
    size, before, clip = node.attr("hidden_size"), not node.attr("linear_before_reset", 0), _clipped(node)

    def make(functions: Sequence[Function], w: Tensor, r: Tensor, b: Tensor | None) -> Step:
        f, g = functions
        (wz, wr, wh), (rz, rr, rh) = (ops.split(v, axis=0, sizes=[size] * 3) for v in (w, r))
        bz, br, bh, cz, cr, ch = _biases(b, 6)

        def step(now: Tensor, state: list[Tensor]) -> list[Tensor]:
            (h,) = state
            z = f(clip(_affine(now, wz, bz, cz) + _affine(h, rz)))
            reset = f(clip(_affine(now, wr, br, cr) + _affine(h, rr)))
            inner = _affine(reset * h, rh, ch) if before else reset * _affine(h, rh, ch)
            new = g(clip(_affine(now, wh, bh) + inner))
            return [(1.0 - z) * new + z * h]

        return step

    return _run(node, x, lengths, [h0], [w, r, b], ["sigmoid", "tanh"], make)


@onnx_op("LSTM", compute="float")
def lstm(
    node: Node,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
    c0: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> Any:
    """Gates i, o, f and the cell c: Hochreiter and Schmidhuber 1997, with peepholes."""
    size, coupled, clip = node.attr("hidden_size"), bool(node.attr("input_forget", 0)), _clipped(node)

    def make(functions: Sequence[Function], w: Tensor, r: Tensor, b: Tensor | None, p: Tensor | None) -> Step:
        f, g, h_of = functions
        pi, po, pf = _biases(p, 3)
        bw, br = _biases(b, 2)

        def step(now: Tensor, state: list[Tensor]) -> list[Tensor]:
            h, c = state
            i, o, forget, cell = ops.split(_affine(now, w, bw, br) + _affine(h, r), axis=1, sizes=[size] * 4)
            i = f(clip(i if pi is None else i + pi * c))
            forget = 1.0 - i if coupled else f(clip(forget if pf is None else forget + pf * c))
            new = forget * c + i * g(clip(cell))
            o = f(clip(o if po is None else o + po * new))
            return [o * h_of(new), new]

        return step

    return _run(node, x, lengths, [h0, c0], [w, r, b, peepholes], ["sigmoid", "tanh", "tanh"], make)
