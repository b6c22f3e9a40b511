"""PSPNet: means over grids of four sizes beside a coarse map (Zhao et al. 2017, arXiv:1612.01105).

Letters: N batch, H W image size, s stride of the backbone's map, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.config import Part, Problem
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.segmentation.models import openmmlab_names, paddleseg_names
from suites.segmentation.models.parts import (
    PyramidPooling,
    check_classes,
    check_maps,
    classifier,
    whole_image_rule,
)
from suites.segmentation.models.second_head import SecondHeaded
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv


@register("segmenter")
class PSPNet(SecondHeaded):
    """Backbone, pyramid pooling, a 3x3 convolution; in training a second head on the stage before the last.

    Args:
        backbone: gives one map, of stride 8 in the paper (`output_stride: 8`); made of blocks unless `aux_weight` is 0.
        num_classes: K.
        channels: of the convolution behind the pyramid.
        grids: the pyramid's cells a side.
        dropout: share of the features before each classifier that is dropped in training.
        aux_channels: of the second head.
        aux_weight: of the second head's loss; 0 for no such head.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        channels: int = 512,
        grids: tuple[int, ...] = (1, 2, 3, 6),
        dropout: float = 0.1,
        aux_channels: int = 256,
        aux_weight: float = 0.4,
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("PSPNet", num_classes)
        check_maps("PSPNet", backbone, 1, "one: out_strides: [8]")
        if not grids or min(grids) < 1:
            raise AttributeValueError(f"PSPNet: grids is {list(grids)}; needed are one or more, of 1 cell or more")
        self.backbone = backbone
        self.pyramid = PyramidPooling(backbone.channels[-1], channels, 3, grids)
        self.dropout = nn.Dropout(dropout)
        self.classifier = classifier(channels, num_classes)
        self.add_second_head(aux_weight, aux_channels, dropout)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifiers; a file without a second head leaves that new."""
        return (r"^classifier\.", r"^aux\.")

    @property
    def schemes(self) -> tuple[str, ...]:
        """MMSegmentation's and PaddleSeg's, where the backbone knows their names."""
        return (*openmmlab_names.schemes(self.backbone), *paddleseg_names.schemes(self.backbone))

    def names_in(self, scheme: str) -> Names:
        """MMSegmentation's names: `decode_head.psp_modules.0.1.conv.weight`, `auxiliary_head.convs.0.bn.bias`; or
        PaddleSeg's: `head.psp_module.stages.0.1._conv.weight`, `head.auxlayer.conv.bias`.
        """
        if scheme == paddleseg_names.SCHEME:
            return self._paddleseg_names()
        modules = [(f"pyramid.branches.{i}", f"psp_modules.{i}.1") for i in range(len(self.pyramid.branches))]
        own: dict[str, Source] = {}
        for ours, theirs in [*modules, ("pyramid.merge", "bottleneck")]:
            own |= openmmlab_names.module(ours, f"{openmmlab_names.HEAD}.{theirs}")
        return openmmlab_names.whole(self.backbone, own, "classifier", self.aux is not None)

    def _paddleseg_names(self) -> Names:
        count = len(self.pyramid.branches)
        own: dict[str, Source] = {}
        for i in range(count):
            own |= paddleseg_names.module(f"pyramid.branches.{i}", f"head.psp_module.stages.{i}.1")
        own |= paddleseg_names.module("pyramid.merge", "head.psp_module.conv_bn_relu2")
        whole = self.backbone.channels[-1]
        each = whole // count  # of a grid; the last grid comes first there
        columns = [*range(whole), *(whole + (count - 1 - i) * each + k for i in range(count) for k in range(each))]
        weight = own["pyramid.merge.conv.weight"]
        own["pyramid.merge.conv.weight"] = replace(weight, columns=tuple(columns))
        own |= conv("classifier", "head.conv", bias=True)
        if self.aux is not None:
            own |= paddleseg_names.module("aux.0", "head.auxlayer.conv_bn_relu")
            own |= conv("aux.2", "head.auxlayer.conv", bias=True)
        return paddleseg_names.whole(self.backbone, own, () if self.aux is not None else (r"^head\.auxlayer\.",))

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """The grid of one cell has one number an image."""
        yield from whole_image_rule(part, "PSPNet")

    def logits_of(self, maps: list[Tensor]) -> Tensor:
        """Of the last map."""
        return self.classifier(self.dropout(self.pyramid(maps[-1])))
