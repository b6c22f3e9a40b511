"""Gradients of framework/native/ops/conv.cc.

The three convolutions are bilinear: each one's gradients are the others.
"""

from typing import Any

from framework import ops
from framework.autograd.rule_table import rule
from framework.autograd.rules.activation import before_activation
from framework.ops import conv2d_grad_input, conv2d_grad_weight


def _window(stride: Any, padding: Any, dilation: Any, groups: int, algorithm: str) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "algorithm": algorithm}


def _image(dy, y, x, weight, stride, padding, dilation, groups, algorithm, activation, slope):  # type: ignore[no-untyped-def]
    window = _window(stride, padding, dilation, groups, algorithm)
    return conv2d_grad_input(before_activation(dy, y, activation, slope), weight, x, **window)


def _weight(dy, y, x, weight, stride, padding, dilation, groups, algorithm, activation, slope):  # type: ignore[no-untyped-def]
    window = _window(stride, padding, dilation, groups, algorithm)
    return conv2d_grad_weight(x, before_activation(dy, y, activation, slope), weight, **window)


rule(
    "conv2d",
    x=_image,
    weight=_weight,
    bias=lambda dy, y, activation, slope: ops.sum(before_activation(dy, y, activation, slope), axes=(0, 1, 2)),
    residual=before_activation,
)
rule(
    "conv2d_grad_input",
    dy=lambda ddx, weight, stride, padding, dilation, groups, algorithm: ops.conv2d(
        ddx, weight, **_window(stride, padding, dilation, groups, algorithm)
    ),
    weight=lambda ddx, dy, weight, stride, padding, dilation, groups, algorithm: conv2d_grad_weight(
        ddx, dy, weight, **_window(stride, padding, dilation, groups, algorithm)
    ),
)
rule(
    "conv2d_grad_weight",
    x=lambda ddweight, x, dy, stride, padding, dilation, groups, algorithm: conv2d_grad_input(
        dy, ddweight, x, **_window(stride, padding, dilation, groups, algorithm)
    ),
    dy=lambda ddweight, x, stride, padding, dilation, groups, algorithm: ops.conv2d(
        x, ddweight, **_window(stride, padding, dilation, groups, algorithm)
    ),
)
rule(
    "conv2d_transpose",
    x=lambda dy, weight, stride, padding, dilation, groups, algorithm: ops.conv2d(
        dy, weight, **_window(stride, padding, dilation, groups, algorithm)
    ),
    weight=lambda dy, x, weight, stride, padding, dilation, groups, algorithm: conv2d_grad_weight(
        dy, x, weight, **_window(stride, padding, dilation, groups, algorithm)
    ),
    bias=lambda dy: ops.sum(dy, axes=(0, 1, 2)),
)
