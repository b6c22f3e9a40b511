"""The video networks in PyTorch, for benchmarks/video_vs_torch.py: the same layers as ours, [N, C, H, W].

Letters: N clips, T frames, C channels, H W height and width.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

CLASSES, TAGS, ROWS = 400, 3862, 300


def conv_bn(inside: int, outside: int, kernel: int, stride: int = 1, relu: bool = True) -> nn.Sequential:
    """Convolution, batch norm, perhaps ReLU."""
    layers = [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outside)]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if relu else []))


class Bottleneck(nn.Module):
    """ResNet-50's block; with `frames`, its body sees shifted channels."""

    def __init__(self, inside: int, width: int, stride: int, frames: int = 0) -> None:
        super().__init__()
        out = 4 * width
        self.frames = frames
        self.body = nn.Sequential(
            conv_bn(inside, width, 1), conv_bn(width, width, 3, stride), conv_bn(width, out, 1, relu=False)
        )
        self.short = nn.Identity() if stride == 1 and inside == out else conv_bn(inside, out, 1, stride, relu=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        y = self.body(shifted(x, self.frames) if self.frames else x)
        return F.relu(y + self.short(x), inplace=True)


def shifted(x: torch.Tensor, frames: int) -> torch.Tensor:
    """An eighth of the channels one frame back, an eighth one on; as the authors of TSM write it."""
    x = x.view(-1, frames, *x.shape[1:])
    c = x.shape[2] // 8
    out = torch.zeros_like(x)
    out[:, :-1, :c] = x[:, 1:, :c]
    out[:, 1:, c : 2 * c] = x[:, :-1, c : 2 * c]
    out[:, :, 2 * c :] = x[:, :, 2 * c :]
    return out.flatten(0, 1)


class NonLocal(nn.Module):
    """An embedded Gaussian block over all places of a clip."""

    def __init__(self, channels: int, frames: int) -> None:
        super().__init__()
        half = channels // 2
        self.frames, self.half = frames, half
        self.theta, self.phi, self.g = (nn.Conv2d(channels, half, 1) for _ in range(3))
        self.out, self.norm = nn.Conv2d(half, channels, 1), nn.BatchNorm2d(channels)

    def by_clip(self, x: torch.Tensor) -> torch.Tensor:
        """[N * T, C, H, W] to [N, T * H * W, C]."""
        return x.view(-1, self.frames, *x.shape[1:]).permute(0, 1, 3, 4, 2).flatten(1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        theta, phi, g = self.theta(x), F.max_pool2d(self.phi(x), 2), F.max_pool2d(self.g(x), 2)
        weights = torch.softmax(self.by_clip(theta) @ self.by_clip(phi).transpose(1, 2) * self.half**-0.5, dim=2)
        seen = (weights @ self.by_clip(g)).view(-1, *x.shape[2:], self.half).permute(0, 3, 1, 2)
        return x + self.norm(self.out(seen))


class Temporal(nn.Module):
    """StNet's block between stages."""

    def __init__(self, channels: int, frames: int) -> None:
        super().__init__()
        self.frames = frames
        self.conv = nn.Conv3d(channels, channels, (3, 1, 1), padding=(1, 0, 0))
        self.norm = nn.BatchNorm3d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        y = x.view(-1, self.frames, *x.shape[1:]).transpose(1, 2)
        return x + self.norm(F.relu(self.conv(y))).transpose(1, 2).flatten(0, 1)


class Xception(nn.Module):
    """StNet's temporal Xception block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2048)
        self.first = nn.Sequential(
            nn.Conv1d(2048, 2048, 3, padding=1, groups=2048), nn.Conv1d(2048, 1024, 1), nn.BatchNorm1d(1024), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv1d(1024, 1024, 3, padding=1, groups=1024), nn.Conv1d(1024, 1024, 1))
        self.short, self.last = nn.Conv1d(2048, 1024, 1), nn.BatchNorm1d(1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        x = self.norm(x)
        return F.relu(self.last(self.second(self.first(x)) + self.short(x)))


class Frames(nn.Module):
    """ResNet-50 on frames [N, T, C, H, W]; `kind` says what goes between or into its blocks."""

    def __init__(self, kind: str, frames: int, channels: int = 3) -> None:
        super().__init__()
        self.kind, self.frames = kind, frames
        layers: list[nn.Module] = [conv_bn(channels, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        inside = 64
        for i, count in enumerate((3, 4, 6, 3)):
            for j in range(count):
                width = 64 << i
                layers.append(Bottleneck(inside, width, 2 if i and not j else 1, frames if kind == "tsm" else 0))
                inside = 4 * width
                if kind == "nonlocal" and i in (1, 2) and j % 2:
                    layers.append(NonLocal(inside, frames))
            if kind == "stnet" and i in (1, 2):
                layers.append(Temporal(inside, frames))
        self.layers = nn.Sequential(*layers)
        self.xception = Xception() if kind == "stnet" else None
        self.fc = nn.Linear(1024 if kind == "stnet" else 2048, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        features = self.layers(x.flatten(0, 1)).mean((2, 3)).view(-1, self.frames, 2048)
        if self.xception is not None:
            return self.fc(self.xception(features.transpose(1, 2)).amax(2))
        return self.fc(features).mean(1)


def conv_bn_3d(
    inside: int, out: int, kernel: tuple[int, ...], stride: tuple[int, ...] = (1, 1, 1), relu: bool = True
) -> nn.Sequential:
    """3-D convolution, batch norm, perhaps ReLU."""
    conv = nn.Conv3d(inside, out, kernel, stride, tuple(k // 2 for k in kernel), bias=False)
    return nn.Sequential(conv, nn.BatchNorm3d(out), *([nn.ReLU(inplace=True)] if relu else []))


class Bottleneck3d(nn.Module):
    """I3D's block."""

    def __init__(self, inside: int, width: int, frames: int, stride: int) -> None:
        super().__init__()
        out, step = 4 * width, (1, stride, stride)
        self.body = nn.Sequential(
            conv_bn_3d(inside, width, (frames, 1, 1)),
            conv_bn_3d(width, width, (1, 3, 3), step),
            conv_bn_3d(width, out, (1, 1, 1), relu=False),
        )
        same = stride == 1 and inside == out
        self.short = nn.Identity() if same else conv_bn_3d(inside, out, (1, 1, 1), step, relu=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        return F.relu(self.body(x) + self.short(x), inplace=True)


class I3D(nn.Module):
    """I3D of ResNet-50 on clips [N, C, T, H, W]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            conv_bn_3d(3, 64, (5, 7, 7), (1, 2, 2)),
            nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
        ]
        inside = 64
        for i, (count, times) in enumerate(((3, (3, 3, 3)), (4, (3, 1) * 2), (6, (3, 1) * 3), (3, (1, 3, 1)))):
            for j in range(count):
                layers.append(Bottleneck3d(inside, 64 << i, times[j], 2 if i and not j else 1))
                inside = 256 << i
            if not i:
                layers.append(nn.MaxPool3d((2, 1, 1)))
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(2048, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        return self.fc(self.layers(x).mean((2, 3, 4)))


class VLAD(nn.Module):
    """A NeXtVLAD layer on [N, L, C]."""

    def __init__(self, features: int, clusters: int = 128, groups: int = 8) -> None:
        super().__init__()
        wide = 2 * features
        self.groups, self.clusters, self.width = groups, clusters, wide // groups
        self.expand, self.gate = nn.Linear(features, wide), nn.Linear(wide, groups)
        self.assign, self.norm = nn.Linear(wide, groups * clusters, bias=False), nn.BatchNorm1d(groups * clusters)
        self.centres = nn.Parameter(torch.randn(clusters, self.width) * 0.02)
        self.last = nn.BatchNorm1d(clusters * self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        n, rows, _ = x.shape
        x = self.expand(x)
        gates = torch.sigmoid(self.gate(x))
        scores = self.norm(self.assign(x).flatten(0, 1)).view(n, rows, self.groups, self.clusters)
        shares = (torch.softmax(scores, 3) * gates[..., None]).view(n, rows * self.groups, self.clusters)
        sums = shares.transpose(1, 2) @ x.view(n, rows * self.groups, self.width)
        residuals = F.normalize(sums - shares.sum(1)[..., None] * self.centres, dim=2)
        return self.last(residuals.flatten(1))


class NeXtVLAD(nn.Module):
    """NeXtVLAD on video and sound, [N, L, 1024 + 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.rgb, self.audio = VLAD(1024), VLAD(128)
        self.hidden = nn.Sequential(nn.Linear(128 * (256 + 32), 2048, bias=False), nn.BatchNorm1d(2048))
        self.gate = nn.Sequential(
            nn.Linear(2048, 256, bias=False), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 2048), nn.Sigmoid()
        )
        self.fc = nn.Linear(2048, TAGS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer on x."""
        x = self.hidden(torch.cat([self.rgb(x[..., :1024]), self.audio(x[..., 1024:])], 1))
        return self.fc(x * self.gate(x))
