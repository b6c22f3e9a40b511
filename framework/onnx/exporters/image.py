"""Operators on images as nodes of ONNX, which wants them as [N, C, H, W]."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework.graph.ir import Operation, Value
from framework.onnx.exporters.elementwise import activated
from framework.onnx.writer import TO_BACK, Writer, element_number, exports, refuse


def _pair(value: Any) -> list[int]:
    numbers = [int(v) for v in np.atleast_1d(value)]
    return numbers * 2 if len(numbers) == 1 else numbers


def _pads(value: Any) -> list[int]:
    """(top, left, bottom, right) of one number, (height, width) or (top, bottom, left, right)."""
    numbers = _pair(value)
    top, bottom, left, right = numbers if len(numbers) == 4 else (numbers[0], numbers[0], numbers[1], numbers[1])
    return [top, left, bottom, right]


def _kernel(w: Writer, v: Value) -> str:
    """A convolution's weight with its channels second."""
    known = w.array(v)
    if known is not None:
        return w.constant(known.transpose(TO_BACK), name=v.name)
    return w.node("Transpose", [w.get(v)], perm=TO_BACK)


def _input(op: Operation, name: str) -> Value:
    v = op.input(name)
    assert v is not None
    return v


def _bias(w: Writer, op: Operation) -> list[str]:
    bias = op.input("bias")
    return [] if bias is None else [w.get(bias)]


def _has(op: Operation, name: str) -> bool:
    return any(a["name"] == name for a in op.info.inputs) and op.input(name) is not None


def _finished(w: Writer, op: Operation, y: str) -> str:
    """With the residual and activation that a fusion put into the operator."""
    if not _has(op, "residual"):
        return activated(w, op, y)
    residual = w.image(_input(op, "residual"))
    if any(a["name"] == "residual_last" for a in op.info.attrs) and op.attr("residual_last"):
        return w.node("Add", [activated(w, op, y), residual])
    return activated(w, op, w.node("Add", [y, residual]))


def convolved(w: Writer, op: Operation, onnx_name: str, given: list[str] | None = None, **attributes: Any) -> str:
    """A convolution's sum with its bias; `attributes` are those that Conv and ConvTranspose do not share.

    `given` are the names of image, weights and bias, by default those of the operation's inputs.
    """
    weight = _input(op, "weight")
    return w.node(
        onnx_name,
        given or [w.image(_input(op, "x")), _kernel(w, weight), *_bias(w, op)],
        kernel_shape=list(weight.shape[1:3]),
        strides=_pair(op.attr("stride")),
        pads=_pads(op.attr("padding")),
        dilations=_pair(op.attr("dilation")),
        group=int(op.attr("groups")),
        **attributes,
    )


@exports("conv2d")
def conv2d(w: Writer, op: Operation) -> None:
    """Conv."""
    w.set_image(op.outputs[0], _finished(w, op, convolved(w, op, "Conv")))


@exports("conv2d_transpose")
def conv2d_transpose(w: Writer, op: Operation) -> None:
    """ConvTranspose."""
    y = convolved(w, op, "ConvTranspose", output_padding=_pair(op.attr("output_padding")))
    w.set_image(op.outputs[0], y)


def _pool(w: Writer, op: Operation, onnx_name: str, **attributes: Any) -> None:
    y = w.node(
        onnx_name,
        [w.image(_input(op, "x"))],
        kernel_shape=_pair(op.attr("kernel")),
        strides=_pair(op.attr("stride") or op.attr("kernel")),
        pads=_pads(op.attr("padding")),
        ceil_mode=int(op.attr("ceil_mode")),
        **attributes,
    )
    w.set_image(op.outputs[0], y)


@exports("max_pool2d")
def max_pool2d(w: Writer, op: Operation) -> None:
    """MaxPool."""
    _pool(w, op, "MaxPool")


@exports("avg_pool2d")
def avg_pool2d(w: Writer, op: Operation) -> None:
    """AveragePool."""
    _pool(w, op, "AveragePool", count_include_pad=int(op.attr("count_include_pad")))


@exports("batch_norm_inference")
def batch_norm_inference(w: Writer, op: Operation) -> None:
    """BatchNormalization of images and of rows."""
    x = _input(op, "x")
    rank = len(x.shape)
    if rank not in (2, 4):
        raise refuse(op, f"batch norm of {rank} axes is not written; 2 and 4 are")
    statistics = [w.get(_input(op, name)) for name in ("scale", "bias", "mean", "var")]
    place, name = (w.set_image, w.image(x)) if rank == 4 else (w.set, w.get(x))
    y = w.node("BatchNormalization", [name, *statistics], epsilon=float(op.attr("eps")))
    if rank == 2 and _has(op, "residual"):
        raise refuse(op, "its residual is not written; export a Program made with EXPORT_PASSES")
    place(op.outputs[0], _finished(w, op, y))


@exports("group_norm")
def group_norm(w: Writer, op: Operation) -> None:
    """InstanceNormalization of the groups, then scale and offset by channel."""
    x = _input(op, "x")
    if len(x.shape) != 4:
        raise refuse(op, f"group norm of {len(x.shape)} axes is not written; 4 are")
    if any(w.is_used(v) for v in op.outputs[1:]):
        raise refuse(op, "its mean and rstd are not written, only its y")
    groups = int(op.attr("groups"))
    ones, zeros = w.constant(np.ones(groups, x.dtype)), w.constant(np.zeros(groups, x.dtype))
    image = w.image(x)
    flat = w.node("Reshape", [image, w.ints(0, groups, -1)])
    y = w.node("InstanceNormalization", [flat, ones, zeros], epsilon=float(op.attr("eps")))
    y = w.node("Reshape", [y, w.node("Shape", [image])])
    for node, name in (("Mul", "scale"), ("Add", "bias")):
        vector = w.node("Reshape", [w.get(_input(op, name)), w.ints(1, -1, 1, 1)])
        y = w.node(node, [y, vector])
    w.set_image(op.outputs[0], y)


