"""Non-maximum suppression as nodes of ONNX. Letters: N images, M boxes, K classes, S boxes kept in all, T kept each."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation
from framework.onnx.writer import Writer, element_number, exports


@exports("multiclass_nms")
def multiclass_nms(w: Writer, op: Operation) -> None:
    """NonMaxSuppression, then the best of all classes by TopK, in rows as ours.

    Beyond `nms_top_k` scores of a class are put out of the way before; equal scores at that border all take part.
    """
    boxes, scores = op.inputs
    assert boxes is not None and scores is not None
    none, limit = w.number(-1.0, scores), int(op.attr("keep_top_k"))
    by_class = w.node("Transpose", [w.get(scores)], perm=[0, 2, 1])  # [N, K, M]
    by_class = _best_of_class(w, by_class, int(op.attr("nms_top_k")), none)
    kept = _suppressed(w, op, w.get(boxes), by_class)  # [S, 3]: image, class, box
    # The kept scores in their places and -1 elsewhere: [N, K * M], with room for T results.
    empty = w.node("Expand", [none, w.node("Shape", [by_class])])
    dense = w.node("ScatterND", [empty, kept, w.node("GatherND", [by_class, kept])])
    flat = w.node("Flatten", [dense], axis=1)
    flat = w.node("Pad", [flat, w.ints(0, 0, 0, limit), none])
    best, places = w.nodes_out("TopK", [flat, w.ints(limit)], 2, axis=1)
    valid = w.node("Greater", [best, none])
    places = w.node("Where", [valid, places, w.constant(np.array(0, np.int64))])
    count = w.node("Shape", [by_class], start=2, end=3)
    label, box = w.node("Div", [places, count]), w.node("Mod", [places, count])
    rows = _rows(w, op, label, best, box)
    nothing = w.constant(np.array([-1, 0, 0, 0, 0, 0], scores.dtype))
    rows = w.node("Where", [w.node("Unsqueeze", [valid, w.ints(-1)]), rows, nothing])
    w.set(op.outputs[0], rows)
    total = w.node("ReduceSum", [w.node("Cast", [valid], to=6), w.ints(1)], keepdims=0)
    w.set(op.outputs[1], total)


def _best_of_class(w: Writer, by_class: str, top: int, none: str) -> str:
    """[N, K, M] with -1 for scores below the best `top` of their class."""
    boxes = w.node("Shape", [by_class], start=2, end=3)
    best = w.nodes_out("TopK", [by_class, w.node("Min", [boxes, w.ints(top)])], 2, axis=2)[0]
    least = w.node("Slice", [best, w.ints(-1), w.ints(2**62), w.ints(2)])
    return w.node("Where", [w.node("GreaterOrEqual", [by_class, least]), by_class, none])


def _suppressed(w: Writer, op: Operation, boxes: str, by_class: str) -> str:
    iou, score = (w.constant(np.array([op.attr(n)], np.float32)) for n in ("iou_threshold", "score_threshold"))
    most = w.ints(int(op.attr("keep_top_k")))
    return w.node("NonMaxSuppression", [boxes, by_class, most, iou, score])


def _rows(w: Writer, op: Operation, label: str, score: str, box: str) -> str:
    """[N, T, 6]: label, score, corners."""
    boxes, scores = op.inputs
    assert boxes is not None and scores is not None
    at = w.node("Expand", [w.node("Unsqueeze", [box, w.ints(-1)]), w.ints(1, 1, 4)])
    corners = w.node("GatherElements", [w.get(boxes), at], axis=1)
    columns = [w.node("Cast", [label], to=element_number(scores)), score]
    return w.node("Concat", [*(w.node("Unsqueeze", [c, w.ints(-1)]) for c in columns), corners], axis=2)
