"""Pooling and upsampling on [N, H, W, C], and dropout."""

from __future__ import annotations

from typing import Literal

from framework import ops, random
from framework.errors import AttributeValueError, ShapeError
from framework.nn.layer import Layer
from framework.tensors import Tensor

Size = int | tuple[int, int]
Padding = int | tuple[int, ...]


class MaxPool2d(Layer):
    """Largest value of each window.  x: [N, H, W, C], y: [N, H', W', C].

    y[n, h, w, c] = max over the window of x[n, ..., c]

    Args:
        kernel: extent of the window.
        stride: step; the kernel's extent when None.
        padding: cells on each side that never win: one number, (h, w) or (top, bottom, left, right).
        ceil_mode: let the last window stick out.

    Example:
        >>> nn.MaxPool2d(3, stride=2, padding=1)(tensor(np.ones((1, 8, 8, 3), np.float32))).shape
        (1, 4, 4, 3)
    """

    def __init__(self, kernel: Size, stride: Size | None = None, padding: Padding = 0, ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, kernel if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', C]."""
        return ops.max_pool2d(x, kernel=self.kernel, stride=self.stride, padding=self.padding, ceil_mode=self.ceil_mode)


class AvgPool2d(Layer):
    """Mean of each window.  x: [N, H, W, C], y: [N, H', W', C].

    y[n, h, w, c] = (sum over the window of x[n, ..., c]) / cells of the window

    Args:
        kernel: extent of the window.
        stride: step; the kernel's extent when None.
        padding: zeros on each side: one number, (h, w) or (top, bottom, left, right).
        ceil_mode: let the last window stick out.
        count_include_pad: divide by the whole window, padding included.

    Example:
        >>> nn.AvgPool2d(2)(tensor(np.ones((1, 8, 8, 3), np.float32))).shape
        (1, 4, 4, 3)
    """

    def __init__(
        self,
        kernel: Size,
        stride: Size | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, kernel if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', C]."""
        return ops.avg_pool2d(
            x,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )


class AdaptiveMaxPool2d(Layer):
    """Largest values of windows that give an output of one size for any input.  x: [N, H, W, C], y: [N, P, Q, C].

    y[n, p, q, c] = max of x[n, floor(p H / P) to ceil((p + 1) H / P) - 1, and so along the width, c]

    Args:
        size: [P, Q], or one number for both; they need not divide H and W.

    Example:
        >>> nn.AdaptiveMaxPool2d(7)(tensor(np.ones((1, 20, 31, 3), np.float32))).shape
        (1, 7, 7, 3)
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, P, Q, C]."""
        return ops.adaptive_max_pool2d(x, size=self.size)

    def _describe(self) -> str:
        return str(self.size)


class AdaptiveAvgPool2d(Layer):
    """Means of windows that give an output of one size for any input.  x: [N, H, W, C], y: [N, P, Q, C].

    y[n, p, q, c] = mean of x[n, floor(p H / P) to ceil((p + 1) H / P) - 1, and so along the width, c]

    Args:
        size: [P, Q], or one number for both; they need not divide H and W.

    Example:
        >>> nn.AdaptiveAvgPool2d([1, 2])(tensor(np.ones((1, 20, 31, 3), np.float32))).shape
        (1, 1, 2, 3)
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, P, Q, C]."""
        return ops.adaptive_avg_pool2d(x, size=self.size)

    def _describe(self) -> str:
        return str(self.size)


class GlobalAvgPool2d(Layer):
    """Mean over height and width.  x: [N, H, W, C], y: [N, C].

    y[n, c] = (sum over h and w of x[n, h, w, c]) / (H W)

    Example:
        >>> nn.GlobalAvgPool2d()(tensor(np.ones((2, 7, 7, 512), np.float32))).shape
        (2, 512)
    """

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]. Raises ShapeError where there is nothing to take the mean of."""
        if 0 in x.shape_now[1:3]:
            raise ShapeError(
                f"GlobalAvgPool2d: x of shape {list(x.shape_now)} has no pixels, so it has no mean; take larger inputs"
            )
        return ops.mean(x, axes=(1, 2))


class _ByFactor(Layer):
    """Base of the two layers that trade channels for pixels.

    Args:
        factor: r.
    """

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def _describe(self) -> str:
        return str(self.factor)


class PixelShuffle(_ByFactor):
    """Channels as pixels (Shi et al. 2016).  x: [N, H, W, C r^2], y: [N, H r, W r, C].

    y[n, h r + i, w r + j, c] = x[n, h, w, c r^2 + i r + j]

    Args:
        factor: r.

    Example:
        >>> nn.PixelShuffle(2)(tensor(np.ones((1, 4, 4, 12), np.float32))).shape
        (1, 8, 8, 3)
    """

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C r^2]; y: [N, H r, W r, C]."""
        return ops.pixel_shuffle(x, self.factor)


class PixelUnshuffle(_ByFactor):
    """Pixels as channels: what undoes PixelShuffle.  x: [N, H r, W r, C], y: [N, H, W, C r^2].

    y[n, h, w, c r^2 + i r + j] = x[n, h r + i, w r + j, c]

    Args:
        factor: r.

    Example:
        >>> nn.PixelUnshuffle(2)(tensor(np.ones((1, 8, 8, 3), np.float32))).shape
        (1, 4, 4, 12)
    """

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H r, W r, C]; y: [N, H, W, C r^2]."""
        return ops.pixel_unshuffle(x, self.factor)


class Upsample(Layer):
    """Enlarges height and width.  x: [N, H, W, C], y: [N, H * factor, W * factor, C].

    y[n, h, w, c] = x at ((h + 0.5) / factor - 0.5, (w + 0.5) / factor - 0.5), by the method

    Args:
        factor: whole number of times.
        method: "nearest", "bilinear" or "bicubic".
        align_corners: not for nearest: corner pixels' centres stay in place.

    Example:
        >>> nn.Upsample(2, method="bilinear")(tensor(np.ones((1, 4, 4, 3), np.float32))).shape
        (1, 8, 8, 3)
    """

    def __init__(
        self,
        factor: int = 2,
        method: Literal["nearest", "bilinear", "bicubic"] = "nearest",
        align_corners: bool = False,
    ) -> None:
        super().__init__()
        if method not in ("nearest", "bilinear", "bicubic"):
            raise AttributeValueError(
                f"Upsample: method '{method}' is not known; it is 'nearest', 'bilinear' or 'bicubic'"
            )
        self.factor, self.method, self.align_corners = factor, method, align_corners

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H * factor, W * factor, C]."""
        scale = (float(self.factor), float(self.factor))
        if self.method == "nearest":
            return ops.resize_nearest(x, scale=scale)
        resize = ops.resize_bilinear if self.method == "bilinear" else ops.resize_bicubic
        return resize(x, scale=scale, align_corners=self.align_corners)

    def _describe(self) -> str:
        return f"{self.factor}, {self.method}"


class Dropout(Layer):
    """Sets elements to 0 with probability `p` in training and divides the rest by 1 - p (Srivastava et al. 2014).

    y = x m / (1 - p), each m 1 with probability 1 - p, else 0; in evaluation y = x

    Args:
        p: probability in [0, 1).
        generator: source of random numbers; the default generator when None.

    Example:
        >>> nn.Dropout(0.5).eval()(tensor([1.0, 2.0])).numpy().tolist()
        [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5, generator: random.Generator | None = None) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise AttributeValueError(f"Dropout: p is {p}; it must lie in [0, 1)")
        self.p = p
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """x, y: any shape."""
        if self.p == 0 or not self.training:
            return x
        generator = self.generator or random.default_generator
        return ops.dropout(x, generator.key(), p=self.p)

    def _describe(self) -> str:
        return str(self.p)
