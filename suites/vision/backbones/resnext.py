"""ResNeXt-50 to 152 and SE-ResNeXt (Xie et al. 2017, arXiv:1611.05431; Hu et al. 2018, arXiv:1709.01507)."""

from __future__ import annotations

from typing import ClassVar, Literal

from framework.errors import AttributeValueError
from suites.engine.registry import register
from suites.vision.backbones.residual import Plan, Variant
from suites.vision.backbones.resnet import ResNet


@register("backbone")
class ResNeXt(ResNet):
    """A ResNet whose 3x3 convolutions work in groups: 50 with 32 groups of 4 ("32x4d"), 101 with 32x8 or 64x4.

    With one group of 128 it is Wide ResNet-50-2 or 101-2 (Zagoruyko and Komodakis 2016, arXiv:1605.07146).

    Args:
        depth: 50, 101 or 152.
        groups: of the 3x3 convolutions.
        group_width: channels of a group in the first stage; twice as many in each further one.
        squeeze: a squeeze and excitation in each block, of so many times fewer channels: 16 in SE-ResNeXt; 0 for none.
        variant: see `ResNet`.
        width: see `ResNet`.
        out_strides: see `ResNet`.
        output_stride: see `ResNet`.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        zero_init: see `ResNet`.
        deformable: see `ResNet`.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
        modulated: see `ResNet`.
    """

    paddle_stem: ClassVar[str] = "res_conv1"

    def __init__(
        self,
        depth: Literal[50, 101, 152] = 50,
        groups: int = 32,
        group_width: int = 4,
        squeeze: int = 0,
        variant: Variant = "b",
        width: int = 64,
        out_strides: tuple[int, ...] = (4, 8, 16, 32),
        output_stride: Literal[8, 16, 32] = 32,
        freeze_at: int = 0,
        frozen_norm: bool = False,
        zero_init: bool = False,
        deformable: tuple[int, ...] = (),
        pretrained: str | None = None,
        modulated: bool = True,
    ) -> None:
        super(ResNet, self).__init__()
        if depth not in (50, 101, 152):
            raise AttributeValueError(f"ResNeXt: depth is {depth}; it must be one of [50, 101, 152]")
        if groups < 1 or group_width < 1 or squeeze < 0 or width * group_width % 64:
            raise AttributeValueError(
                f"ResNeXt: groups is {groups}, group_width {group_width}, squeeze {squeeze}, width {width}; the first "
                "two must be 1 or more, squeeze not negative, and width * group_width a multiple of 64"
            )
        plan = Plan(
            width,
            True,
            variant=variant,
            zero_init=zero_init,
            groups=groups,
            group_width=group_width,
            squeeze=squeeze,
            modulated=modulated,
        )
        self._build(depth, width, out_strides, output_stride, plan, deformable)
        self.finish(freeze_at, frozen_norm, pretrained)
