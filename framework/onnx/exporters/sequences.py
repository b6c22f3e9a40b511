"""What goes through sequences row by row, as nodes of ONNX: maxima, LSTM and GRU, the best path of a chain.

The rows are laid out as [L, B, ...], L steps of the longest of B sequences, and taken back to [T, ...] afterwards. What
stands behind a sequence's end is a row of another sequence, which the lengths hide.

Letters: T rows, B sequences, L steps, C features, H hidden units, S directions, K tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from framework.graph.ir import Operation, Program, Value
from framework.onnx.exporters.ragged import Rows, column, count_up, input_of, of_sequence, row, rows_of
from framework.onnx.writer import Writer, element_number, exports, refuse

_INT32, _INT64, _BOOL = 6, 7, 9
_DIRECTIONS = {"forward": "forward", "reverse": "reverse", "both": "bidirectional"}


class _Steps(NamedTuple):
    """Names of the sequences' rows, their lengths [B], the row of each step [L, B], whether it is one [L, B], and the
    place of each row [T] among the L * B.
    """

    rows: Rows
    lengths: str
    taken: str
    inside: str
    places: str


def _steps(w: Writer, op: Operation, x: Value) -> _Steps:
    r = rows_of(w, op, x)
    lengths = w.node("Sub", [r.ends, r.begins])
    steps = column(w, count_up(w, w.node("ReduceMax", [lengths], keepdims=0)))
    last = w.node("Sub", [w.node("Squeeze", [w.node("Shape", [r.rows])]), w.constant(np.array(1, np.int64))])
    taken = w.node("Min", [w.node("Add", [steps, row(w, r.begins)]), last])
    inside = w.node("Less", [steps, row(w, lengths)])
    step = w.node("Sub", [r.rows, of_sequence(w, r, r.begins)])
    places = w.node("Add", [w.node("Mul", [step, w.node("Shape", [lengths])]), r.segments])
    return _Steps(r, lengths, taken, inside, places)


def _laid_out(w: Writer, s: _Steps, name: str) -> str:
    """[T, ...] as [L, B, ...]."""
    return w.node("Gather", [name, s.taken], axis=0)


def _laid_back(w: Writer, s: _Steps, name: str, *tail: int) -> str:
    """[L, B, tail] as [T, tail]."""
    return w.node("Gather", [w.node("Reshape", [name, w.ints(-1, *tail)]), s.places], axis=0)


@exports("segment_max")
def segment_max(w: Writer, op: Operation) -> None:
    """The largest over all steps, with -infinity behind a sequence's end."""
    x = input_of(op, "x")
    y, rows = op.outputs
    s = _steps(w, op, x)
    axes = list(range(2, len(x.shape) + 1))
    inside = w.node("Unsqueeze", [s.inside, w.ints(*axes)]) if axes else s.inside
    padded = w.node("Where", [inside, _laid_out(w, s, w.get(x)), w.number(-np.inf, x)])
    w.set(y, w.node("ReduceMax", [padded], axes=[0], keepdims=0))
    if w.is_used(rows):
        begins = w.node("Unsqueeze", [s.rows.begins, w.ints(*range(1, len(x.shape)))]) if axes else s.rows.begins
        w.set(rows, w.node("Add", [w.node("ArgMax", [padded], axis=0, keepdims=0), begins]))


@exports("lstm")
def lstm(w: Writer, op: Operation) -> None:
    """LSTM, with the product before it as its own."""
    y, h, c, *hidden = op.outputs
    _recurrent(w, op, "LSTM", (0, 3, 1, 2), None, [y, h, c], hidden, ("h0", "c0"))


@exports("gru")
def gru(w: Writer, op: Operation) -> None:
    """GRU with linear_before_reset, and the product before it as its own."""
    y, h, *hidden = op.outputs
    _recurrent(w, op, "GRU", (1, 0, 2), op.input("bias_h"), [y, h], hidden, ("h0",), linear_before_reset=1)


def _recurrent(
    w: Writer,
    op: Operation,
    name: str,
    order: Sequence[int],
    bias_h: Value | None,
    outputs: Sequence[Value],
    hidden: Sequence[Value],
    states: Sequence[str],
    **attributes: Any,
) -> None:
    """`order` says which of our gates stand where ONNX has its first, second ...; `hidden` is for gradients alone."""
    if any(w.is_used(v) for v in hidden):
        raise refuse(op, "its gates are read, as a gradient does; export what only runs forward")
    x_gates, weight_h = input_of(op, "x_gates"), w.array(input_of(op, "weight_h"))
    added = None if bias_h is None else w.array(bias_h)
    if weight_h is None or (bias_h is not None and added is None):
        raise refuse(op, "its weights are computed; ONNX takes constants")
    directions, _, size = weight_h.shape

    def ordered(array: np.ndarray) -> np.ndarray:
        parts = array.reshape(directions, len(order), size, *array.shape[1 if array.ndim < 3 else 2 :])
        return parts[:, list(order)].reshape(directions, len(order) * size, *parts.shape[3:])

    x, weight_x, bias_x = _product(w, x_gates)
    none = np.zeros(directions * len(order) * size, weight_h.dtype)
    biases = [ordered(none if b is None else b.reshape(-1)) for b in (bias_x, added)]
    s = _steps(w, op, x)
    names = w.nodes_out(
        name,
        [
            _laid_out(w, s, w.get(x)),
            w.constant(ordered(weight_x)),
            w.constant(ordered(weight_h)),
            w.constant(np.concatenate(biases, axis=1)),
            w.node("Cast", [s.lengths], to=_INT32),
            *(w.get(op.input(state)) for state in states),
        ],
        len(outputs),
        hidden_size=size,
        direction=_DIRECTIONS[op.attr("direction")],
        **attributes,
    )
    by_step = w.node("Transpose", [names[0]], perm=[0, 2, 1, 3])  # [L, S, B, H]
    names[0] = _laid_back(w, s, by_step, directions * size)
    for v, found in zip(outputs, names, strict=True):
        w.set(v, found)