def _resize(w: Writer, op: Operation, **attributes: Any) -> None:
    x, like = _input(op, "x"), op.input("like")
    image = w.image(x)
    factors = [float(v) for v in np.atleast_1d(op.attr("scale"))]
    factors = factors * 2 if len(factors) == 1 else factors
    if factors and all(f == np.floor(f) for f in factors):
        y = w.node("Resize", [image, "", w.constant(np.array([1, 1, *factors], np.float32))], **attributes)
    else:
        if factors:
            wanted = _scaled(w, x, factors)
        else:
            wanted = w.ints(*_pair(op.attr("size"))) if like is None else _height_and_width(w, like)
        kept = w.node("Shape", [image], start=0, end=2)
        y = w.node("Resize", [image, "", "", w.node("Concat", [kept, wanted], axis=0)], **attributes)
    w.set_image(op.outputs[0], y)


def _scaled(w: Writer, x: Value, factors: list[float]) -> str:
    """floor(extent * factor): with it as size ONNX too takes the ratio of the extents as the factor."""
    extents = w.node("Cast", [_height_and_width(w, x)], to=11)
    scaled = w.node("Floor", [w.node("Mul", [extents, w.constant(np.array(factors))])])
    return w.node("Cast", [scaled], to=7)


def _height_and_width(w: Writer, v: Value) -> str:
    if w.is_image(v):
        return w.node("Shape", [w.image(v)], start=2, end=4)
    return w.node("Shape", [w.get(v)], start=1, end=3)


@exports("resize_nearest")
def resize_nearest(w: Writer, op: Operation) -> None:
    """Resize; the source of an output pixel is floor(place * in / out)."""
    _resize(w, op, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@exports("resize_bilinear")
def resize_bilinear(w: Writer, op: Operation) -> None:
    """Resize in mode linear."""
    corners = "align_corners" if op.attr("align_corners") else "half_pixel"
    _resize(w, op, mode="linear", coordinate_transformation_mode=corners)


@exports("resize_bicubic")
def resize_bicubic(w: Writer, op: Operation) -> None:
    """Resize in mode cubic."""
    corners = "align_corners" if op.attr("align_corners") else "half_pixel"
    _resize(w, op, mode="cubic", cubic_coeff_a=-0.75, coordinate_transformation_mode=corners)


@exports("grid_sample")
def grid_sample(w: Writer, op: Operation) -> None:
    """GridSample."""
    y = w.node(
        "GridSample",
        [w.image(_input(op, "x")), w.get(_input(op, "grid"))],
        mode=op.attr("mode"),
        padding_mode=op.attr("padding"),
        align_corners=int(op.attr("align_corners")),
    )
    w.set_image(op.outputs[0], y)


def _windows(w: Writer, extent: str, count: int) -> str:
    """Which of `extent` positions each of `count` adaptive windows holds: bool [count, extent]."""
    one, out = (w.constant(np.array(n, np.int64)) for n in (1, count))
    starts = w.node("Div", [w.node("Mul", [w.constant(np.arange(count)), extent]), out])
    ends = w.node(
        "Div",
        [w.node("Sub", [w.node("Add", [w.node("Mul", [w.constant(np.arange(1, count + 1)), extent]), out]), one]), out],
    )
    places = w.node("Range", [w.constant(np.array(0, np.int64)), extent, one])
    starts, ends = (w.node("Unsqueeze", [v, w.ints(1)]) for v in (starts, ends))
    inside = w.node("GreaterOrEqual", [places, starts])
    return w.node("And", [inside, w.node("Less", [places, ends])])


def _extent(w: Writer, image: str, axis: int) -> str:
    return w.node("Gather", [w.node("Shape", [image]), w.constant(np.array(axis, np.int64))])


@exports("adaptive_avg_pool2d")
def adaptive_avg_pool2d(w: Writer, op: Operation) -> None:
    """Two products with matrices of shares, made from the extents at run time."""
    x = _input(op, "x")
    y = image = w.image(x)
    for axis, count in zip((2, 3), _pair(op.attr("size")), strict=True):
        inside = w.node("Cast", [_windows(w, _extent(w, image, axis), count)], to=element_number(x))
        shares = w.node("Div", [inside, w.node("ReduceSum", [inside, w.ints(1)], keepdims=1)])
        y = w.node("MatMul", [shares, y] if axis == 2 else [y, w.node("Transpose", [shares], perm=[1, 0])])
    w.set_image(op.outputs[0], y)


@exports("adaptive_max_pool2d")
def adaptive_max_pool2d(w: Writer, op: Operation) -> None:
    """The largest value of what is left in each window, rows first."""
    x = _input(op, "x")
    y = image = w.image(x)
    for axis, count in zip((2, 3), _pair(op.attr("size")), strict=True):
        inside = _windows(w, _extent(w, image, axis), count)
        if axis == 2:
            inside = w.node("Unsqueeze", [inside, w.ints(2)])  # [P, H, 1] over [N, C, 1, H, W]
        wide = w.node("Where", [inside, w.node("Unsqueeze", [y, w.ints(axis)]), w.number(-np.inf, x)])
        y = w.node("ReduceMax", [wide], axes=[axis + 1], keepdims=0)
    w.set_image(op.outputs[0], y)
