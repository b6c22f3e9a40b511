"""Non-maximum suppression as nodes of ONNX. Letters: N images, M boxes, K classes, S boxes kept in all, T kept each."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.writer import Writer, element_number, exports, refuse


@exports("multiclass_nms")
def multiclass_nms(w: Writer, op: Operation) -> None:
    """NonMaxSuppression, then the best of all classes by TopK, in rows as ours.

    Beyond `nms_top_k` scores of a class are put out of the way before; equal scores at that border all take part. Where
    each class has boxes of its own, classes are images of one class.
    """
    boxes, scores = op.inputs
    assert boxes is not None and scores is not None
    if op.attr("method") != "hard":
        raise refuse(op, f"its method '{op.attr('method')}' is not written; ONNX has hard suppression only")
    none, limit = w.number(-1.0, scores), int(op.attr("keep_top_k"))
    by_class = w.node("Transpose", [w.get(scores)], perm=[0, 2, 1])  # [N, K, M]
    by_class = _best_of_class(w, by_class, int(op.attr("nms_top_k")), none)
    if len(boxes.shape) == 4:
        own = w.node("Transpose", [w.get(boxes)], perm=[0, 2, 1, 3])  # [N, K, M, 4]
        images = w.node("Mul", [_extent(w, by_class, 0), _extent(w, by_class, 1)])
        own = _reshaped(w, own, images, _extent(w, by_class, 2), w.ints(4))
        alone = _reshaped(w, by_class, images, w.ints(1), _extent(w, by_class, 2))
        dense = w.node("Reshape", [_kept(w, op, own, alone, none), w.node("Shape", [by_class])], allowzero=1)
        table = _reshaped(w, own, _extent(w, by_class, 0), _numbers(w, by_class), w.ints(4))  # [N, K * M, 4]
    else:
        dense, table = _kept(w, op, w.get(boxes), by_class, none), w.get(boxes)
    # The kept scores in their places and -1 elsewhere: [N, K * M], with room for T results.
    flat = w.node("Flatten", [dense], axis=1)
    flat = w.node("Pad", [flat, w.ints(0, 0, 0, limit), none])
    best, places = w.nodes_out("TopK", [flat, w.ints(limit)], 2, axis=1)
    valid = w.node("Greater", [best, none])
    places = w.node("Where", [valid, places, w.constant(np.array(0, np.int64))])
    count = _extent(w, by_class, 2)
    label, box = w.node("Div", [places, count]), w.node("Mod", [places, count])
    rows = _rows(w, scores, label, best, table, places if len(boxes.shape) == 4 else box)
    nothing = w.constant(np.array([-1, 0, 0, 0, 0, 0], scores.dtype))
    rows = w.node("Where", [w.node("Unsqueeze", [valid, w.ints(-1)]), rows, nothing])
    w.set(op.outputs[0], rows)
    total = w.node("ReduceSum", [w.node("Cast", [valid], to=6), w.ints(1)], keepdims=0)
    w.set(op.outputs[1], total)
    w.set(op.outputs[2], w.node("Where", [valid, box, w.constant(np.array(-1, np.int64))]))


def _extent(w: Writer, of: str, axis: int) -> str:
    """One extent, [1]."""
    return w.node("Shape", [of], start=axis, end=axis + 1)


def _numbers(w: Writer, by_class: str) -> str:
    """K * M, [1]."""
    return w.node("Mul", [_extent(w, by_class, 1), _extent(w, by_class, 2)])


def _reshaped(w: Writer, x: str, *extents: str) -> str:
    return w.node("Reshape", [x, w.node("Concat", list(extents), axis=0)], allowzero=1)


def _best_of_class(w: Writer, by_class: str, top: int, none: str) -> str:
    """[N, K, M] with -1 for scores below the best `top` of their class."""
    boxes = w.node("Shape", [by_class], start=2, end=3)
    best = w.nodes_out("TopK", [by_class, w.node("Min", [boxes, w.ints(top)])], 2, axis=2)[0]
    least = w.node("Slice", [best, w.ints(-1), w.ints(2**62), w.ints(2)])
    return w.node("Where", [w.node("GreaterOrEqual", [by_class, least]), by_class, none])


def _kept(w: Writer, op: Operation, boxes: str, by_class: str, none: str) -> str:
    """The scores that suppression leaves, and -1 in the places of the others."""
    iou, score = (w.constant(np.array([op.attr(n)], np.float32)) for n in ("iou_threshold", "score_threshold"))
    most = w.ints(int(op.attr("keep_top_k")))
    kept = w.node("NonMaxSuppression", [boxes, by_class, most, iou, score])  # [S, 3]: image, class, box
    empty = w.node("Expand", [none, w.node("Shape", [by_class])])
    return w.node("ScatterND", [empty, kept, w.node("GatherND", [by_class, kept])])


def _rows(w: Writer, scores: Value, label: str, score: str, boxes: str, places: str) -> str:
    """[N, T, 6]: label, score, corners of boxes [N, ..., 4] at `places` [N, T]."""
    at = w.node("Expand", [w.node("Unsqueeze", [places, w.ints(-1)]), w.ints(1, 1, 4)])
    corners = w.node("GatherElements", [boxes, at], axis=1)
    columns = [w.node("Cast", [label], to=element_number(scores)), score]
    return w.node("Concat", [*(w.node("Unsqueeze", [c, w.ints(-1)]) for c in columns), corners], axis=2)
