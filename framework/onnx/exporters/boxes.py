"""Boxes of detectors as nodes of ONNX: coding, anchors, proposals. Letters: N images, P anchors, T proposals kept."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.writer import Writer, element_number, exports


def given(op: Operation, name: str) -> Value:
    """An input that is there."""
    v = op.input(name)
    assert v is not None
    return v


def part(w: Writer, x: str, axis: int, start: int, end: int) -> str:
    """x[..., start:end, ...]."""
    return w.node("Slice", [x, w.ints(start), w.ints(end), w.ints(axis)])


def _corners(w: Writer, boxes: str) -> tuple[str, str]:
    """(x1, y1) and (x2, y2), each [..., 2]."""
    return part(w, boxes, -1, 0, 2), part(w, boxes, -1, 2, 4)


def _numbers(w: Writer, values: object, like: Value) -> str:
    return w.constant(np.array(values, like.dtype))


def decoded(w: Writer, op: Operation, deltas: str, anchors: str, like: Value) -> str:
    """Boxes [..., 4] from their offsets, by the attributes of box_decode."""
    weights = np.array(op.attr("weights"), np.float64)
    low, high = _corners(w, anchors)
    extent = w.node("Sub", [high, low])
    shift = w.node("Div", [part(w, deltas, -1, 0, 2), _numbers(w, weights[:2], like)])
    scale = w.node("Div", [part(w, deltas, -1, 2, 4), _numbers(w, weights[2:], like)])
    scale = w.node("Min", [scale, _numbers(w, [op.attr("max_log_scale")] * 2, like)])
    middle = w.node("Mul", [w.node("Add", [low, high]), w.number(0.5, like)])
    centre = w.node("Add", [middle, w.node("Mul", [shift, extent])])
    half = w.node("Mul", [w.node("Mul", [extent, w.number(0.5, like)]), w.node("Exp", [scale])])
    return w.node("Concat", [w.node("Sub", [centre, half]), w.node("Add", [centre, half])], axis=-1)


def clipped(w: Writer, boxes: str, sizes: str, like: Value) -> str:
    """Boxes [N, P, 4] cut to images of `sizes` [N, 2]."""
    limits = w.node("Gather", [w.node("Cast", [sizes], to=element_number(like)), w.ints(1, 0, 1, 0)], axis=1)
    limits = w.node("Unsqueeze", [limits, w.ints(1)])
    return w.node("Min", [w.node("Max", [boxes, w.number(0.0, like)]), limits])


@exports("box_decode")
def box_decode(w: Writer, op: Operation) -> None:
    """Exp of the sizes, sums and products of the rest."""
    deltas = given(op, "deltas")
    w.set(op.outputs[0], decoded(w, op, w.get(deltas), w.get(given(op, "anchors")), deltas))


@exports("clip_boxes")
def clip_boxes(w: Writer, op: Operation) -> None:
    """Max and Min."""
    boxes = given(op, "boxes")
    w.set(op.outputs[0], clipped(w, w.get(boxes), w.get(given(op, "sizes")), boxes))


@exports("anchor_grid")
def anchor_grid(w: Writer, op: Operation) -> None:
    """Ranges of rows and columns, in which the map's extents stay open, plus the cells."""
    out = op.outputs[0]
    extents, offset = w.shape(given(op, "map")), w.number(float(op.attr("offset")), out)
    stride = np.atleast_1d(op.attr("stride"))

    def places(axis: int, step: float) -> str:
        count = w.node("Gather", [extents, w.constant(np.array(axis, np.int64))])
        numbers = w.node("Range", [w.constant(np.array(0, np.int64)), count, w.constant(np.array(1, np.int64))])
        numbers = w.node("Add", [w.node("Cast", [numbers], to=element_number(out)), offset])
        return w.node("Mul", [numbers, w.number(float(step), out)])

    rows = w.node("Reshape", [places(1, stride[0]), w.ints(-1, 1, 1, 1)])
    columns = w.node("Reshape", [places(2, stride[-1]), w.ints(-1, 1, 1)])
    rows = w.node("Mul", [rows, _numbers(w, [0, 1, 0, 1], out)])  # [H, 1, 1, 4]
    columns = w.node("Mul", [columns, _numbers(w, [1, 0, 1, 0], out)])  # [W, 1, 4]
    centres = w.node("Add", [rows, columns])
    cells = _numbers(w, np.reshape(op.attr("cells"), (-1, 4)), out)
    w.set(out, w.node("Reshape", [w.node("Add", [centres, cells]), w.ints(-1, 4)]))


