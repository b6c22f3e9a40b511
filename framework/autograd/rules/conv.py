"""Gradients of framework/native/ops/conv.cc.

The three convolutions are bilinear: each one's gradients are the others.
"""

from collections.abc import Callable
from typing import Any

from framework import ops
from framework.autograd.rule_table import rule, through_composition
from framework.ops.activations import before_activation
from framework.ops.internal import conv2d_grad_input, conv2d_grad_weight
from framework.precision import like
from framework.tensors import Tensor


def _window(stride: Any, padding: Any, dilation: Any, groups: int, algorithm: str) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "algorithm": algorithm}


def _by(gradient: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A rule of conv2d: gradient(dz, x, weight, window), with dz for what the activation was applied to."""

    def formula(  # type: ignore[no-untyped-def]
        dy, y, x, weight, bias, residual, stride, padding, dilation, groups, algorithm, activation, slope, residual_last
    ):
        window = _window(stride, padding, dilation, groups, algorithm)
        if residual_last and residual is not None and activation != "none":
            # y is not the activation's result: that is computed again.
            y = ops.conv2d(x, weight, bias, activation=activation, slope=slope, **window)
        return gradient(before_activation(dy, y, activation, slope), x, weight, window)

    return formula


rule(
    "conv2d",
    x=_by(lambda dz, x, weight, window: conv2d_grad_input(dz, weight, x, **window)),
    weight=_by(lambda dz, x, weight, window: conv2d_grad_weight(x, dz, weight, **window)),
    bias=_by(lambda dz, x, weight, window: ops.sum(like(dz, weight), axes=(0, 1, 2))),
    residual=lambda dy, y, activation, slope, residual_last: (
        dy if residual_last else before_activation(dy, y, activation, slope)
    ),
)
through_composition("separable_conv2d")
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
    bias=lambda dy, weight: ops.sum(like(dy, weight), axes=(0, 1, 2)),
)
