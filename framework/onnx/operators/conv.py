"""Convolutions of ONNX in one, two and three dimensions, on conv2d: images go to [N, H, W, C] and back."""

from __future__ import annotations

from collections.abc import Sequence

from framework import ops
from framework.onnx.interpreter import Node, shape_of
from framework.onnx.operators.common import extents, per_channel, to_back, to_front
from framework.onnx.operators.windows import Window, is_static, numbers, pads_of, windows
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("Conv", compute="float")
def conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [N, C, *spatial], weight [K, C / group, *kernel]."""
    axes = x.ndim - 2
    kernel = extents(weight)[2:]
    if axes == 2 and is_static(node):  # no extent of the image is looked at
        padding = pads_of(node, 2) if node.attr("auto_pad", "NOTSET") == "NOTSET" else [(0, 0), (0, 0)]
        strides, dilations = numbers(node, "strides", 2, 1), numbers(node, "dilations", 2, 1)
    else:
        found = windows(node, extents(x)[2:], kernel)
        padding = [(w.before, w.after) for w in found]
        strides, dilations = [w.stride for w in found], [w.dilation for w in found]
    _limit(node, x, weight, padding, strides, dilations)
    if axes == 1:
        return _conv1d(x, weight, bias, padding[0], strides[0], dilations[0], node.attr("group", 1))
    if axes == 2:
        return to_back(conv2d(to_front(x), to_front(weight), bias, padding, strides, dilations, node.attr("group", 1)))
    if axes == 3:
        return _conv3d(x, weight, bias, windows(node, extents(x)[2:], kernel), node.attr("group", 1))
    raise node.fail(f"convolutions over {axes} axes are not supported; 1, 2 and 3 are")


def _limit(
    node: Node,
    x: Tensor,
    weight: Tensor,
    padding: Sequence[tuple[int, int]],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> None:
    """Refuses padding that makes gigabytes of a small image."""
    n, _, *spatial = shape_of(x)
    filters, _, *kernel = shape_of(weight)
    padded = [e + a + b for e, (a, b) in zip(spatial, padding, strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    counts = [max(p - r, 0) // s + 1 for p, r, s in zip(padded, reach, strides, strict=True)]
    node.limit([n, filters, *counts])


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Sequence[tuple[int, int]],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Tensor:
    """conv2d with padding as (before, after) of each axis."""
    (top, bottom), (left, right) = padding
    return ops.conv2d(
        x, weight, bias, stride=strides, padding=[top, bottom, left, right], dilation=dilations, groups=groups
    )


def _conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], stride: int, dilation: int, groups: int
) -> Tensor:
    """A picture of height 1."""
    image = to_front(ops.expand_dims(x, axis=2))
    kernel = to_front(ops.expand_dims(weight, axis=2))
    y = conv2d(image, kernel, bias, [(0, 0), padding], [1, stride], [1, dilation], groups)
    return ops.squeeze(to_back(y), axis=2)


def _conv3d(x: Tensor, weight: Tensor, bias: Tensor | None, found: Sequence[Window], groups: int) -> Tensor:
    """One conv2d for each tap of the kernel's depth, over all images that it meets, summed."""
    depth, height, width = found
    n, c, _, h, w = extents(x)
    image = ops.pad(to_front(x), pads=[0, 0, depth.before, depth.after, 0, 0, 0, 0, 0, 0])
    kernel = to_front(weight)  # [K, D, R, S, C]
    total = None
    for t in range(depth.taps):
        start = t * depth.dilation
        layers = ops.slice(
            image, starts=[start], ends=[start + (depth.count - 1) * depth.stride + 1], axes=[1], steps=[depth.stride]
        )
        flat = ops.reshape(layers, shape=[n * depth.count, h, w, c])
        tap = ops.squeeze(ops.slice(kernel, starts=[t], ends=[t + 1], axes=[1]), axis=1)
        y = conv2d(
            flat,
            tap,
            bias if t == 0 else None,
            [(height.before, height.after), (width.before, width.after)],
            [height.stride, width.stride],
            [height.dilation, width.dilation],
            groups,
        )
        total = y if total is None else total + y
    assert total is not None
    return to_back(ops.reshape(total, shape=[n, depth.count, *extents(total)[1:]]))


