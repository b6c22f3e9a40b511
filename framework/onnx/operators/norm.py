"""Normalisations of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import axis_of, extents, per_channel, to_back, to_front
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("BatchNormalization", compute="float")
def batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Any:
    """By given statistics, or by the batch's own in training mode."""
    eps, momentum = node.attr("epsilon", 1e-5), node.attr("momentum", 0.9)
    if x.ndim == 2:
        x4 = x
    else:
        x4 = to_front(x)
    scale, bias, mean, var = (v if v.dtype == x.dtype else ops.cast(v, dtype=x.dtype) for v in (scale, bias, mean, var))
    if not node.attr("training_mode", 0):
        y = ops.batch_norm_inference(x4, scale, bias, mean, var, eps=eps)
        return y if x.ndim == 2 else to_back(y)
    y, batch_mean, batch_var = ops.batch_norm(x4, scale, bias, eps=eps)
    running = [old * momentum + new * (1.0 - momentum) for old, new in ((mean, batch_mean), (var, batch_var))]
    return (y if x.ndim == 2 else to_back(y), *running)


def normalized(x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) over axes, with mean and 1 / sqrt(var + eps)."""
    mean = ops.mean(x, axes=axes, keepdims=True)
    centred = x - mean
    rstd = ops.rsqrt(ops.mean(ops.square(centred), axes=axes, keepdims=True) + eps)
    return centred * rstd, mean, rstd


@onnx_op("InstanceNormalization", compute="float")
def instance_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Each channel of each image by its own statistics."""
    y, _, _ = normalized(x, list(range(2, x.ndim)), node.attr("epsilon", 1e-5))
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


@onnx_op("LayerNormalization", compute="float")
def layer_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    """Over the axes from `axis` on."""
    axis, eps = axis_of(node.attr("axis", -1), x.ndim), node.attr("epsilon", 1e-5)
    if axis == x.ndim - 1 and scale.ndim == 1 and (bias is None or bias.ndim == 1) and not node.wants(1):
        return ops.layer_norm(x, scale, bias, eps=eps)[0]
    y, mean, rstd = normalized(x, list(range(axis, x.ndim)), eps)
    y = y * scale
    return (y if bias is None else y + bias), mean, rstd


@onnx_op("RMSNormalization", since=23, compute="float")
def rms_norm(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * scale over the axes from `axis` on."""
    axes = list(range(axis_of(node.attr("axis", -1), x.ndim), x.ndim))
    rms = ops.rsqrt(ops.mean(ops.square(x), axes=axes, keepdims=True) + node.attr("epsilon", 1e-5))
    return x * rms * scale


@onnx_op("GroupNormalization", compute="float")
def group_norm_18(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """One scale a group."""
    y, shape = _grouped(node, x)
    groups = [1, node.attr("num_groups"), *(1 for _ in range(y.ndim - 2))]
    return ops.reshape(y * ops.reshape(scale, shape=groups) + ops.reshape(bias, shape=groups), shape=shape)


@onnx_op("GroupNormalization", since=21, compute="float")
def group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """One scale a channel."""
    y, shape = _grouped(node, x)
    return ops.reshape(y, shape=shape) * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def _grouped(node: Node, x: Tensor) -> tuple[Tensor, list[int]]:
    n, c, *spatial = extents(x)
    groups = node.attr("num_groups")
    y = ops.reshape(x, shape=[n, groups, c // groups, *spatial])
    return normalized(y, list(range(2, y.ndim)), node.attr("epsilon", 1e-5))[0], [n, c, *spatial]


@onnx_op("MeanVarianceNormalization", compute="float")
def mean_variance_norm(node: Node, x: Tensor) -> Tensor:
    """(x - mean) / (standard deviation + 1e-9)."""
    axes = node.attr("axes", [0, 2, 3])
    centred = x - ops.mean(x, axes=axes, keepdims=True)
    return centred / (ops.sqrt(ops.mean(ops.square(centred), axes=axes, keepdims=True)) + 1e-9)


@onnx_op("LpNormalization", compute="float")
def lp_norm(node: Node, x: Tensor) -> Tensor:
    """x over its 1- or 2-norm along an axis; 0 where that is 0."""
    axis = axis_of(node.attr("axis", -1), x.ndim)
    if node.attr("p", 2) == 1:
        size = ops.sum(ops.abs(x), axes=[axis], keepdims=True)
    else:
        size = ops.sqrt(ops.sum(ops.square(x), axes=[axis], keepdims=True))
    return x / ops.where(ops.equal(size, 0.0), ops.full_like(size, value=1.0), size)


@onnx_op("LRN", compute="float")
def local_response_norm(node: Node, x: Tensor) -> Tensor:
    """x / (bias + alpha / size * sum of the squares of `size` neighbouring channels)^beta."""
    size = node.attr("size")
    if not 1 <= size <= 4096:
        raise ValueError(f"size {size}")
    low = (size - 1) // 2
    squares = ops.pad(ops.square(x), pads=[0, 0, low, size - 1 - low, *([0] * (2 * x.ndim - 4))])
    channels = extents(x)[1]
    total = ops.slice(squares, starts=[0], ends=[channels], axes=[1])
    for i in range(1, size):
        total = total + ops.slice(squares, starts=[i], ends=[i + channels], axes=[1])
    scale = total * (node.attr("alpha", 1e-4) / size) + node.attr("bias", 1.0)
    return x / ops.pow(scale, node.attr("beta", 0.75))
