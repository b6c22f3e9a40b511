"""Convolution and pooling of clips [N, T, H, W, C], made of the 2-D operators and of frames laid side by side."""

from __future__ import annotations

from framework import ops
from framework.nn import init
from framework.nn.activation import activation
from framework.nn.layer import Layer
from framework.nn.norm import BatchNorm
from framework.tensors import Tensor

Size3 = int | tuple[int, int, int]


def _triple(value: Size3) -> tuple[int, int, int]:
    return (value, value, value) if isinstance(value, int) else (value[0], value[1], value[2])


class Conv3d(Layer):
    """Convolution in time, height and width.  x: [N, T, H, W, C], y: [N, T', H', W', K].

    y[n, t, h, w] = bias + the sum over the window's frames, rows, columns and channels of x times weight

    weight: [K, R, S, Q * C], the kernel's Q frames side by side; bias: [K]. A kernel [K, C, Q, R, S] of PyTorch is
    `transpose(0, 3, 4, 2, 1).reshape(K, R, S, Q * C)`.

    The frames of a window are laid side by side (`ops.unfold_frames`) and go through `ops.conv2d`: the products are
    the same, and as fast. A kernel of one pixel runs on x as it is, time in the place of height.

    Args:
        in_channels: C.
        out_channels: K.
        kernel: Q, R and S.
        stride: step in time, height and width.
        padding: zeros on each side of the three; None is half the kernel.
        bias: add one.
        initializer: of the weight.

    Example:
        >>> clip = tensor(np.ones((1, 4, 16, 16, 3), np.float32))
        >>> nn.Conv3d(3, 8, kernel=3, stride=(1, 2, 2))(clip).shape
        (1, 4, 8, 8, 8)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Size3,
        stride: Size3 = 1,
        padding: Size3 | None = None,
        bias: bool = True,
        initializer: init.Initializer | None = None,
    ) -> None:
        super().__init__()
        q, r, s = self.kernel = _triple(kernel)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stride = _triple(stride)
        self.padding = (q // 2, r // 2, s // 2) if padding is None else _triple(padding)
        self.add_parameter("weight", (out_channels, r, s, q * in_channels), initializer or init.Kaiming())
        self.bias = None
        if bias:
            self.add_parameter("bias", (out_channels,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, H, W, C]; y: [N, T', H', W', K]."""
        (q, r, s), (step, *steps), (pad, *pads) = self.kernel, self.stride, self.padding
        if (r, s, *steps, *pads) == (1, 1, 1, 1, 0, 0):
            weight = ops.reshape(self.weight, shape=(0, q, 1, self.in_channels))
            rows = ops.flatten(x, start=2, end=3)  # [N, T, H * W, C]
            y = ops.conv2d(rows, weight, self.bias, stride=(step, 1), padding=(pad, 0))
            return ops.unflatten_like(y, x, axis=2, start=2, end=3)
        if (q, step, pad) != (1, 1, 0):
            x = ops.unfold_frames(x, size=q, stride=step, padding=pad)
        y = ops.conv2d(ops.flatten(x, start=0, end=1), self.weight, self.bias, stride=tuple(steps), padding=tuple(pads))
        return ops.unflatten_like(y, x, axis=0)

    def _describe(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, {self.kernel}, stride={self.stride}"


class Conv3dBNAct(Layer):
    """3-D convolution without bias, batch norm, activation.  x: [N, T, H, W, C], y: [N, T', H', W', K].

    y = act(batch_norm(conv(x)))

    Args:
        in_channels: C.
        out_channels: K.
        kernel: odd extents Q, R and S; the padding keeps T, H and W over the stride.
        stride: step in time, height and width.
        act: name of the activation, see `nn.activation`.

    Example:
        >>> nn.Conv3dBNAct(3, 8, 3)(tensor(np.ones((1, 2, 8, 8, 3), np.float32))).shape
        (1, 2, 8, 8, 8)
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel: Size3, stride: Size3 = 1, act: str = "relu"
    ) -> None:
        super().__init__()
        start = init.Kaiming(slope=1.0 if act == "none" else 0.0)
        self.conv = Conv3d(in_channels, out_channels, kernel, stride, bias=False, initializer=start)
        self.norm = BatchNorm(out_channels)
        self._activation = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, H, W, C]; y: [N, T', H', W', K]."""
        y = self.conv(x)
        return ops.unflatten_like(self._activation(self.norm(ops.flatten(y, start=0, end=1))), y, axis=0)


class _Pool3d(Layer):
    """Pooling is separable: over height and width, then over time."""

    def __init__(self, kernel: Size3, stride: Size3 | None = None, padding: Size3 = 0) -> None:
        super().__init__()
        self.kernel = _triple(kernel)
        self.stride = self.kernel if stride is None else _triple(stride)
        self.padding = _triple(padding)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, H, W, C]; y: [N, T', H', W', C]."""
        (q, *sides), (step, *steps), (pad, *pads) = self.kernel, self.stride, self.padding
        if (*sides, *steps) != (1, 1, 1, 1):
            y = self._pool(ops.flatten(x, start=0, end=1), tuple(sides), tuple(steps), tuple(pads))
            x = ops.unflatten_like(y, x, axis=0)
        if (q, step) != (1, 1):
            y = self._pool(ops.flatten(x, start=2, end=3), (q, 1), (step, 1), (pad, 0))
            x = ops.unflatten_like(y, x, axis=2, start=2, end=3)
        return x

    def _pool(self, x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines no _pool()")


class MaxPool3d(_Pool3d):
    """Largest value of each window.  x: [N, T, H, W, C], y: [N, T', H', W', C].

    y[n, t, h, w, c] = max over the window of x[n, ..., c]

    Args:
        kernel: extent of the window in time, height and width.
        stride: step; the kernel's extent when None.
        padding: cells on each side that never win.

    Example:
        >>> nn.MaxPool3d(2)(tensor(np.ones((1, 4, 8, 8, 3), np.float32))).shape
        (1, 2, 4, 4, 3)
    """

    def _pool(self, x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
        return ops.max_pool2d(x, kernel=kernel, stride=stride, padding=padding)


class AvgPool3d(_Pool3d):
    """Mean of each window, zeros of the padding included.  x: [N, T, H, W, C], y: [N, T', H', W', C].

    y[n, t, h, w, c] = (sum over the window of x[n, ..., c]) / cells of the window

    Args:
        kernel: extent of the window in time, height and width.
        stride: step; the kernel's extent when None.
        padding: zeros on each side.

    Example:
        >>> nn.AvgPool3d((1, 2, 2))(tensor(np.ones((1, 4, 8, 8, 3), np.float32))).shape
        (1, 4, 4, 4, 3)
    """

    def _pool(self, x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
        return ops.avg_pool2d(x, kernel=kernel, stride=stride, padding=padding)
