"""U-Net: a decoder that takes up a finer map at each step (Ronneberger et al. 2015, arXiv:1505.04597).

Letters: N batch, H W image size, s stride of the finest map, K classes.
"""

from __future__ import annotations

from dataclasses import replace

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.segmentation.models import paddleseg_names
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import check_classes
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv


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

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifier."""
        return (r"^classifier\.",)

    @property
    def schemes(self) -> tuple[str, ...]:
        """PaddleSeg's, on a `UNetEncoder`."""
        return paddleseg_names.schemes(self.backbone)

    def names_in(self, scheme: str) -> Names:
        """PaddleSeg's names, which joins the coarser map before the finer one."""
        own: dict[str, Source] = {}
        at = self.backbone.channels[-1]
        finer = reversed(self.backbone.channels[:-1])
        for i, (step, beside) in enumerate(zip(self.steps, finer, strict=True)):
            for k in range(2):
                own |= paddleseg_names.module(f"steps.{i}.{k}", f"decode.up_sample_list.{i}.double_conv.{k}")
            weight = own[f"steps.{i}.0.conv.weight"]
            columns = (*range(at, at + beside), *range(at))
            own[f"steps.{i}.0.conv.weight"] = replace(weight, columns=columns)
            at = step[1].conv.weight.shape[0]  # type: ignore[index]
        # Their classifier has two names.
        own |= conv("classifier", "cls", bias=True)
        return self.backbone.names_in(scheme).below("backbone.") | Names(own, (r"^conv\.",))

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/s), ceil(W/s), K]."""
        *finer, x = self.backbone(images)
        for step, beside in zip(self.steps, reversed(finer), strict=True):
            x = step(ops.concat([beside, ops.resize_bilinear(x, beside)], axis=3))
        return [self.classifier(x)]
