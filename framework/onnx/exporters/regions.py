"""RoIAlign over maps of several sizes as nodes of ONNX. Letters: N images, R regions an image, S their size."""

from __future__ import annotations

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.exporters.boxes import given, part
from framework.onnx.writer import Writer, exports


@exports("roi_align")
def roi_align(w: Writer, op: Operation) -> None:
    """RoiAlign of each map for the regions that are read from it, which ScatterND puts in their places."""
    boxes, size = given(op, "boxes"), int(op.attr("size"))
    maps = [v for v in op.inputs[2:] if v is not None]
    strides = np.atleast_1d(op.attr("strides"))
    rois = w.node("Reshape", [w.get(boxes), w.ints(-1, 4)])  # [N * R, 4]
    images, counts = _images(w, op, boxes, rois)

    def aligned(level: int, rois: str, images: str) -> str:
        return w.node(
            "RoiAlign",
            [w.image(maps[level]), rois, images],
            output_height=size,
            output_width=size,
            sampling_ratio=int(op.attr("sampling")),
            spatial_scale=float(1 / strides[level]),
            mode="avg",
            coordinate_transformation_mode="half_pixel" if op.attr("aligned") else "output_half_pixel",
        )

    zero = w.number(0.0, maps[0])
    if len(maps) == 1:
        flags = w.node("Reshape", [counts, w.ints(-1, 1, 1, 1)])
        w.set_image(op.outputs[0], w.node("Where", [flags, aligned(0, rois, images), zero]))
        return
    levels = _levels(w, op, boxes, rois, len(maps))
    channels = w.node("Gather", [w.shape(maps[0]), w.ints(3)])
    rows = w.node("Shape", [rois], start=0, end=1)
    y = w.node("Expand", [zero, w.node("Concat", [rows, channels, w.ints(size, size)], axis=0)])
    for level in range(len(maps)):
        own = w.node("And", [counts, w.node("Equal", [levels, w.number(level, boxes)])])
        at = w.node("Transpose", [w.node("NonZero", [own])], perm=[1, 0])  # [regions, 1]
        flat = w.node("Squeeze", [at, w.ints(1)])
        read = aligned(level, w.node("Gather", [rois, flat], axis=0), w.node("Gather", [images, flat], axis=0))
        y = w.node("ScatterND", [y, at, read])
    w.set_image(op.outputs[0], y)


def _images(w: Writer, op: Operation, boxes: Value, rois: str) -> tuple[str, str]:
    """Of every region its image, int64 [N * R], and whether it counts."""
    shape = w.node("Shape", [w.get(boxes)], start=0, end=2)
    n, r = (_number(w, shape, i) for i in (0, 1))
    zero, one = (w.constant(np.array(v, np.int64)) for v in (0, 1))
    rows = w.node("Unsqueeze", [w.node("Range", [zero, n, one]), w.ints(1)])
    images = w.node("Reshape", [w.node("Expand", [rows, shape]), w.ints(-1)])
    sides = w.node("Sub", [part(w, rois, -1, 2, 4), part(w, rois, -1, 0, 2)])
    shorter = w.node("ReduceMin", [sides], axes=[-1], keepdims=0)
    counts = w.node("Greater", [shorter, w.number(0.0, boxes)])
    count = op.input("count")
    if count is None:
        return images, counts
    number = w.node("Unsqueeze", [w.node("Range", [zero, r, one]), w.ints(0)])
    limit = w.node("Unsqueeze", [w.node("Cast", [w.get(count)], to=7), w.ints(1)])
    within = w.node("Reshape", [w.node("Less", [number, limit]), w.ints(-1)])
    return images, w.node("And", [counts, within])


def _number(w: Writer, shape: str, i: int) -> str:
    return w.node("Gather", [shape, w.constant(np.array(i, np.int64))])


def _levels(w: Writer, op: Operation, boxes: Value, rois: str, maps: int) -> str:
    """The number of every region's map, as a float [N * R]."""
    sides = w.node("Sub", [part(w, rois, -1, 2, 4), part(w, rois, -1, 0, 2)])
    sides = w.node("Max", [sides, w.number(1e-6, boxes)])
    area = w.node("Mul", [w.node("Squeeze", [part(w, sides, -1, i, i + 1), w.ints(1)]) for i in (0, 1)])
    size = w.node("Div", [w.node("Sqrt", [area]), w.number(float(op.attr("canonical_size")), boxes)])
    steps = w.node("Div", [w.node("Log", [size]), w.number(float(np.log(2)), boxes)])
    wanted = w.node("Add", [steps, w.number(float(op.attr("canonical_level")) + 1e-6, boxes)])
    last = w.number(float(maps - 1), boxes)
    return w.node("Min", [w.node("Max", [w.node("Floor", [wanted]), w.number(0.0, boxes)]), last])
