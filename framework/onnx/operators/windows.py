"""Padding of sliding windows: what auto_pad, ceil mode and dilation come to, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.onnx.interpreter import Node


@dataclass(frozen=True)
class Window:
    """Windows along one axis: `count` of `taps` taps each; window o starts at o * stride - before."""

    extent: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    def positions(self) -> np.ndarray:
        """Where the taps of each window lie, [windows, taps]; outside [0, extent) is padding."""
        starts = np.arange(self.count, dtype=np.int64)[:, None] * self.stride - self.before
        found: np.ndarray = starts + np.arange(self.taps, dtype=np.int64) * self.dilation
        return found


def numbers(node: Node, name: str, axes: int, default: int) -> list[int]:
    """An attribute of one number an axis."""
    found = list(node.attr(name) or [default] * axes)
    if len(found) != axes or any(n < (0 if default == 0 else 1) for n in found):
        raise ValueError(f"{name} is {found} for {axes} axes")
    return found


def pads_of(node: Node, axes: int) -> list[tuple[int, int]]:
    """(before, after) of each axis as stated."""
    pads = numbers(node, "pads", 2 * axes, 0)
    return list(zip(pads[:axes], pads[axes:], strict=True))


def windows(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> list[Window]:
    """The windows of a convolution or pooling node over an image of these extents."""
    n = len(spatial)
    strides, dilations = numbers(node, "strides", n, 1), numbers(node, "dilations", n, 1)
    stated, auto = pads_of(node, n), node.attr("auto_pad", "NOTSET")
    ceil = bool(node.attr("ceil_mode", 0))
    found = []
    for i in range(n):
        reach = (kernel[i] - 1) * dilations[i] + 1
        before, after = stated[i] if auto == "NOTSET" else (0, 0)
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (-(-spatial[i] // strides[i]) - 1) * strides[i] + reach - spatial[i])
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        room = spatial[i] + before + after - reach
        count = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil and (count - 1) * strides[i] >= spatial[i] + before:
            count -= 1  # a window must not start in the padding at the end
        if count < 1:
            raise ValueError(f"extent {spatial[i]} with padding ({before}, {after}) holds no window of reach {reach}")
        found.append(Window(spatial[i], kernel[i], strides[i], dilations[i], before, after, count))
    return found


def is_static(node: Node) -> bool:
    """Whether the padding does not depend on the image's extents."""
    return node.attr("auto_pad", "NOTSET") in ("NOTSET", "VALID")
