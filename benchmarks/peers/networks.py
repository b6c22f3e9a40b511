"""The peer's networks in PyTorch: those of tools/bench_cases, layer by layer, [N, C, H, W].

Letters: N batch, C channels, H W height and width, T frames or tokens, D hidden size.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {
    "relu": lambda: nn.ReLU(inplace=True),
    "relu6": lambda: nn.ReLU6(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.1, inplace=True),
}


def unit(
    inside: int,
    out: int,
    kernel: int,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    activation: str | None = "relu",
) -> nn.Sequential:
    """Convolution without bias that keeps the size at stride 1, batch norm, activation."""
    padding = dilation * (kernel // 2)
    conv = nn.Conv2d(inside, out, kernel, stride, padding, dilation, groups, bias=False)
    ends = [ACTIVATIONS[activation]()] if activation else []
    return nn.Sequential(conv, nn.BatchNorm2d(out), *ends)


def separable(inside: int, out: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """A 3x3 convolution of each channel, then a 1x1 convolution of all."""
    depthwise = unit(inside, inside, 3, stride, groups=inside, dilation=dilation)
    return nn.Sequential(depthwise, unit(inside, out, 1))


def bilinear(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Resized to H, W."""
    return F.interpolate(x, size=tuple(size), mode="bilinear", align_corners=False)


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 to four times the width; beside it the input, projected where shapes differ."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        last = unit(width, out, 1, activation=None)
        self.main = nn.Sequential(unit(inside, width, 1), unit(width, width, 3, stride), last)
        same = inside == out and stride == 1
        self.beside = nn.Identity() if same else unit(inside, out, 1, stride, activation=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block on x."""
        return F.relu(self.main(x) + self.beside(x), inplace=True)


class ResNet50(nn.Module):
    """He et al. 2016, with the stride in the 3x3 convolution."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        inside = 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for block in range(blocks):
                layers.append(Bottleneck(inside, width, 2 if stage and not block else 1))
                inside = 4 * width
        self.body, self.classifier = nn.Sequential(*layers), nn.Linear(inside, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes]."""
        return self.classifier(self.body(images).mean((2, 3)))


class TSN(nn.Module):
    """The mean of a ResNet-50's logits over the frames of a clip."""

    def __init__(self, classes: int = 400) -> None:
        super().__init__()
        self.frames = ResNet50(classes)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """clips: [N, T, 3, H, W]; logits [N, classes]."""
        logits = self.frames(clips.flatten(0, 1))
        return logits.view(*clips.shape[:2], -1).mean(1)


class MobileNetV1(nn.Module):
    """Howard et al. 2017; maps of strides 8, 16 and 32."""

    channels = (256, 512, 1024)

    def __init__(self) -> None:
        super().__init__()
        first = nn.Sequential(unit(3, 32, 3, 2), separable(32, 64), separable(64, 128, 2), separable(128, 128))
        eighth = nn.Sequential(first, separable(128, 256, 2), separable(256, 256))
        sixteenth = nn.Sequential(separable(256, 512, 2), *(separable(512, 512) for _ in range(5)))
        last = nn.Sequential(separable(512, 1024, 2), separable(1024, 1024))
        self.parts = nn.ModuleList((eighth, sixteenth, last))

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The maps, the finest first."""
        return in_a_row(self.parts, images)


def in_a_row(parts: nn.ModuleList, x: torch.Tensor) -> list[torch.Tensor]:
    """What each part makes of the result of the one before."""
    found = []
    for part in parts:
        x = part(x)
        found.append(x)
    return found


class DarkNet53(nn.Module):
    """Redmon and Farhadi 2018; maps of strides 8, 16 and 32."""

    channels = (256, 512, 1024)

    def __init__(self) -> None:
        super().__init__()
        stages = [self._stage(32 << i, blocks) for i, blocks in enumerate((1, 2, 8, 8, 4))]
        first = nn.Sequential(unit(3, 32, 3, activation="leaky"), *stages[:3])
        self.parts = nn.ModuleList((first, *stages[3:]))

    @staticmethod
    def _stage(inside: int, blocks: int) -> nn.Module:
        halving = unit(inside, 2 * inside, 3, 2, activation="leaky")
        return nn.Sequential(halving, *(_Darknet(2 * inside) for _ in range(blocks)))

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The maps, the finest first."""
        return in_a_row(self.parts, images)


class _Darknet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        narrow = unit(width, width // 2, 1, activation="leaky")
        self.main = nn.Sequential(narrow, unit(width // 2, width, 3, activation="leaky"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.main(x)


class YOLOv3(nn.Module):
    """Three levels, the coarsest first; each passes half of its channels to the next finer one.

    Args:
        backbone: gives maps of strides 8, 16 and 32.
        classes: of objects; a cell has 3 anchors of 5 + classes numbers.
    """

    def __init__(self, backbone: nn.Module, classes: int = 80) -> None:
        super().__init__()
        self.backbone = backbone
        self.levels, passed = nn.ModuleList(), 0
        for level, channels in enumerate(reversed(backbone.channels)):
            width = 512 >> level
            self.levels.append(_Level(channels + passed, width, 3 * (5 + classes), last=level == 2))
            passed = width // 2

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Numbers of each level's cells [N, 3 * (5 + classes), H, W]."""
        found, coarser = [], None
        for level, fine in zip(self.levels, reversed(self.backbone(images)), strict=True):
            x = fine if coarser is None else torch.cat([F.interpolate(coarser, scale_factor=2.0), fine], 1)
            out, coarser = level(x)
            found.append(out)
        return found


class _Level(nn.Module):
    def __init__(self, inside: int, width: int, out: int, last: bool) -> None:
        super().__init__()
        sizes = [(inside, width, 1), (width, 2 * width, 3), (2 * width, width, 1), (width, 2 * width, 3)]
        sizes.append((2 * width, width, 1))
        self.body = nn.Sequential(*(unit(a, b, k, activation="leaky") for a, b, k in sizes))
        self.head = nn.Sequential(unit(width, 2 * width, 3, activation="leaky"), nn.Conv2d(2 * width, out, 1))
        self.onwards = None if last else unit(width, width // 2, 1, activation="leaky")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        x = self.body(x)
        return self.head(x), None if self.onwards is None else self.onwards(x)


class InvertedResidual(nn.Module):
    """MobileNetV2's block (Sandler et al. 2018)."""

    def __init__(self, inside: int, out: int, stride: int, expansion: int, dilation: int) -> None:
        super().__init__()
        middle = inside * expansion
        layers = [unit(inside, middle, 1, activation="relu6")] if expansion > 1 else []
        layers.append(unit(middle, middle, 3, stride, groups=middle, dilation=dilation, activation="relu6"))
        self.main = nn.Sequential(*layers, unit(middle, out, 1, activation=None))
        self.residual = stride == 1 and inside == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block on x."""
        y = self.main(x)
        return x + y if self.residual else y


class DeepLabV3PlusMobileNetV2(nn.Module):
    """Chen et al. 2018 at output stride 16: MobileNetV2, five branches, a decoder with the map of stride 4."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        # Of each stage: expansion, channels, blocks, stride and dilation.
        fine = [(1, 16, 1, 1, 1), (6, 24, 2, 2, 1)]
        coarse = [(6, 32, 3, 2, 1), (6, 64, 4, 2, 1), (6, 96, 3, 1, 1), (6, 160, 3, 1, 2), (6, 320, 1, 1, 2)]
        self.fine = nn.Sequential(unit(3, 32, 3, 2, activation="relu6"), *_stages(32, fine))
        self.coarse = nn.Sequential(*_stages(24, coarse))
        self.branches = nn.ModuleList([unit(320, 256, 1), *(separable(320, 256, dilation=d) for d in (6, 12, 18))])
        self.pooled, self.merge, self.low = unit(320, 256, 1), unit(5 * 256, 256, 1), unit(24, 48, 1)
        self.decoder = nn.Sequential(separable(304, 256), separable(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes, H, W]."""
        fine = self.fine(images)
        x = self.coarse(fine)
        pooled = self.pooled(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
        x = self.merge(torch.cat([*(branch(x) for branch in self.branches), pooled], 1))
        x = self.decoder(torch.cat([bilinear(x, fine.shape[2:]), self.low(fine)], 1))
        return bilinear(x, images.shape[2:])


def _stages(inside: int, plan: Sequence[tuple[int, int, int, int, int]]) -> list[nn.Module]:
    found: list[nn.Module] = []
    for expansion, out, blocks, stride, dilation in plan:
        for block in range(blocks):
            found.append(InvertedResidual(inside, out, 1 if block else stride, expansion, dilation))
            inside = out
    return found


class Bert(nn.Module):
    """Devlin et al. 2019 with a classifier on the first token; sentences are padded, and PyTorch's fused attention."""

    def __init__(
        self,
        hidden: int = 768,
        layers: int = 12,
        heads: int = 12,
        inner: int = 3072,
        vocabulary: int = 30522,
        classes: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(512, hidden)
        self.kinds = nn.Embedding(2, hidden)
        self.norm, self.dropout = nn.LayerNorm(hidden, 1e-12), nn.Dropout(dropout)
        self.layers = nn.ModuleList(_Transformer(hidden, heads, inner, dropout) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, ids: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """ids: [N, T]; there: bool [N, T], false for padding; logits [N, classes]."""
        x = self.words(ids) + self.places.weight[: ids.shape[1]] + self.kinds.weight[0]
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, there[:, None, None])
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class _Transformer(nn.Module):
    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.query_key_value, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.widen, self.narrow = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.first, self.second = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        n, t, hidden = x.shape
        parts = self.query_key_value(x).view(n, t, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=there, dropout_p=rate)
        x = self.first(x + self.dropout(self.out(seen.transpose(1, 2).reshape(n, t, hidden))))
        return self.second(x + self.dropout(self.narrow(F.gelu(self.widen(x)))))


class DeepFM(nn.Module):
    """Guo et al. 2017: the linear part, products of pairs of vectors, a network over all vectors and numbers.

    Args:
        slots: categories of a sample; each has `rows` rows of its own in two tables, of vectors and of weights.
        rows: of a category.
        numbers: dense features of a sample.
        size: of a vector.
    """

    def __init__(self, slots: int = 26, rows: int = 100_000, numbers: int = 13, size: int = 16) -> None:
        super().__init__()
        self.slots, self.rows, self.numbers = slots, rows, numbers
        self.vectors = nn.Embedding(slots * rows, size, sparse=True)
        self.weights = nn.Embedding(slots * rows, 1, sparse=True)
        self.linear = nn.Linear(numbers, 1)
        widths = (slots * size + numbers, 400, 400, 400)
        layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
        self.deep = nn.Sequential(*layers, nn.Linear(400, 1))

    def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """ids: int64 [N, slots], those of slot s from s * rows on; numbers: [N, numbers]; logits [N]."""
        vectors = self.vectors(ids)
        total = vectors.sum(1)
        pairs = 0.5 * (total.square() - vectors.square().sum(1)).sum(1)
        deep = self.deep(torch.cat([vectors.flatten(1), numbers], 1))[:, 0]
        return self.weights(ids).sum((1, 2)) + self.linear(numbers)[:, 0] + pairs + deep
