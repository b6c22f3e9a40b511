"""BlazeNet: depthwise 5x5 blocks for faces on phones (Bazarevsky et al. 2019, arXiv:1907.05047).

Letters: N batch, H W image size, C_s channels of the map of stride s.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.vision.backbones.base import Stack, check_strides

# (channels in, out, stride) and (in, middle, out, stride)
_SINGLE = ((24, 24, 1), (24, 24, 1), (24, 48, 2), (48, 48, 1), (48, 48, 1))
_DOUBLE = ((48, 24, 96, 2), (96, 24, 96, 1), (96, 24, 96, 1), (96, 24, 96, 2), (96, 24, 96, 1), (96, 24, 96, 1))


@register("backbone")
class BlazeNet(Stack):
    """Stem, then single and double blocks, each a residual with ReLU; every 5x5 convolution is depthwise.

    A single block is a depthwise and a 1x1 convolution. A double block has two such pairs with few channels between
    them and ReLU after the first. Where a block halves the map, its shortcut is a max pooling and, where the number of
    channels changes, a 1x1 convolution. (PaddleDetection's original made the second 5x5 of a double block dense.)

    Args:
        single: (channels in, out, stride) of each single block.
        double: (channels in, middle, out, stride) of each double block.
        kernel: of the depthwise convolutions: 5, or 3 for two of 3x3 in place of each.
        out_strides: strides of the maps given out; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: file of weights under our own names.
    """

    def __init__(
        self,
        single: tuple[tuple[int, int, int], ...] = _SINGLE,
        double: tuple[tuple[int, int, int, int], ...] = _DOUBLE,
        kernel: int = 5,
        out_strides: tuple[int, ...] = (8, 16),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if kernel not in (3, 5):
            raise AttributeValueError(f"BlazeNet: kernel is {kernel}; it must be 3 or 5")
        plan = [(a, 0, b, s) for a, b, s in single] + list(double)
        offered, total = {2}, 2
        for _, _, _, stride in plan:
            total *= stride
            offered.add(total)
        self.strides = check_strides("BlazeNet", out_strides, sorted(offered))
        width = plan[0][0]
        self.stem = nn.ConvBNAct(3, width, 3, stride=2)
        blocks: list[nn.Layer] = []
        last: dict[int, tuple[int, int]] = {}
        total = 2
        for given, middle, out, stride in plan:
            total *= stride
            if total > self.strides[-1]:
                break
            _check_width(given, width)
            blocks.append(_Block(given, middle, out, stride, kernel))
            width = out
            last[total] = (len(blocks) - 1, out)
        self.keep(blocks, last)
        self.finish(freeze_at, frozen_norm, pretrained)


class _Block(nn.Layer):
    """relu(body(x) + shortcut(x)).  x: [N, H, W, C], y: [N, ceil(H / stride), ceil(W / stride), K]."""

    def __init__(self, channels: int, middle: int, out: int, stride: int, kernel: int) -> None:
        super().__init__()
        if middle:
            first, second = _pair(channels, middle, stride, kernel), _pair(middle, out, 1, kernel)
            self.body = nn.Sequential(*first, nn.Activation("relu"), *second)
        else:
            self.body = nn.Sequential(*_pair(channels, out, stride, kernel))
        self.stride = stride
        self.short: nn.Layer | None = None
        if channels != out:
            self.short = nn.ConvBNAct(channels, out, 1, act="none")

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        y = self.body(x)
        if self.stride > 1:
            x = ops.max_pool2d(x, kernel=self.stride, stride=self.stride, ceil_mode=True)
        return ops.relu(y + (x if self.short is None else self.short(x)))


def _pair(channels: int, out: int, stride: int, kernel: int) -> Sequence[nn.Layer]:
    """A depthwise convolution (or two of 3x3) and a 1x1 one."""
    depthwise = [nn.ConvBNAct(channels, channels, kernel, stride, groups=channels, act="none")]
    if kernel == 3:
        depthwise.append(nn.ConvBNAct(channels, channels, 3, groups=channels, act="none"))
    return [*depthwise, nn.ConvBNAct(channels, out, 1, act="none")]


def _check_width(given: int, before: int) -> None:
    if given != before:
        raise AttributeValueError(f"BlazeNet: a block takes {given} channels but the one before gives {before}")
