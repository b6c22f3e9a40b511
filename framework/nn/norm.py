"""Normalization layers over the last axis C of channels-last data."""

from __future__ import annotations

import numpy as np

from framework import ops, precision
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.nn import init
from framework.nn.layer import Layer, buffer
from framework.tensors import Tensor


def _checked(layer: Layer, eps: float) -> float:
    """What is added to a variance; AttributeValueError where roots of it would be no numbers."""
    if not 0 <= eps < float("inf"):
        raise AttributeValueError(f"{type(layer).__name__}: eps is {eps}; it must be 0 or more, and finite")
    return eps


class BatchNorm(Layer):
    """Normalizes each channel over all other axes (Ioffe and Szegedy 2015).  x, y: [..., C].

    y = (x - mean) / sqrt(variance + eps) * scale + bias

    In training mode with the batch's mean and (biased) variance, which also move the running statistics:
    `running = momentum * running + (1 - momentum) * batch`. In evaluation mode with the running statistics.
    (PyTorch's momentum is 1 minus this one.)

    Args:
        channels: C.
        eps: added to the variance.
        momentum: share of the old running statistics that is kept, in [0, 1).
        frozen: use the running statistics in training mode too, and do not move them.

    Example:
        >>> nn.BatchNorm(3)(tensor(np.ones((2, 4, 4, 3), np.float32))).shape
        (2, 4, 4, 3)
    """

    scale: Tensor
    bias: Tensor

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.9, frozen: bool = False) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise AttributeValueError(f"BatchNorm: momentum is {momentum}; it must lie in [0, 1)")
        self.channels, self.eps, self.momentum, self.frozen = channels, _checked(self, eps), momentum, frozen
        self.add_parameter("scale", (channels,), init.Constant(1.0))
        self.add_parameter("bias", (channels,), init.Constant(0.0))
        self.running_mean = buffer(np.zeros(channels, np.float32))
        self.running_var = buffer(np.ones(channels, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [..., C]; raises ShapeError for one value a channel in training mode."""
        if self.frozen or not self.training:
            return ops.batch_norm_inference(x, self.scale, self.bias, self.running_mean, self.running_var, eps=self.eps)
        y, mean, var = ops.batch_norm(x, self.scale, self.bias, eps=self.eps)
        with no_grad():
            self.running_mean.set(self._moved(self.running_mean, mean))
            self.running_var.set(self._moved(self.running_var, var))
        return y

    def _moved(self, running: Tensor, batch: Tensor) -> Tensor:
        """The next running statistic; in mixed precision a batch that overflowed leaves it as it was."""
        moved = ops.lerp(batch, running, self.momentum)
        return moved if precision.current() == "float32" else ops.where(ops.isfinite(moved), moved, running)

    def _describe(self) -> str:
        return str(self.channels)


class LayerNorm(Layer):
    """Normalizes each row over its last axis (Ba et al. 2016).  x, y: [..., C].

    y = (x - mean) / sqrt(variance + eps) * scale + bias

    Args:
        channels: C.
        eps: added to the variance.
        bias: add one.

    Example:
        >>> nn.LayerNorm(2)(tensor([[1.0, 3.0]])).numpy().round(3).tolist()
        [[-1.0, 1.0]]
    """

    scale: Tensor
    bias: Tensor | None

    def __init__(self, channels: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.channels, self.eps = channels, _checked(self, eps)
        self.add_parameter("scale", (channels,), init.Constant(1.0))
        self.bias = None
        if bias:
            self.add_parameter("bias", (channels,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [..., C]."""
        return ops.layer_norm(x, self.scale, self.bias, eps=self.eps)[0]

    def _describe(self) -> str:
        return str(self.channels)


class RMSNorm(Layer):
    """Divides each row by the root of its mean square over its last axis (Zhang and Sennrich 2019).  x, y: [..., C].

    y = x / sqrt(mean(x^2) + eps) * scale

    Args:
        channels: C.
        eps: added to the mean square.

    Example:
        >>> nn.RMSNorm(2)(tensor([[3.0, 3.0]])).numpy().round(3).tolist()
        [[1.0, 1.0]]
    """

    scale: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.channels, self.eps = channels, _checked(self, eps)
        self.add_parameter("scale", (channels,), init.Constant(1.0))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [..., C]."""
        return ops.rms_norm(x, self.scale, eps=self.eps)[0]

    def _describe(self) -> str:
        return str(self.channels)


def unit(x: Tensor) -> Tensor:
    """Vectors along the last axis at length 1; one shorter than 1e-6 gets shorter still, never NaN.  x, y: [..., C]."""
    return x * ops.rsqrt(ops.maximum(ops.sum(x * x, axes=-1, keepdims=True), 1e-12))


class GroupNorm(Layer):
    """Normalizes groups of channels of each sample over space (Wu and He 2018).  x, y: [N, ..., C].

    y = (x - mean) / sqrt(variance + eps) * scale + bias, mean and variance of a sample's group

    Args:
        groups: number of groups; it divides `channels`.
        channels: C.
        eps: added to the variance.

    Example:
        >>> nn.GroupNorm(2, 8)(tensor(np.ones((1, 4, 4, 8), np.float32))).shape
        (1, 4, 4, 8)
    """

    scale: Tensor
    bias: Tensor

    def __init__(self, groups: int, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        if channels % groups:
            raise AttributeValueError(f"GroupNorm: {channels} channels do not divide into {groups} groups")
        self.groups, self.channels, self.eps = groups, channels, _checked(self, eps)
        self.add_parameter("scale", (channels,), init.Constant(1.0))
        self.add_parameter("bias", (channels,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, ..., C]."""
        return ops.group_norm(x, self.scale, self.bias, groups=self.groups, eps=self.eps)[0]

    def _describe(self) -> str:
        return f"{self.groups}, {self.channels}"
