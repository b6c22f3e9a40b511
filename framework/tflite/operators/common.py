"""What the converters share: activations, windows, axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework import ops
from framework.ops.axes import axis_of as axis_of
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, to_tensor

FUSED = {"NONE": "none", "RELU": "relu", "RELU6": "relu6"}  # as operators of the core take them in


def activated(node: Node, y: Tensor) -> Tensor:
    """y through the activation that the node states."""
    name = node.options.get("activation", "NONE")
    if name in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"):
        return by_name(y, name)
    raise node.fail(f"the activation {name} is not supported")


def by_name(y: Tensor, name: str) -> Tensor:
    """y through an activation of the schema; whole numbers too."""
    if name == "NONE":
        return y
    if name == "TANH":
        return ops.tanh(y)
    if y.dtype == "float32" and name in FUSED:
        return ops.relu(y) if name == "RELU" else ops.relu6(y)
    low, high = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}[name]
    y = ops.maximum(y, to_tensor(low).astype(y.dtype))
    return y if high is None else ops.minimum(y, to_tensor(high).astype(y.dtype))


def pads_of(padding: str, extent: int, taps: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding before and after along an axis, as "SAME" and "VALID" mean it: SAME gives ceil(extent / stride)."""
    if padding == "VALID":
        return 0, 0
    reach = (taps - 1) * dilation + 1
    total = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
    return total // 2, total - total // 2


def positive(node: Node, *numbers: int) -> list[int]:
    """The numbers again; raises where one is no stride, window or dilation."""
    if any(not 1 <= n <= 1 << 16 for n in numbers):
        raise node.fail(f"has a stride, a window or a dilation of {list(numbers)}; each is 1 or more")
    return list(numbers)


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Non-negative axes, in order."""
    return sorted({axis_of(a, rank) for a in axes})


def shape_of(x: Tensor) -> tuple[int, ...]:
    """The shape of x, for a check alone: the Program that is being traced is not tied to it."""
    return tuple((x._value or x._data).shape)


def joined(node: Node, *xs: Tensor) -> None:
    """Refuses a broadcast that makes gigabytes of little."""
    node.limit(np.broadcast_shapes(*(shape_of(x) for x in xs)))
