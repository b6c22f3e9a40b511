"""I3D, R(2+1)D, R3D and MC3: residual networks that convolve over time (arXiv:1705.07750, 1711.07971, 1711.11248).

Letters: N clips, T frames of a clip, H W height and width, C channels in, K channels out or classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from framework import nn, ops
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import ClassRows, Names, Source, start_from
from suites.video.models.base import VideoClassifier, check_classes
from suites.vision.backbones.naming import linear, norm

_EXPANSION = 4
_KERNEL_AXES = (0, 3, 4, 2, 1)  # PyTorch's [K, C, Q, R, S] to [K, R, S, Q, C], whose last two are one of ours


class _Residual(nn.Layer):
    """relu(body(x) + shortcut(x)).  x: [N, T, H, W, C], y: [N, T / t, H / s, W / s, K]."""

    def __init__(self, body: nn.Layer, in_channels: int, out_channels: int, stride: tuple[int, int, int]) -> None:
        super().__init__()
        self.body = body
        self.short: nn.Layer | None = None
        if stride != (1, 1, 1) or in_channels != out_channels:
            self.short = nn.Conv3dBNAct(in_channels, out_channels, 1, stride, act="none")

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, H, W, C]; y: [N, T / t, H / s, W / s, K]."""
        return ops.relu(self.body(x) + (x if self.short is None else self.short(x)))


class _ClipNetwork(VideoClassifier):
    """Stem, stages and the mean over all places, then dropout and a linear layer."""

    def __init__(
        self, stem: nn.Layer, stages: Sequence[nn.Layer], features: int, num_classes: int, dropout: float
    ) -> None:
        super().__init__()
        self.num_classes = check_classes(type(self).__name__, num_classes)
        self.stem = stem
        self.stages = nn.LayerList(list(stages))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(features, num_classes, initializer=init.Normal(0.01))

    def forward(self, clips: Tensor) -> Tensor:
        """clips: [N, T, H, W, 3]; logits [N, K]."""
        x = self.stem(clips)
        for stage in self.stages:
            x = stage(x)
        return self.fc(self.dropout(ops.mean(x, axes=(1, 2, 3))))


@register("video_classifier")
class I3D(_ClipNetwork):
    """ResNet-50 inflated (Carreira and Zisserman 2017; as a ResNet by Wang et al. 2018, arXiv:1711.07971, section 4.1).

    The stem convolves 5 frames; the first layer of a bottleneck convolves 3 frames in all blocks of the first stage and
    in every second of the others, as in PySlowFast's I3D 8x8. Frames are pooled by 2 behind the first stage.

    Args:
        num_classes: K.
        dropout: share of the features set to 0 in training.
        width: channels of the stem.
    """

    def __init__(self, num_classes: int, dropout: float = 0.5, width: int = 64) -> None:
        stages: list[nn.Layer] = []
        channels = width
        for i, (count, times) in enumerate(((3, (3, 3, 3)), (4, (3, 1) * 2), (6, (3, 1) * 3), (3, (1, 3, 1)))):
            inner, blocks = width << i, []
            for j in range(count):
                stride = (1, 2, 2) if i and not j else (1, 1, 1)
                blocks.append(_bottleneck(channels, inner, times[j], stride))
                channels = inner * _EXPANSION
            stages.append(nn.Sequential(*blocks, *([nn.MaxPool3d((2, 1, 1))] if not i else [])))
        stem = nn.Sequential(
            nn.Conv3dBNAct(3, width, (5, 7, 7), (1, 2, 2)), nn.MaxPool3d((1, 3, 3), (1, 2, 2), padding=(0, 1, 1))
        )
        super().__init__(stem, stages, channels, num_classes, dropout)


def _bottleneck(channels: int, inner: int, frames: int, stride: tuple[int, int, int]) -> nn.Layer:
    out = inner * _EXPANSION
    body = nn.Sequential(
        nn.Conv3dBNAct(channels, inner, (frames, 1, 1)),
        nn.Conv3dBNAct(inner, inner, (1, 3, 3), stride),
        nn.Conv3dBNAct(inner, out, 1, act="none"),
    )
    return _Residual(body, channels, out, stride)


