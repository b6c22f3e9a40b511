"""BiSeNetV2: a wide shallow branch for detail, a narrow deep one for meaning, each guiding the other (Yu et al. 2021,
arXiv:2004.02147).

Letters: N batch, H W image size, h w size of a map, C channels, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import Head, check_classes, whole_image_rule

_EXPANSION = 6
_WIDTH = 128
_STAGES = ((32, 2), (64, 2), (128, 4))  # channels and layers of stages 3 to 5; the first layer halves (table 1)


@register("segmenter")
class BiSeNetV2(Segmenter):
    """Detail branch, semantic branch, guided aggregation; logits at stride 8, and in training at 4, 8, 16 and 32.

    Args:
        num_classes: K.
        head_channels: within the head; 1024 in the paper, 128 in PaddleSeg.
        dropout: share of the features before each classifier that is dropped in training.
        aux_weight: of the loss of each of the four "booster" heads on the semantic branch; 0 for none.
    """

    def __init__(
        self, num_classes: int, head_channels: int = 128, dropout: float = 0.1, aux_weight: float = 1.0
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("BiSeNetV2", num_classes)
        self.detail = nn.Sequential(
            nn.ConvBNAct(3, 64, 3, 2),
            nn.ConvBNAct(64, 64, 3),
            nn.ConvBNAct(64, 64, 3, 2),
            nn.ConvBNAct(64, 64, 3),
            nn.ConvBNAct(64, 64, 3),
            nn.ConvBNAct(64, _WIDTH, 3, 2),
            nn.ConvBNAct(_WIDTH, _WIDTH, 3),
            nn.ConvBNAct(_WIDTH, _WIDTH, 3),
        )
        self.stem = _Stem(16)
        self.stages = nn.LayerList()
        at = 16
        for width, count in _STAGES:
            layers = [_GatherExpand(at, width, 2), *(_GatherExpand(width, width, 1) for _ in range(count - 1))]
            self.stages.append(nn.Sequential(*layers))
            at = width
        self.context = _ContextEmbedding(_WIDTH)
        self.aggregation = _GuidedAggregation(_WIDTH)
        self.head = Head(_WIDTH, head_channels, num_classes, dropout=dropout)
        self.boosters = nn.LayerList()
        if aux_weight:
            for width in (16, 32, 64, 128):
                self.boosters.append(Head(width, width, num_classes, dropout=dropout))
            self.loss_weights = (1.0, *(aux_weight,) * 4)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The context has one number an image."""
        yield from whole_image_rule(part, "BiSeNetV2")

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/8), ceil(W/8), K], and those of the boosters."""
        x = self.stem(images)
        maps = [x]
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        logits = self.head(self.aggregation(self.detail(images), self.context(x)))
        return [logits, *(head(x) for head, x in zip(self.boosters, maps, strict=False))]


class _Stem(nn.Layer):
    """[N, H, W, 3] to [N, H/4, W/4, C]: a convolution and max pooling halve side by side."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.ConvBNAct(3, channels, 3, 2)
        self.left = nn.Sequential(nn.ConvBNAct(channels, channels // 2, 1), nn.ConvBNAct(channels // 2, channels, 3, 2))
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        self.merge = nn.ConvBNAct(2 * channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.merge(ops.concat([self.left(x), self.pool(x)], axis=3))


class _GatherExpand(nn.Layer):
    """Gather and expansion: a 3x3 convolution, depthwise ones that widen, a 1x1 that narrows.

    x: [N, h, w, C]; y: [N, h/stride, w/stride, K].
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        inner = in_channels * _EXPANSION
        layers = [
            nn.ConvBNAct(in_channels, in_channels, 3),
            nn.ConvBNAct(in_channels, inner, 3, stride, groups=in_channels, act="none"),
        ]
        self.short: nn.Layer | None = None
        if stride == 2:
            layers.append(nn.ConvBNAct(inner, inner, 3, groups=inner, act="none"))
            self.short = nn.Sequential(
                nn.ConvBNAct(in_channels, in_channels, 3, 2, groups=in_channels, act="none"),
                nn.ConvBNAct(in_channels, out_channels, 1, act="none"),
            )
        self.body = nn.Sequential(*layers, nn.ConvBNAct(inner, out_channels, 1, act="none"))

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(self.body(x) + (x if self.short is None else self.short(x)))


class _ContextEmbedding(nn.Layer):
    """Adds what the mean of the whole map says.  x, y: [N, h, w, C]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm(channels)
        self.point = nn.ConvBNAct(channels, channels, 1)
        self.conv = nn.Conv2d(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        mean = self.norm(ops.mean(x, axes=(1, 2), keepdims=True))
        return self.conv(x + self.point(mean))


class _GuidedAggregation(nn.Layer):
    """Each branch is multiplied by a gate of the other one, at both sizes; the sum goes on at the finer size.

    detail: [N, h, w, C]; meaning: [N, h/4, w/4, C]; y: [N, h, w, C].
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.detail_keep = _depthwise_then_point(channels)
        self.detail_down = nn.Sequential(
            nn.ConvBNAct(channels, channels, 3, 2, act="none"), nn.AvgPool2d(3, 2, padding=1)
        )
        self.meaning_keep = _depthwise_then_point(channels)
        self.meaning_up = nn.ConvBNAct(channels, channels, 3, act="none")
        self.merge = nn.ConvBNAct(channels, channels, 3, act="none")

    def forward(self, detail: Tensor, meaning: Tensor) -> Tensor:
        fine = self.detail_keep(detail) * ops.sigmoid(ops.resize_bilinear(self.meaning_up(meaning), detail))
        coarse = self.detail_down(detail) * ops.sigmoid(self.meaning_keep(meaning))
        return self.merge(fine + ops.resize_bilinear(coarse, detail))


def _depthwise_then_point(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvBNAct(channels, channels, 3, groups=channels, act="none"), nn.Conv2d(channels, channels, 1)
    )