def _product(w: Writer, x_gates: Value) -> tuple[Value, np.ndarray, np.ndarray | None]:
    """x, weights and bias whose product the gates are; the gates themselves and a unit matrix where there is none."""
    op = w.maker(x_gates)
    if op is not None and op.name == "matmul" and _is_plain(op):
        x, weight, bias = input_of(op, "a"), w.array(input_of(op, "b")), op.input("bias")
        known = None if bias is None else w.array(bias)
        if weight is not None and len(x.shape) == 2 and (bias is None or known is not None):
            return x, weight, known
    return x_gates, np.eye(x_gates.shape[1], dtype=x_gates.dtype), None


def _is_plain(op: Operation) -> bool:
    """Whether a product is x W' with a bias or none."""
    ways = (op.attr("transpose_a"), op.attr("transpose_b"), op.attr("activation"), op.input("residual"))
    return ways == (False, True, "none", None)


@exports("crf_decode")
def crf_decode(w: Writer, op: Operation) -> None:
    """The best path by one Scan to the ends and one back."""
    emissions = input_of(op, "emissions")
    tags, score = op.outputs
    s = _steps(w, op, emissions)
    scores = _laid_out(w, s, w.get(emissions))
    start = w.node(
        "Add", [w.get(input_of(op, "start")), w.node("Gather", [scores, w.constant(np.array(0, np.int64))], axis=0)]
    )
    first = w.node(
        "Equal",
        [count_up(w, w.node("Gather", [w.node("Shape", [scores]), w.constant(np.array(0, np.int64))])), w.ints(0)],
    )
    moves = w.node("And", [s.inside, w.node("Not", [column(w, first)])])
    forward = _forward(w, emissions, w.get(input_of(op, "transitions")))
    ends, backs = w.nodes_out("Scan", [start, scores, moves], 2, body=forward, num_scan_inputs=2)
    ends = w.node("Add", [ends, w.get(input_of(op, "stop"))])
    last = w.node("ArgMax", [ends], axis=1, keepdims=0)
    turned = _turned(w, backs)
    _, path = w.nodes_out("Scan", [last, turned], 2, body=_backward(w), num_scan_inputs=1)
    w.set(tags, _laid_back(w, s, _turned(w, path)))
    empty = w.node("Equal", [s.lengths, w.ints(0)])
    best = w.node("ReduceMax", [ends], axes=[1], keepdims=0)
    w.set(score, w.node("Where", [empty, w.number(0.0, emissions), best]))


def _turned(w: Writer, name: str) -> str:
    """The steps [L, ...] from the last to the first."""
    steps = w.node("Gather", [w.node("Shape", [name]), w.constant(np.array(0, np.int64))])
    down = w.node("Sub", [w.node("Sub", [steps, w.constant(np.array(1, np.int64))]), count_up(w, steps)])
    return w.node("Gather", [name, down], axis=0)


def _forward(w: Writer, emissions: Value, transitions: str) -> Any:
    """A step: the score of the best path to each tag [B, K] -> the next, and the tag it came from [B, K]."""
    inner = Writer(Program(), w)
    scores, emitted, moves = (inner.fresh(hint) for hint in ("scores", "emitted", "moves"))
    both = inner.node("Add", [inner.node("Unsqueeze", [scores, inner.ints(2)]), transitions])
    best = inner.node("Add", [inner.node("ReduceMax", [both], axes=[1], keepdims=0), emitted])
    source = inner.node("ArgMax", [both], axis=1, keepdims=0)
    here = inner.node("Unsqueeze", [moves, inner.ints(1)])
    stays = inner.constant(np.arange(emissions.shape[1], dtype=np.int64))
    results = [inner.node("Where", [here, best, scores]), inner.node("Where", [here, source, stays])]
    kind = element_number(emissions)
    ports = [(scores, kind, 2), (emitted, kind, 2), (moves, _BOOL, 1)]
    return _graph(inner, ports, [(results[0], kind, 2), (results[1], _INT64, 2)])


def _backward(w: Writer) -> Any:
    """A step: the tag here [B] and the tags that each came from [B, K] -> the tag before, and the one here."""
    inner = Writer(Program(), w)
    tag, source = inner.fresh("tag"), inner.fresh("source")
    before = inner.node("GatherElements", [source, inner.node("Unsqueeze", [tag, inner.ints(1)])], axis=1)
    results = [inner.node("Squeeze", [before, inner.ints(1)]), inner.node("Identity", [tag])]
    return _graph(inner, [(tag, _INT64, 1), (source, _INT64, 2)], [(name, _INT64, 1) for name in results])


def _graph(inner: Writer, inputs: Sequence[tuple[str, int, int]], outputs: Sequence[tuple[str, int, int]]) -> Any:
    """The body of a Scan; inputs and outputs are (name, type, number of axes)."""

    def ports(of: Sequence[tuple[str, int, int]]) -> list[Any]:
        make = inner.helper.make_tensor_value_info
        return [make(name, kind, [f"{name}_{i}" for i in range(axes)]) for name, kind, axes in of]

    return inner.helper.make_graph(inner.nodes, inner.fresh("block"), ports(inputs), ports(outputs), inner.initializers)