# -- transposed
@onnx_op("ConvTranspose", compute="float")
def conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [N, C, *spatial], weight [C, K / group, *kernel]: computed without padding, then cut."""
    axes = x.ndim - 2
    if axes not in (1, 2, 3):
        raise node.fail(f"transposed convolutions over {axes} axes are not supported; 1, 2 and 3 are")
    kernel, spatial = extents(weight)[2:], extents(x)[2:]
    strides, dilations = numbers(node, "strides", axes, 1), numbers(node, "dilations", axes, 1)
    rest = numbers(node, "output_padding", axes, 0)
    whole = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(spatial, strides, kernel, dilations, strict=True)]
    pads = _transposed_pads(node, spatial, whole, strides, rest)
    groups = node.attr("group", 1)
    node.limit([extents(x)[0], extents(weight)[1] * groups, *whole])
    y = _enlarged(x, weight, strides, dilations, groups)
    ends = [w - b for w, (_, b) in zip(whole, pads, strict=True)]
    grow = [max(0, e - w) for e, w in zip(ends, whole, strict=True)]
    if any(grow):
        y = ops.pad(y, pads=[0, 0, 0, 0, *(p for g in grow for p in (0, g))])
    y = ops.slice(y, starts=[a for a, _ in pads], ends=ends, axes=list(range(2, x.ndim)))
    return y if bias is None else y + per_channel(bias, x.ndim)


def _transposed_pads(
    node: Node, spatial: Sequence[int], whole: Sequence[int], strides: Sequence[int], rest: Sequence[int]
) -> list[tuple[int, int]]:
    """What is cut before and after on each axis; negative after adds."""
    auto, wanted = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if wanted is None and auto in ("NOTSET", "VALID"):
        stated = pads_of(node, len(spatial)) if auto == "NOTSET" else [(0, 0)] * len(spatial)
        return [(a, b - r) for (a, b), r in zip(stated, rest, strict=True)]
    if wanted is None:
        wanted = [n * s for n, s in zip(spatial, strides, strict=True)]
    totals = [w + r - o for w, r, o in zip(whole, rest, wanted[-len(spatial) :], strict=True)]
    pairs = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in totals]
    return [(a, b - r) for (a, b), r in zip(pairs, rest, strict=True)]


def _enlarged(x: Tensor, weight: Tensor, strides: Sequence[int], dilations: Sequence[int], groups: int) -> Tensor:
    if x.ndim == 4:
        y = ops.conv2d_transpose(to_front(x), to_front(weight), None, stride=strides, dilation=dilations, groups=groups)
        return to_back(y)
    if x.ndim == 3:
        image, kernel = ops.expand_dims(x, axis=2), ops.expand_dims(weight, axis=2)
        return ops.squeeze(_enlarged(image, kernel, [1, *strides], [1, *dilations], groups), axis=2)
    return _enlarged3d(x, weight, strides, dilations, groups)


def _enlarged3d(x: Tensor, weight: Tensor, strides: Sequence[int], dilations: Sequence[int], groups: int) -> Tensor:
    """One transposed conv2d for each tap of the kernel's depth, spread along the depth and summed."""
    n, c, d, h, w = extents(x)
    taps, stride, dilation = extents(weight)[2], strides[0], dilations[0]
    whole = (d - 1) * stride + (taps - 1) * dilation + 1
    flat = ops.reshape(ops.transpose(x, perm=[0, 2, 1, 3, 4]), shape=[n * d, c, h, w])
    total = None
    for t in range(taps):
        tap = ops.squeeze(ops.slice(weight, starts=[t], ends=[t + 1], axes=[2]), axis=2)
        y = _enlarged(flat, tap, strides[1:], dilations[1:], groups)
        _, k, p, q = extents(y)
        spread = ops.pad(ops.reshape(y, shape=[n, d, 1, k * p * q]), pads=[0, 0, 0, 0, 0, stride - 1, 0, 0])
        spread = ops.reshape(spread, shape=[n, d * stride, k, p, q])
        spread = ops.slice(spread, starts=[0], ends=[(d - 1) * stride + 1], axes=[1])
        before = t * dilation
        after = whole - (d - 1) * stride - 1 - before
        spread = ops.pad(spread, pads=[0, 0, before, after, 0, 0, 0, 0, 0, 0])
        total = spread if total is None else total + spread
    assert total is not None
    return ops.transpose(total, perm=[0, 2, 1, 3, 4])
