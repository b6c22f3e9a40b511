"""The segmentation networks in PyTorch, for segmentation_vs_torch.py and gpu.py: the same layers as ours, [N, C, H, W].

Letters: N batch, C channels, H W height and width, K classes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 19


def conv_bn(inside: int, out: int, kernel: int, stride: int = 1, dilation: int = 1, relu: bool = True) -> nn.Sequential:
    """Convolution that keeps the size (of stride 1), batch norm, perhaps ReLU."""
    conv = nn.Conv2d(inside, out, kernel, stride, dilation * (kernel // 2), dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), *([nn.ReLU(inplace=True)] if relu else []))


def separable(inside: int, out: int, stride: int = 1, dilation: int = 1, relu: bool = True) -> nn.Sequential:
    """A depthwise 3x3 and a 1x1 convolution, each with batch norm and perhaps ReLU."""
    depthwise = nn.Conv2d(inside, inside, 3, stride, dilation, dilation, groups=inside, bias=False)
    activation = [nn.ReLU(inplace=True)] if relu else []
    return nn.Sequential(depthwise, nn.BatchNorm2d(inside), *activation, *conv_bn(inside, out, 1, relu=relu))


def resized(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Bilinear, to the size of `like`."""
    return F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)


def twice(inside: int, out: int) -> nn.Sequential:
    """Two 3x3 convolutions."""
    return nn.Sequential(conv_bn(inside, out, 3), conv_bn(out, out, 3))


class UNet(nn.Module):
    """PaddleSeg's U-Net."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 512)
        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(twice(a, b) for a, b in ((1024, 256), (512, 128), (256, 64), (128, 64)))
        self.classifier = nn.Conv2d(64, CLASSES, 3, padding=1)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The layer on images."""
        maps = [self.down[0](images)]
        for layer in self.down[1:]:
            maps.append(layer(F.max_pool2d(maps[-1], 2)))
        x = maps.pop()
        for layer in self.up:
            beside = maps.pop()
            x = layer(torch.cat([beside, resized(x, beside)], 1))
        return [self.classifier(x)]


class Bottleneck(nn.Module):
    """ResNet-50's block."""

    def __init__(self, inside: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            conv_bn(inside, width, 1), conv_bn(width, width, 3, stride, dilation), conv_bn(width, out, 1, relu=False)
        )
        same = stride == 1 and inside == out
        self.short = nn.Identity() if same else conv_bn(inside, out, 1, stride, relu=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        return F.relu(self.body(x) + self.short(x), inplace=True)


class PSPNet(nn.Module):
    """PSPNet on ResNet-50 with a stem of three convolutions at output stride 8, both heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 3, 2), conv_bn(32, 32, 3), conv_bn(32, 64, 3), nn.MaxPool2d(3, 2, 1))
        self.stages, inside = nn.ModuleList(), 64
        for i, (count, dilation) in enumerate(((3, 1), (4, 1), (6, 2), (3, 4))):
            blocks = []
            for j in range(count):
                own = dilation if j else max(dilation // 2, 1)  # as torchvision: the first one as the stage before
                blocks.append(Bottleneck(inside, 64 << i, 2 if (i, j) == (1, 0) else 1, own))
                inside = 256 << i
            self.stages.append(nn.Sequential(*blocks))
        self.grids = (1, 2, 3, 6)
        self.branches = nn.ModuleList(conv_bn(2048, 512, 1) for _ in self.grids)
        self.head = nn.Sequential(conv_bn(4096, 512, 3), nn.Conv2d(512, CLASSES, 1))
        self.aux = nn.Sequential(conv_bn(1024, 256, 3), nn.Conv2d(256, CLASSES, 1))

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The layer on images."""
        x = self.stem(images)
        for stage in self.stages:
            before, x = x, stage(x)
        cells = zip(self.branches, self.grids, strict=True)
        pooled = [resized(branch(F.adaptive_avg_pool2d(x, g)), x) for branch, g in cells]
        return [resized(y, images) for y in (self.head(torch.cat([x, *pooled], 1)), self.aux(before))]


class XceptionBlock(nn.Module):
    """Three separable convolutions and a shortcut: "conv", "sum" or "none"."""

    def __init__(self, inside: int, widths: tuple[int, int, int], stride: int, dilation: int, short: str) -> None:
        super().__init__()
        self.before, self.sum = short != "none", short == "sum"
        pairs = zip((inside, *widths), widths, (1, 1, stride), strict=False)
        self.body = nn.ModuleList(separable(a, b, s, dilation, not self.before) for a, b, s in pairs)
        self.short = conv_bn(inside, widths[-1], 1, stride, relu=False) if short == "conv" else None

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Behind the second convolution, and the block's result."""
        y = x
        for i, layer in enumerate(self.body):
            y = layer(F.relu(y) if self.before else y)
            if i == 1:
                inner = y
        if self.short is not None:
            y = y + self.short(x)
        return inner, y + x if self.sum else y


class DeepLabV3PlusXception65(nn.Module):
    """DeepLabV3+ on the aligned Xception-65 at output stride 16; logits at the images' size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 3, 2), conv_bn(32, 64, 3))
        plan = [((128,) * 3, 2, 1, "conv"), ((256,) * 3, 2, 1, "conv"), ((728,) * 3, 2, 1, "conv")]
        plan += [((728,) * 3, 1, 1, "sum")] * 16
        plan += [((728, 1024, 1024), 1, 1, "conv"), ((1536, 1536, 2048), 1, 2, "none")]
        insides = [64, *(widths[-1] for widths, *_ in plan)]
        self.blocks = nn.ModuleList(XceptionBlock(inside, *each) for inside, each in zip(insides, plan, strict=False))
        for norm in (m for m in self.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.eps = 1e-3
        self.pyramid = nn.ModuleList([conv_bn(2048, 256, 1), *(separable(2048, 256, 1, d) for d in (6, 12, 18))])
        self.pooled, self.merge = conv_bn(2048, 256, 1), conv_bn(5 * 256, 256, 1)
        self.low = conv_bn(256, 48, 1)
        self.decoder = nn.Sequential(separable(304, 256), separable(256, 256), nn.Conv2d(256, CLASSES, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The layer on images."""
        x = self.stem(images)
        for i, block in enumerate(self.blocks):
            inner, x = block(x)
            if i == 1:
                fine = inner
        maps = [branch(x) for branch in self.pyramid]
        pooled = self.pooled(x.mean((2, 3), keepdim=True)).expand_as(maps[0])
        context = resized(self.merge(torch.cat([*maps, pooled], 1)), fine)
        return resized(self.decoder(torch.cat([context, self.low(fine)], 1)), images)
