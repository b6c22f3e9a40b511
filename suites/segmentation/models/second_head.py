"""Segmenters with a second head on the stage before the last, which only helps in training.

Letters: N batch, H W image size, s stride of the first head's logits, K classes.
"""

from __future__ import annotations

from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import Head, stage_ends, walk_with
from suites.vision.backbones import Backbone


class SecondHeaded(Segmenter):
    """Base of networks of a backbone, a head on its maps, and perhaps a second one.

    Attributes:
        aux: the second head; None without one.
    """

    backbone: Backbone
    aux: nn.Layer | None = None

    def add_second_head(self, weight: float, channels: int | None, dropout: float) -> None:
        """Add the head where its loss has a weight above 0; the backbone is made of blocks then.

        Args:
            weight: of its loss.
            channels: of its first convolution; None for a quarter of the map's.
            dropout: share of that's output that is dropped in training.

        Raises AttributeValueError for a weight below 0.
        """
        if weight < 0:
            raise AttributeValueError(f"{type(self).__name__}: aux_weight is {weight}; it must be 0 or more")
        if weight:
            self._aux_at = stage_ends(self.backbone)[-2]
            found = self._aux_at.channels
            self.aux = Head(found, channels or found // 4, self.num_classes, dropout=dropout)
            self.loss_weights = (1.0, weight)

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/s), ceil(W/s), K], and those of the second head if there is one."""
        if self.aux is None:
            return [self.logits_of(self.backbone(images))]
        inner, maps = walk_with(self.backbone, images, self._aux_at)
        return [self.logits_of(maps), self.aux(inner)]

    def logits_of(self, maps: list[Tensor]) -> Tensor:
        """The first head's logits, of the backbone's maps."""
        raise NotImplementedError(f"{type(self).__name__} defines no logits_of()")
