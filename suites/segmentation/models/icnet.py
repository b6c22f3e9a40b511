"""ICNet: of three image sizes the smallest goes through the deepest network (Zhao et al. 2018, arXiv:1704.08545).

Letters: N batch, H W image size, C channels, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import check_classes, check_maps, classifier, pooled_to_grids
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import Block, Place
from suites.vision.backbones.walk import places, walk

_GRIDS = (1, 2, 3, 4)


@register("segmenter")
class ICNet(Segmenter):
    """The whole image through three convolutions, half of it through the backbone's first stages, a quarter of it on.

    As PaddleSeg has it: the backbone sees the image at half size; the first block's map of stride 8 is the middle
    branch, and is halved for the rest. The pooled means of grids 1, 2, 3 and 4 are added to the last map. Logits at
    strides 4, 8 and 16 are all learnt.

    Args:
        backbone: gives one map, of stride 8 (`output_stride: 8`), and is made of blocks; PaddleSeg's is
            `{type: ResNet, depth: 50, variant: a, width: 32, stem: [32, 32, 64], out_strides: [8], output_stride: 8}`.
        num_classes: K.
        channels: of the three branches where they are added; the low branch has twice as many before.
        loss_weights: of the losses at strides 4, 8 and 16.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        channels: int = 128,
        loss_weights: tuple[float, float, float] = (1.0, 0.4, 0.16),
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("ICNet", num_classes)
        check_maps("ICNet", backbone, 1, "one, of stride 8: out_strides: [8], output_stride: 8")
        if backbone.strides != (8,) or min(loss_weights) <= 0:
            raise AttributeValueError(
                f"ICNet: backbone gives stride {backbone.strides[0]} and loss_weights is {list(loss_weights)}; needed "
                "are stride 8 and positive weights"
            )
        self.loss_weights = tuple(loss_weights)
        self.backbone = backbone
        self._tap = next(place for place in places(backbone) if (place.stride, place.index) == (8, 0))
        # Bilinear to a half for even sides; the last cell of an odd side is a mean of what there is.
        self.half = nn.AvgPool2d(2, padding=(0, 1, 0, 1), count_include_pad=False)
        self.low = nn.ConvBNAct(backbone.channels[0], 2 * channels, 1)
        self.middle = nn.ConvBNAct(self._tap.channels, channels, 1, act="none")
        self.high = nn.Sequential(
            nn.ConvBNAct(3, 32, 3, 2),
            nn.ConvBNAct(32, 32, 3, 2),
            nn.ConvBNAct(32, 64, 3, 2),
            nn.ConvBNAct(64, channels, 1, act="none"),
        )
        self.low_to_middle = nn.ConvBNAct(2 * channels, channels, 3, dilation=2, act="none")
        self.middle_to_high = nn.ConvBNAct(channels, channels, 3, dilation=2, act="none")
        self.heads = nn.LayerList(classifier(width, num_classes) for width in (channels, channels, 2 * channels))

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits of strides 4, 8 and 16."""
        middle, coarse = self._trunk(self.half(images))
        for cells in pooled_to_grids(coarse, _GRIDS):
            coarse = coarse + ops.resize_bilinear(cells, coarse)
        low = ops.resize_bilinear(self.low(coarse), middle)
        high = self.high(images)
        joined = ops.relu(self.low_to_middle(low) + self.middle(middle))
        joined = ops.resize_bilinear(joined, high)
        finest = ops.relu(self.middle_to_high(joined) + high)
        finest = ops.resize_bilinear(finest, scale=(2.0, 2.0))
        return [head(x) for head, x in zip(self.heads, (finest, joined, low), strict=True)]

    def _trunk(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The maps of strides 8 and 16 of an image, the second behind the whole backbone."""
        seen: list[Tensor] = []

        def visit(place: Place, block: Block, x: Tensor) -> Tensor:
            y = block(x)
            if place != self._tap:
                return y
            seen.append(y)
            return self.half(y)

        last = walk(self.backbone, images, visit)[-1]
        return seen[0], last
