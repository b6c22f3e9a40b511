"""Convolutions and products of float32 images, and which of them go to those of 8 bits.

Letters: x [N, H, W, C]; filters [K, R, S, C / groups], of depthwise convolutions [1, R, S, K] in the file.
"""

from __future__ import annotations

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, dequantized, quantized, steps_of
from framework.tflite.operators.common import FUSED, activated, pads_of, positive, shape_of
from framework.tflite.operators.eight import Window, convolved
from framework.tflite.reading import TensorText
from framework.tflite.registry import tflite_op


@tflite_op("CONV_2D", eight="own")
def conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Groups are as many as the image has parts of the filters' depth."""
    depth, channels = shape_of(weight)[3], shape_of(x)[3]
    if depth < 1 or channels % depth or shape_of(weight)[0] % (channels // depth):
        raise node.fail(f"{shape_of(weight)[0]} filters of depth {depth} do not fit {channels} channels")
    return _convolved(node, x, weight, bias, channels // depth, is_depthwise=False)


@tflite_op("DEPTHWISE_CONV_2D", eight="own")
def depthwise(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each channel has as many filters of its own as the multiplier says."""
    one, _, _, filters = shape_of(weight)
    channels = shape_of(x)[3]
    if one != 1 or not channels or filters % channels:
        raise node.fail(f"filters {list(shape_of(weight))} do not fit {channels} channels")
    return _convolved(node, x, weight, bias, channels, is_depthwise=True)


def _convolved(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, *, is_depthwise: bool
) -> Tensor:
    window = _window(node, x, weight, groups)
    if _in_eight(node, weight):
        return convolved(node, x, weight, bias, window, is_depthwise=is_depthwise)
    x, weight, bias = _as_floats(node, x, weight, bias)
    if is_depthwise:
        weight = ops.transpose(weight, perm=[3, 1, 2, 0])
    y = ops.conv2d(
        x, weight, bias, stride=window.stride, padding=window.padding, dilation=window.dilation, groups=groups
    )
    return _rounded(node, activated(node, y))


def _window(node: Node, x: Tensor, weight: Tensor, groups: int) -> Window:
    sh, sw, dh, dw = positive(
        node, *(int(node.option(name)) for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"))
    )
    padding = node.option("padding")
    _, taps_h, taps_w, _ = shape_of(weight)
    positive(node, taps_h, taps_w)
    n, height, width, _ = shape_of(x)
    moves = padding == "SAME" and (sh, sw) != (1, 1)  # padding depends on the image: the Program is tied to its size
    _, h, w, _ = x.shape if moves else (n, height, width, 0)
    (top, bottom), (left, right) = pads_of(padding, h, taps_h, sh, dh), pads_of(padding, w, taps_w, sw, dw)
    filters = shape_of(weight)[0] if groups == 1 else max(shape_of(weight)[0], shape_of(weight)[3])
    rows, columns = (-(-e // s) if padding == "SAME" else e for e, s in ((height, sh), (width, sw)))
    node.limit([n, rows, columns, filters])
    return Window([sh, sw], [top, bottom, left, right], [dh, dw], groups)


def _in_eight(node: Node, weight: Tensor) -> bool:
    """Whether image, filters and result are 8-bit numbers, and the filters a constant."""
    x, w, y = node.x[0], node.x[1], node.y[0]
    return all(steps_of(t) is not None for t in (x, w, y)) and not weight.is_traced


def _as_floats(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Inputs in float32: files with 8-bit weights alone, or whose result is float32."""

    def one(value: Tensor, t: TensorText | None) -> Tensor:
        if t is not None and t.steps is not None and value.dtype in ("int8", "uint8", "int32"):
            value = dequantized(value, t.steps)
        if value.dtype != "float32":
            raise node.fail(f"takes float32 or 8-bit numbers that have a scale, not {value.dtype}")
        return value

    return one(x, node.x[0]), one(weight, node.x[1]), None if bias is None else one(bias, node.x[2])


def _rounded(node: Node, y: Tensor) -> Tensor:
    return quantized(node, y, node.y[0]) if steps_of(node.y[0]) is not None else y


@tflite_op("TRANSPOSE_CONV")
def transpose_conv(node: Node, shape: Tensor, weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The gradient of a convolution: `shape` is that of the result."""
    sh, sw = positive(node, int(node.option("stride_h")), int(node.option("stride_w")))
    _, height, width, _ = node.ints(shape, "shape")
    filters, taps_h, taps_w, _ = shape_of(weight)
    n, h, w, _ = x.shape
    whole = [(h - 1) * sh + taps_h, (w - 1) * sw + taps_w]
    node.limit([n, *whole, filters])
    node.limit([n, height, width, filters])
    starts = []
    for size, extent, taps, stride in ((height, h, taps_h, sh), (width, w, taps_w, sw)):
        if node.option("padding") == "SAME" and extent != -(-size // stride):
            raise node.fail(f"makes {size} of {extent} pixels with stride {stride}; that is not SAME")
        starts.append(pads_of(node.option("padding"), size, taps, stride)[0])
    y = ops.conv2d_transpose(x, ops.transpose(weight, perm=[3, 1, 2, 0]), bias, stride=[sh, sw])
    missing = [max(0, start + size - full) for start, size, full in zip(starts, (height, width), whole, strict=True)]
    if any(missing):
        y = ops.pad(y, pads=[0, 0, 0, missing[0], 0, missing[1], 0, 0])
    ends = [start + size for start, size in zip(starts, (height, width), strict=True)]
    return activated(node, ops.slice(y, starts=starts, ends=ends, axes=[1, 2]))


@tflite_op("FULLY_CONNECTED", eight="own")
def fully_connected(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., C], weight [K, C]; what stands before C becomes rows, and stays where the node says so."""
    if node.option("weights_format"):
        raise node.fail("weights in a shuffled layout are not supported")
    filters, depth = shape_of(weight)
    lead = list(shape_of(x)[:-1])
    if not (node.option("keep_num_dims") and shape_of(x)[-1] == depth):
        lead = [-1]
    node.limit([x.size // max(1, depth), filters])
    rows = ops.reshape(x, shape=[-1, depth])
    if _in_eight(node, weight):
        pixels = ops.reshape(rows, shape=[-1, 1, 1, depth])
        panels = ops.reshape(weight, shape=[filters, 1, 1, depth])
        y = convolved(node, pixels, panels, bias, Window([1, 1], [0, 0, 0, 0], [1, 1], 1), is_depthwise=False)
        return ops.reshape(y, shape=[*lead, filters])
    rows, weight, bias = _as_floats(node, rows, weight, bias)
    y = ops.matmul(rows, weight, bias, transpose_b=True, activation=FUSED.get(node.option("activation"), "none"))
    y = y if node.option("activation") in FUSED else activated(node, y)
    return ops.reshape(_rounded(node, y), shape=[*lead, filters])


@tflite_op("BATCH_MATMUL")
def batch_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Products of the last two axes, either transposed."""
    left, right = shape_of(a), shape_of(b)
    rows = left[-1] if node.option("adj_x") else left[-2]
    columns = right[-2] if node.option("adj_y") else right[-1]
    node.limit([*left[:-2], *right[:-2], rows, columns] if len(left) + len(right) > 8 else [*left[:-2], rows, columns])
    return ops.matmul(a, b, transpose_a=bool(node.option("adj_x")), transpose_b=bool(node.option("adj_y")))
