"""Pooling over windows of images [N, H, W, C]."""

from __future__ import annotations

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, in_steps_of, steps_of
from framework.tflite.operators.common import activated, pads_of, positive, shape_of
from framework.tflite.operators.eight import cut, eight_of
from framework.tflite.registry import tflite_op

_MOST_PIXELS = 1 << 13  # of a window whose mean float32 rounds as the exact one


@tflite_op("AVERAGE_POOL_2D", eight="own")
def average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean of the pixels in each window, without padding; of 8-bit numbers their exact sum, rounded once."""
    kernel, stride, padding = _pooling(node, x)
    x = in_steps_of(node.y[0], node, x, node.x[0])
    if steps_of(node.x[0]) is None:
        return activated(node, _means(x, kernel, stride, padding))
    pixels = kernel[0] * kernel[1]
    if pixels > _MOST_PIXELS:
        raise node.fail(f"a window of {kernel} pixels is too large for means of 8 bits; {_MOST_PIXELS} are the most")
    means = _means(ops.cast(x, dtype="float32"), kernel, stride, padding)
    return cut(node, eight_of(node, means, 0.25 / pixels))  # the mean nearest to a half is twice as far off


def _means(x: Tensor, kernel: list[int], stride: list[int], padding: list[int]) -> Tensor:
    return ops.avg_pool2d(x, kernel=kernel, stride=stride, padding=padding, count_include_pad=False)


@tflite_op("MAX_POOL_2D", eight="own")
def max_pool(node: Node, x: Tensor) -> Tensor:
    """The largest pixel of each window."""
    kernel, stride, padding = _pooling(node, x)
    x = in_steps_of(node.y[0], node, x, node.x[0])
    y = ops.max_pool2d(x, kernel=kernel, stride=stride, padding=padding)
    return activated(node, y) if steps_of(node.x[0]) is None else cut(node, y)


@tflite_op("L2_POOL_2D")
def l2_pool(node: Node, x: Tensor) -> Tensor:
    """The root of the mean square of each window."""
    kernel, stride, padding = _pooling(node, x)
    return activated(node, ops.sqrt(_means(ops.square(x), kernel, stride, padding)))


def _pooling(node: Node, x: Tensor) -> tuple[list[int], list[int], list[int]]:
    """Window, stride and padding (top, bottom, left, right)."""
    taps_h, taps_w, sh, sw = positive(
        node, *(int(node.option(name)) for name in ("filter_h", "filter_w", "stride_h", "stride_w"))
    )
    padding = node.option("padding")
    h, w = (x.shape if padding == "SAME" else shape_of(x))[1:3]
    (top, bottom), (left, right) = pads_of(padding, h, taps_h, sh), pads_of(padding, w, taps_w, sw)
    return [taps_h, taps_w], [sh, sw], [top, bottom, left, right]
