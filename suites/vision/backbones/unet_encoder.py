"""The encoder of U-Net: pairs of 3x3 convolutions, max pooling between (Ronneberger et al. 2015, arXiv:1505.04597)."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone
from suites.vision.backbones.naming import conv_norm


@register("backbone")
class UNetEncoder(Backbone):
    """A map of each stride 1, 2, 4, ...: two 3x3 convolutions with batch norm and ReLU, halved for the next.

    PaddleSeg's widths: half of the paper's at the coarsest map. Any image size will do: a map has ceil(H / s) rows.

    Args:
        widths: channels of the maps, finest first.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of weights of ours; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("paddleseg",)

    def __init__(
        self,
        widths: tuple[int, ...] = (64, 128, 256, 512, 512),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if len(widths) < 2 or min(widths) < 1:
            raise AttributeValueError(f"UNetEncoder: widths is {list(widths)}; it needs two or more, of 1 or more")
        self.strides = tuple(1 << i for i in range(len(widths)))
        self.channels = tuple(widths)
        self.pool = nn.MaxPool2d(2, padding=(0, 1, 0, 1))  # an odd side gives a cell more
        self.stages = nn.LayerList(
            nn.Sequential(nn.ConvBNAct(before, width, 3), nn.ConvBNAct(width, width, 3))
            for before, width in zip((3, *widths), widths, strict=False)
        )
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stages of stride 1 and 2 together, then each further one."""
        first, second, *rest = self.stages
        return [[first, second], *([stage] for stage in rest)]

    def names_in(self, scheme: str) -> Names:
        """PaddleSeg's, of the encoder of its U-Net; the convolutions have a bias before the norm."""
        names: dict[str, Source] = {}
        for i in range(len(self.stages)):
            for k in range(2):
                theirs = f"encode.down_sample_list.{i - 1}.{k + 1}" if i else f"encode.double_conv.{k}"
                at = f"stages.{i}.{k}"
                names |= conv_norm(at, f"{theirs}._conv", f"{theirs}._batch_norm", paddle=True, biased=True)
        return Names(names)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, ceil(H/s), ceil(W/s), C_s]."""
        maps: list[Tensor] = []
        for stage in self.stages:
            maps.append(stage(self.pool(maps[-1]) if maps else x))
        return maps
