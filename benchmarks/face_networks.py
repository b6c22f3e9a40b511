"""The networks of faces in PyTorch, for faces_vs_torch.py: the same layers as ours, [N, C, H, W]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

_FRONT = (24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1), (72, 1), (80, 1), (88, 1)
_MOBILENET = (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)


class BlazeBlock(nn.Module):
    """relu(1x1(depthwise 3x3(x)) + x), the shortcut halved by maxima and widened by zeros."""

    def __init__(self, inside: int, out: int, stride: int) -> None:
        super().__init__()
        self.stride, self.wider = stride, out - inside
        self.depthwise = nn.Conv2d(inside, inside, 3, stride, 0 if stride == 2 else 1, groups=inside)
        self.pointwise = nn.Conv2d(inside, out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block on x."""
        y = self.pointwise(self.depthwise(F.pad(x, (0, 1, 0, 1)) if self.stride == 2 else x))
        x = F.max_pool2d(x, 2) if self.stride == 2 else x
        return F.relu(y + F.pad(x, (0, 0, 0, 0, 0, self.wider)))


class BlazeFace(nn.Module):
    """MediaPipe's for faces near by: 896 scores and codes of 16 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 5, 2)
        self.fine, width = _blaze(24, _FRONT)
        self.coarse, last = _blaze(width, ((96, 2), *[(96, 1)] * 4))
        self.outs = nn.ModuleList(
            nn.ModuleList([nn.Conv2d(channels, priors, 1), nn.Conv2d(channels, 16 * priors, 1)])
            for channels, priors in ((width, 2), (last, 6))
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x: [N, 3, 128, 128]; scores [N, 896, 1] and codes [N, 896, 16]."""
        fine = self.fine(F.relu(self.stem(F.pad(x, (1, 2, 1, 2)))))
        return said((fine, self.coarse(fine)), self.outs, (1, 16))


def _blaze(inside: int, blocks: Sequence[tuple[int, int]]) -> tuple[nn.Sequential, int]:
    layers = []
    for out, stride in blocks:
        layers.append(BlazeBlock(inside, out, stride))
        inside = out
    return nn.Sequential(*layers), inside


def said(maps: Sequence[torch.Tensor], outs: nn.ModuleList, numbers: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Each kind of output of all maps, [N, priors, numbers of the kind]."""
    kinds = range(len(numbers))
    found = [[out[k](x).permute(0, 2, 3, 1) for k in kinds] for x, out in zip(maps, outs, strict=True)]
    return tuple(torch.cat([each[k].reshape(len(each[k]), -1, numbers[k]) for each in found], 1) for k in kinds)


def layer(
    inside: int, out: int, kernel: int = 3, stride: int = 1, groups: int = 1, slope: float | None = 0.1
) -> nn.Sequential:
    """A convolution that keeps the size (of stride 1), batch norm, perhaps leaky ReLU."""
    conv = nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), *([] if slope is None else [nn.LeakyReLU(slope, inplace=True)]))


class Context(nn.Module):
    """SSH's module at a width of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.reduce = layer(64, 32, slope=None), layer(64, 16)
        self.middle, self.widen, self.far = layer(16, 16, slope=None), layer(16, 16), layer(16, 16, slope=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The module on x."""
        reduced = self.reduce(x)
        return F.relu(torch.cat([self.near(x), self.middle(reduced), self.far(self.widen(reduced))], 1))


class RetinaFace(nn.Module):
    """On a quarter of MobileNetV1: two scores and a code of two priors at each place of three maps, no points."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [layer(3, 8, stride=2)]
        inside = 8
        for out, stride in _MOBILENET:
            layers += [layer(inside, inside, stride=stride, groups=inside), layer(inside, out, 1)]
            inside = out
        stages = layers[:11], layers[11:23], layers[23:]
        self.stages = nn.ModuleList(nn.Sequential(*stage) for stage in stages)
        self.laterals = nn.ModuleList(layer(c, 64, 1) for c in (64, 128, 256))
        self.merges = nn.ModuleList(layer(64, 64) for _ in range(2))
        self.contexts = nn.ModuleList(Context() for _ in range(3))
        self.outs = nn.ModuleList(nn.ModuleList(nn.Conv2d(64, 2 * n, 1) for n in (2, 4)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """x: [N, 3, H, W]; scores [N, priors, 2] and codes [N, priors, 4]."""
        levels = []
        for stage, lateral in zip(self.stages, self.laterals, strict=True):
            x = stage(x)
            levels.append(lateral(x))
        for i in (1, 0):
            upper = F.interpolate(levels[i + 1], size=levels[i].shape[2:], mode="nearest")
            levels[i] = self.merges[i](levels[i] + upper)
        return said([context(x) for context, x in zip(self.contexts, levels, strict=True)], self.outs, (2, 4))