@exports("select_proposals")
def select_proposals(w: Writer, op: Operation) -> None:
    """TopK of the logits, then NonMaxSuppression with their ranks for scores, and TopK of what is left."""
    logits, limit = given(op, "logits"), int(op.attr("post_nms"))
    lowest = _numbers(w, -np.inf, logits)
    known = w.node("Where", [w.node("IsNaN", [w.get(logits)]), lowest, w.get(logits)])
    anchors = w.node("Shape", [known], start=1, end=2)
    count = w.node("Min", [anchors, w.ints(int(op.attr("pre_nms")))])
    best, places = w.nodes_out("TopK", [known, count], 2, axis=1)
    boxes = decoded(w, op, _rows_at(w, w.get(given(op, "deltas")), places), _anchors_at(w, op, places), logits)
    boxes = clipped(w, boxes, w.get(given(op, "sizes")), logits)
    low, high = _corners(w, boxes)
    sides = w.node("Sub", [high, low])
    least = w.number(max(float(op.attr("min_side")), float(np.finfo(np.float32).tiny)), logits)
    shorter = w.node("ReduceMin", [sides], axes=[-1], keepdims=0)
    usable = w.node("And", [w.node("GreaterOrEqual", [shorter, least]), w.node("Greater", [best, lowest])])
    # Ranks from 1 on, the best the highest: [N, count], 0 for what is out of the question.
    ranks = w.node("Range", [_scalar(w, count), w.constant(np.array(0, np.int64)), w.constant(np.array(-1, np.int64))])
    ranks = w.node("Cast", [ranks], to=1)
    ranks = w.node("Where", [usable, ranks, w.constant(np.array(0, np.float32))])
    alone = w.node("Unsqueeze", [ranks, w.ints(1)])
    iou, zero = (w.constant(np.array([v], np.float32)) for v in (op.attr("iou_threshold"), 0.0))
    kept = w.node("NonMaxSuppression", [w.node("Cast", [boxes], to=1), alone, w.ints(limit), iou, zero])
    empty = w.node("Expand", [w.constant(np.array(0, np.float32)), w.node("Shape", [alone])])
    dense = w.node("ScatterND", [empty, kept, w.node("GatherND", [alone, kept])])
    room = w.node("Pad", [w.node("Squeeze", [dense, w.ints(1)]), w.ints(0, 0, 0, limit)])
    rank, at = w.nodes_out("TopK", [room, w.ints(limit)], 2, axis=1)
    valid = w.node("Greater", [rank, w.constant(np.array(0, np.float32))])
    at = w.node("Where", [valid, at, w.constant(np.array(0, np.int64))])
    taken, scores = _rows_at(w, boxes, at), w.node("GatherElements", [best, at], axis=1)
    w.set(op.outputs[0], w.node("Where", [w.node("Unsqueeze", [valid, w.ints(-1)]), taken, w.number(0.0, logits)]))
    w.set(op.outputs[1], w.node("Where", [valid, scores, w.number(-1e30, logits)]))
    w.set(op.outputs[2], w.node("ReduceSum", [w.node("Cast", [valid], to=6), w.ints(1)], keepdims=0))


def _scalar(w: Writer, x: str) -> str:
    """[1] as a number."""
    return w.node("Squeeze", [x, w.ints(0)])


def _rows_at(w: Writer, x: str, places: str) -> str:
    """x [N, P, 4] at places [N, T]: [N, T, 4]."""
    at = w.node("Expand", [w.node("Unsqueeze", [places, w.ints(-1)]), w.ints(1, 1, 4)])
    return w.node("GatherElements", [x, at], axis=1)


def _anchors_at(w: Writer, op: Operation, places: str) -> str:
    return w.node("Gather", [w.get(given(op, "anchors")), places], axis=0)
