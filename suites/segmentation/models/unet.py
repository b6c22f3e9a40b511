"""U-Net: a decoder that takes up a finer map at each step (Ronneberger et al. 2015, arXiv:1505.04597).

Letters: N batch, H W image size, s stride of the finest map, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import check_classes
from suites.vision.backbones import Backbone


@register("segmenter")
class UNet(Segmenter):
    """Any backbone's maps, from the coarsest on: enlarge, lay the next finer one beside, two 3x3 convolutions.

    With `UNetEncoder` it is PaddleSeg's U-Net, with bilinear enlargement and batch norm.

    Args:
        backbone: gives two maps or more; logits have the finest one's stride.
        num_classes: K.
        channels: of the decoder's steps, coarsest first; those that the maps do not reach are not used.
    """

    def __init__(self, backbone: Backbone, num_classes: int, channels: tuple[int, ...] = (256, 128, 64, 64)) -> None:
        super().__init__()
        self.num_classes = check_classes("UNet", num_classes)
        steps = len(backbone.channels) - 1
        if not 1 <= steps <= len(channels):
            raise AttributeValueError(
                f"UNet: backbone gives {steps + 1} maps (strides {list(backbone.strides)}) and channels has "
                f"{len(channels)} numbers; it needs two maps or more, and a number for each but the first"
            )
        self.backbone = backbone
        self.steps = nn.LayerList()
        at = backbone.channels[-1]
        for beside, width in zip(reversed(backbone.channels[:-1]), channels, strict=False):
            self.steps.append(nn.Sequential(nn.ConvBNAct(at + beside, width, 3), nn.ConvBNAct(width, width, 3)))
            at = width
        self.classifier = nn.Conv2d(at, num_classes, 3, initializer=nn.init.Normal(0.01))

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/s), ceil(W/s), K]."""
        *finer, x = self.backbone(images)
        for step, beside in zip(self.steps, reversed(finer), strict=True):
            x = step(ops.concat([beside, ops.resize_bilinear(x, beside)], axis=3))
        return [self.classifier(x)]
