"""Fast-SCNN: three convolutions that two branches share, one of which goes on deeply at low resolution (Poudel et al.
2019, arXiv:1902.04502).

Letters: N batch, H W image size, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import (
    Head,
    PyramidPooling,
    check_classes,
    classifier,
    separable,
    whole_image_rule,
)
from suites.vision.backbones.inverted import InvertedResidual

_EXPANSION = 6
_STAGES = ((64, 3, 2), (96, 3, 2), (128, 3, 1))  # channels, blocks, stride of the first (table 1)
_WIDTH = 128


@register("segmenter")
class FastSCNN(Segmenter):
    """Learning to downsample, global features, fusion, classifier; logits at stride 8.

    Args:
        num_classes: K.
        dropout: share of the features before each classifier that is dropped in training.
        aux_weight: of the loss of a second head on the shared convolutions, as PaddleSeg has it; 0 for none.
    """

    def __init__(self, num_classes: int, dropout: float = 0.1, aux_weight: float = 0.4) -> None:
        super().__init__()
        self.num_classes = check_classes("FastSCNN", num_classes)
        # Between depthwise and 1x1 convolutions there is no activation (section 3.2.1).
        self.shared = nn.Sequential(
            nn.ConvBNAct(3, 32, 3, 2), separable(32, 48, stride=2, act="none"), separable(48, 64, stride=2, act="none")
        )
        blocks: list[nn.Layer] = []
        at = 64
        for width, count, stride in _STAGES:
            for i in range(count):
                blocks.append(_bottleneck(at, width, 1 if i else stride))
                at = width
        self.deep = nn.Sequential(*blocks)
        self.pyramid = PyramidPooling(at, _WIDTH, 1)
        self.low = nn.Sequential(
            nn.ConvBNAct(_WIDTH, _WIDTH, 3, groups=_WIDTH, dilation=4), nn.ConvBNAct(_WIDTH, _WIDTH, 1, act="none")
        )
        self.high = nn.ConvBNAct(64, _WIDTH, 1, act="none")
        self.head = nn.Sequential(
            separable(_WIDTH, _WIDTH, act="none"),
            separable(_WIDTH, _WIDTH, act="none"),
            nn.Dropout(dropout),
            classifier(_WIDTH, num_classes),
        )
        self.aux: nn.Layer | None = None
        if aux_weight:
            self.aux = Head(64, 32, num_classes, dropout=dropout)
            self.loss_weights = (1.0, aux_weight)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The pyramid's grid of one cell has one number an image."""
        yield from whole_image_rule(part, "FastSCNN")

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/8), ceil(W/8), K], and those of the second head."""
        shared = self.shared(images)
        low = ops.resize_bilinear(self.pyramid(self.deep(shared)), shared)
        logits = self.head(ops.relu(self.high(shared) + self.low(low)))
        return [logits] if self.aux is None else [logits, self.aux(shared)]


def _bottleneck(in_channels: int, out_channels: int, stride: int) -> InvertedResidual:
    inner = in_channels * _EXPANSION
    layers = [
        nn.ConvBNAct(in_channels, inner, 1),
        nn.ConvBNAct(inner, inner, 3, stride, groups=inner),
        nn.ConvBNAct(inner, out_channels, 1, act="none"),
    ]
    return InvertedResidual(layers, in_channels, out_channels, stride)
