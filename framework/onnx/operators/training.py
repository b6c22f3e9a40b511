"""Operators of ONNX for training: gradients, and one step of an optimizer."""

from __future__ import annotations

from typing import Any

from framework import gradients, ops
from framework.autograd.tape import recording
from framework.onnx.interpreter import Node
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor

_DOMAIN = "ai.onnx.preview.training"


@onnx_op("Gradient", domain=_DOMAIN)
def gradient(node: Node, *inputs: Tensor) -> tuple[Any, ...]:
    """Derivatives of the value named y by those named xs, at the inputs."""
    names, y = node.attr("xs"), node.attr("y")
    leaves = [x.detach() for x in inputs[: len(names)]]
    for leaf in leaves:
        leaf.requires_grad = True
    fixed = dict(zip(node.attr("zs") or [], inputs[len(names) :], strict=True))
    with recording(True):
        root = node.value_again(y, dict(zip(names, leaves, strict=True)) | fixed)
        return tuple(gradients([root], leaves))


def _decayed(node: Node, x: Tensor, g: Tensor) -> Tensor:
    return g + x * node.attr("norm_coefficient", 0.0)


@onnx_op("Momentum", domain=_DOMAIN)
def momentum(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Any, ...]:
    """Of n tensors: (x..., gradient..., velocity...) -> (x..., velocity...)."""
    n = len(tensors) // 3
    new_x, new_v = [], []
    alpha, nesterov = node.attr("alpha"), node.attr("mode") == "nesterov"
    beta = node.attr("beta") if int(node.host(step, "step").reshape(())) > 0 else 1.0
    for x, g, v in zip(tensors[:n], tensors[n : 2 * n], tensors[2 * n :], strict=True):
        g = _decayed(node, x, g)
        v = v * alpha + g * beta
        new_x.append(x - rate * (g + v * alpha if nesterov else v))
        new_v.append(v)
    return (*new_x, *new_v)


@onnx_op("Adagrad", domain=_DOMAIN)
def adagrad(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Any, ...]:
    """Duchi et al. 2011: (x..., gradient..., squares...) -> (x..., squares...)."""
    n = len(tensors) // 3
    decay, eps = node.attr("decay_factor", 0.0), node.attr("epsilon", 1e-6)
    rate = rate / (ops.cast(step, dtype=rate.dtype) * decay + 1.0)
    new_x, new_h = [], []
    for x, g, h in zip(tensors[:n], tensors[n : 2 * n], tensors[2 * n :], strict=True):
        g = _decayed(node, x, g)
        h = h + ops.square(g)
        new_x.append(x - rate * g / (ops.sqrt(h) + eps))
        new_h.append(h)
    return (*new_x, *new_h)


@onnx_op("Adam", domain=_DOMAIN)
def adam(node: Node, rate: Tensor, step: Tensor, *tensors: Tensor) -> tuple[Any, ...]:
    """Kingma and Ba 2015: (x..., gradient..., v..., h...) -> (x..., v..., h...)."""
    n = len(tensors) // 4
    a, b, eps = node.attr("alpha", 0.9), node.attr("beta", 0.999), node.attr("epsilon", 1e-6)
    t = int(node.host(step, "step").reshape(()))
    if t > 0:
        rate = rate * ((1 - b**t) ** 0.5 / (1 - a**t))
    new_x, new_v, new_h = [], [], []
    for x, g, v, h in zip(tensors[:n], tensors[n : 2 * n], tensors[2 * n : 3 * n], tensors[3 * n :], strict=True):
        g = _decayed(node, x, g)
        v, h = v * a + g * (1 - a), h * b + ops.square(g) * (1 - b)
        new_x.append((x - rate * v / (ops.sqrt(h) + eps)) * (1.0 - node.attr("norm_coefficient_post", 0.0)))
        new_v.append(v)
        new_h.append(h)
    return (*new_x, *new_v, *new_h)
