"""Operators of clips as slices, pads and joins of ONNX."""

from __future__ import annotations

from framework.graph.ir import Operation
from framework.onnx.writer import FAR, Writer, exports


@exports("temporal_shift")
def temporal_shift(w: Writer, op: Operation) -> None:
    """Slices of the channels, each with a frame cut at one end and a frame of zeros at the other."""
    x, channels = w.get(op.inputs[0]), int(op.attr("channels"))
    if not channels:
        w.set(op.outputs[0], x)
        return
    rank = len(op.outputs[0].shape)
    from_next = _channels(w, x, rank, 0, channels)
    from_last = _channels(w, x, rank, channels, 2 * channels)
    if op.attr("reverse"):
        moved = [_later(w, op, from_next, rank), _earlier(w, op, from_last, rank)]
    else:
        moved = [_earlier(w, op, from_next, rank), _later(w, op, from_last, rank)]
    rest = _channels(w, x, rank, 2 * channels, FAR)
    w.set(op.outputs[0], w.node("Concat", [*moved, rest], axis=rank - 1))


@exports("unfold_frames")
def unfold_frames(w: Writer, op: Operation) -> None:
    """One strided slice of the padded frames for each place of the window, joined along the channels."""
    rank = len(op.outputs[0].shape)
    size, stride, padding, dilation = (int(op.attr(name)) for name in ("size", "stride", "padding", "dilation"))
    x = _padded(w, op, w.get(op.inputs[0]), rank, padding, padding)
    places = []
    for q in range(size):
        behind = dilation * (size - 1 - q)  # frames that must follow
        limits = [w.ints(q * dilation), w.ints(-behind if behind else FAR), w.ints(1), w.ints(stride)]
        places.append(w.node("Slice", [x, *limits]))
    w.set(op.outputs[0], w.node("Concat", places, axis=rank - 1))


def _channels(w: Writer, x: str, rank: int, start: int, end: int) -> str:
    return w.node("Slice", [x, w.ints(start), w.ints(end), w.ints(rank - 1)])


def _earlier(w: Writer, op: Operation, x: str, rank: int) -> str:
    """Frame t is frame t + 1 of x."""
    return _padded(w, op, w.node("Slice", [x, w.ints(1), w.ints(FAR), w.ints(1)]), rank, 0, 1)


def _later(w: Writer, op: Operation, x: str, rank: int) -> str:
    """Frame t is frame t - 1 of x."""
    return _padded(w, op, w.node("Slice", [x, w.ints(0), w.ints(-1), w.ints(1)]), rank, 1, 0)


def _padded(w: Writer, op: Operation, x: str, rank: int, before: int, after: int) -> str:
    pads = [0, before, *[0] * (rank - 2), 0, after, *[0] * (rank - 2)]
    return w.node("Pad", [x, w.ints(*pads), w.number(0.0, op.outputs[0])], mode="constant")
