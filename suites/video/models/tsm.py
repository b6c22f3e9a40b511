"""TSM: an image network whose blocks see a share of the frames beside (Lin et al. 2019, arXiv:1811.08383)."""

from __future__ import annotations

from framework import ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.base import FrameClassifier
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import Block, Place
from suites.vision.backbones.walk import walk


@register("video_classifier")
class TSM(FrameClassifier):
    """Temporal shift: each block with a shortcut sees some channels of the frame after and of the frame before.

    The shortcut keeps the frame as it is ("residual shift", section 3.2). No weights are added.

    Args:
        backbone: image to feature maps, made of blocks: a ResNet, ResNeXt, MobileNetV2, V3 or EfficientNetLite.
        num_classes: K.
        dropout: share of the features set to 0 in training.
        fc_std: standard deviation of the linear layer's starting weights.
        top: see `FrameClassifier`.
        share: 1 of so many channels moves each way; 8 in the paper.
    """

    shifted = True

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        dropout: float = 0.0,
        fc_std: float = 0.01,
        top: bool = False,
        share: int = 8,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, fc_std, top)
        if share < 2:
            raise AttributeValueError(f"TSM: share is {share}; it must be 2 or more")
        self._share = share
        backbone.placed()  # raises for one without blocks

    def maps(self, frames: Tensor, clips: Tensor) -> list[Tensor]:
        """The backbone's maps of frames [N * T, H, W, 3], each block on shifted frames."""

        def visit(place: Place, block: Block, x: Tensor) -> Tensor:
            if not block.shortcut:
                return block(x)
            shifted = ops.temporal_shift(
                ops.unflatten_like(x, clips, axis=0), channels=block.in_channels // self._share
            )
            return block(x, ops.flatten(shifted, start=0, end=1))

        return walk(self.backbone, frames, visit)