class _ResNet18(_ClipNetwork):
    """Four stages of two residual blocks of two convolutions, with torchvision's names."""

    schemes: tuple[str, ...] = ("torchvision",)
    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.",)
    factorised: ClassVar[bool] = False

    def class_rows(self) -> dict[str, ClassRows]:
        """A row a class."""
        return {r"^fc\.": ClassRows()}

    def names_in(self, scheme: str) -> Names:
        """Names in torchvision's `r2plus1d_18`, `r3d_18` and `mc3_18`."""
        names: dict[str, Source] = {}
        for ours, unit in self.named_layers():
            if isinstance(unit, nn.Conv3dBNAct):
                their_conv, their_norm = self._unit_names(ours)
                frames = unit.conv.kernel[0]
                names[f"{ours}.conv.weight"] = Source((f"{their_conv}.weight",), _KERNEL_AXES, frames=frames)
                names |= norm(f"{ours}.norm", their_norm)
        return Names({**names, **linear("fc", "fc")})

    def _unit_names(self, ours: str) -> tuple[str, str]:
        """Torchvision's names of convolution and norm of a unit, such as `stages.0.1.body.3`."""
        place, _, last = ours.rpartition(".")
        if place == "stem":
            return f"stem.{3 * int(last)}", f"stem.{3 * int(last) + 1}"
        _, stage, block, *rest = ours.split(".")
        theirs = f"layer{int(stage) + 1}.{block}"
        if rest == ["short"]:
            return f"{theirs}.downsample.0", f"{theirs}.downsample.1"
        if not self.factorised:
            return f"{theirs}.conv{int(last) + 1}.0", f"{theirs}.conv{int(last) + 1}.1"
        number, second = divmod(int(last), 2)  # the first norm of each pair lies inside of their convolution
        theirs = f"{theirs}.conv{number + 1}"
        return (f"{theirs}.0.3", f"{theirs}.1") if second else (f"{theirs}.0.0", f"{theirs}.0.1")


@register("video_classifier")
class R2Plus1D(_ResNet18):
    """R(2+1)D-18: each 3x3x3 convolution is a 1x3x3 and a 3x1x1 with as many weights (Tran et al. 2018, section 3.5).

    Args:
        num_classes: K.
        dropout: share of the features set to 0 in training.
        width: channels of the stem.
        pretrained: name or file of published weights, such as r2plus1d_18_kinetics; see docs/howto/pretrained.md.
    """

    factorised = True

    def __init__(self, num_classes: int, dropout: float = 0.0, width: int = 64, pretrained: str | None = None) -> None:
        stem = nn.Sequential(
            nn.Conv3dBNAct(3, 45, (1, 7, 7), (1, 2, 2)),
            nn.Conv3dBNAct(45, width, (3, 1, 1)),
        )
        stages: list[nn.Layer] = []
        channels = width
        for i in range(4):
            out, blocks = width << i, []
            for j in range(2):
                step = 2 if i and not j else 1
                middle = _middle(channels, out)  # of both convolutions of a block, as in the authors' code
                body = nn.Sequential(
                    *_factorised(channels, middle, out, step), *_factorised(out, middle, out, 1, act="none")
                )
                blocks.append(_Residual(body, channels, out, (step, step, step)))
                channels = out
            stages.append(nn.Sequential(*blocks))
        super().__init__(stem, stages, channels, num_classes, dropout)
        start_from(self, pretrained)


class _Mixed(_ResNet18):
    """Blocks of 3x3x3 convolutions in the first `deep` stages, of 1x3x3 ones behind."""

    deep: ClassVar[int]

    def __init__(self, num_classes: int, dropout: float = 0.0, width: int = 64, pretrained: str | None = None) -> None:
        stem = nn.Sequential(nn.Conv3dBNAct(3, width, (3, 7, 7), (1, 2, 2)))
        stages: list[nn.Layer] = []
        channels = width
        for i in range(4):
            out, blocks, frames = width << i, [], 3 if i < self.deep else 1
            for j in range(2):
                step = 2 if i and not j else 1
                stride = (step if frames > 1 else 1, step, step)
                body = nn.Sequential(
                    nn.Conv3dBNAct(channels, out, (frames, 3, 3), stride),
                    nn.Conv3dBNAct(out, out, (frames, 3, 3), act="none"),
                )
                blocks.append(_Residual(body, channels, out, stride))
                channels = out
            stages.append(nn.Sequential(*blocks))
        super().__init__(stem, stages, channels, num_classes, dropout)
        start_from(self, pretrained)


@register("video_classifier")
class R3D(_Mixed):
    """R3D-18: a ResNet-18 whose convolutions are all 3x3x3 (Tran et al. 2018, section 3.2).

    Args:
        num_classes: K.
        dropout: share of the features set to 0 in training.
        width: channels of the stem.
        pretrained: name or file of published weights, such as r3d_18_kinetics; see docs/howto/pretrained.md.
    """

    deep = 4


@register("video_classifier")
class MC3(_Mixed):
    """MC3-18, mixed convolutions: over time in stem and first stage, of single frames behind (section 3.3).

    Args:
        num_classes: K.
        dropout: share of the features set to 0 in training.
        width: channels of the stem.
        pretrained: name or file of published weights, such as mc3_18_kinetics; see docs/howto/pretrained.md.
    """

    deep = 1


def _middle(in_channels: int, out_channels: int) -> int:
    """Channels between the two, for as many weights as of a 3x3x3 convolution."""
    return (27 * in_channels * out_channels) // (9 * in_channels + 3 * out_channels)


def _factorised(in_channels: int, middle: int, out_channels: int, stride: int, act: str = "relu") -> list[nn.Layer]:
    return [
        nn.Conv3dBNAct(in_channels, middle, (1, 3, 3), (1, stride, stride)),
        nn.Conv3dBNAct(middle, out_channels, (3, 1, 1), (stride, 1, 1), act=act),
    ]
