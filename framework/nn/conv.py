"""Convolutions on [N, H, W, C], and the block of convolution, batch norm and activation that most models repeat."""

from __future__ import annotations

from framework import ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.nn.activation import activation
from framework.nn.layer import Layer
from framework.nn.norm import BatchNorm
from framework.tensors import Tensor

Size = int | tuple[int, int]


def _pair(value: Size) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class Conv2d(Layer):
    """Convolution.  x: [N, H, W, C], weight: [K, R, S, C/groups], bias: [K], y: [N, H', W', K].

    y[n, h, w, k] = bias[k] + sum over r, s, c of x[n, h stride + r dilation - padding, ..., c] weight[k, r, s, c]

    Args:
        in_channels: C.
        out_channels: K.
        kernel: R and S.
        stride: step in height and width.
        padding: zeros on each side: one number, (h, w) or (top, bottom, left, right); None is half the kernel.
        dilation: distance between the kernel's taps.
        groups: independent groups of channels; C for a depthwise convolution.
        bias: add one.
        initializer: of the weight.
        bias_initializer: of the bias; 0 by default.
        algorithm: "direct" computes every product, "winograd" fewer where that exists; "auto" takes what should be
            fastest, or what `framework.conv_algorithm` says.

    Example:
        >>> images = tensor(np.ones((2, 32, 48, 3), np.float32))
        >>> nn.Conv2d(3, 16, kernel=3, stride=2)(images).shape
        (2, 16, 24, 16)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Size,
        stride: Size = 1,
        padding: int | tuple[int, ...] | None = None,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: init.Initializer | None = None,
        bias_initializer: init.Initializer | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise AttributeValueError(
                f"Conv2d: {in_channels} channels in and {out_channels} out do not both divide into {groups} groups"
            )
        r, s = _pair(kernel)
        dh, dw = _pair(dilation)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stride, self.dilation, self.groups = _pair(stride), (dh, dw), groups
        self.algorithm = algorithm
        self.padding = (dh * (r // 2), dw * (s // 2)) if padding is None else padding
        self.add_parameter("weight", (out_channels, r, s, in_channels // groups), initializer or init.Kaiming())
        self.bias = None
        if bias:
            self.add_parameter("bias", (out_channels,), bias_initializer or init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        return self.convolved(x, self.weight)

    def convolved(self, x: Tensor, weight: Tensor) -> Tensor:
        """As `forward`, by another weight [K, R, S, C/groups]."""
        return ops.conv2d(
            x,
            weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            algorithm=self.algorithm,
        )

    def _describe(self) -> str:
        kernel = self.weight.shape[1:3]
        groups = f", groups={self.groups}" if self.groups > 1 else ""
        return f"{self.in_channels}, {self.out_channels}, {kernel}, stride={self.stride}{groups}"


class ConvBNAct(Layer):
    """Convolution without bias, batch norm, activation.  x: [N, H, W, C], y: [N, H', W', K].

    y = act(batch_norm(conv(x)))

    Args:
        in_channels: C.
        out_channels: K.
        kernel: odd extents of the kernel; the padding keeps H/stride.
        stride: step in height and width.
        groups: groups of channels.
        dilation: distance between the kernel's taps.
        act: name of the activation, see `nn.activation`.
        slope: leaky_relu's.
        norm_momentum: see `BatchNorm`.
        norm_eps: see `BatchNorm`.

    Example:
        >>> nn.ConvBNAct(3, 8, 3, stride=2, act="relu6")(tensor(np.ones((1, 8, 8, 3), np.float32))).shape
        (1, 4, 4, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Size,
        stride: Size = 1,
        groups: int = 1,
        dilation: int = 1,
        act: str = "relu",
        slope: float = 0.1,
        norm_momentum: float = 0.9,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        weight_init = init.Kaiming(slope={"leaky_relu": slope, "none": 1.0}.get(act, 0.0))
        self.conv = Conv2d(
            in_channels,
            out_channels,
            kernel,
            stride,
            dilation=dilation,
            groups=groups,
            bias=False,
            initializer=weight_init,
        )
        self.norm = BatchNorm(out_channels, norm_eps, norm_momentum)
        self.act = act
        self._activation = activation(act, slope)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        return self._activation(self.norm(self.conv(x)))

    def _describe(self) -> str:
        return f"act={self.act}"
