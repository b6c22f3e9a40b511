"""Detectors of one stage: a backbone, a neck and a head that predicts on every cell of every level.

Letters: N batch, H W image size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.tensors import Tensor
from suites.detection.models.base import Detections, Detector, Head, Neck, Targets
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.weights import start_from
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import drawn_image


class OneStageDetector(Detector):
    """Backbone, neck, head. Derive to say which neck stands between by default and which image sizes will do.

    Args:
        backbone: image to feature maps.
        head: predictions and losses.
        neck: what lies between.
        pretrained: name or file of published weights of the whole detector; see docs/howto/pretrained.md.
    """

    answer_side: ClassVar[int | None] = None  # of the drawn image that `answers` shows it; by default two multiples

    def __init__(
        self, backbone: Backbone, head: Factory[Head], neck: Factory[Neck], pretrained: str | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.neck = neck(in_channels=backbone.channels, in_strides=backbone.strides)
        self.head = head(in_channels=self.neck.channels, strides=self.neck.strides)
        self.size_multiple = max(backbone.strides)
        self.num_classes: int | None = getattr(self.head, "num_classes", None)
        start_from(self, pretrained)

    def maps(self, images: Tensor) -> list[Tensor]:
        """The neck's maps, finest first, of images [N, H, W, 3]."""
        return self.neck(self.backbone(images))

    def forward(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; the head's raw predictions."""
        return self.head(self.maps(images))

    def answers(self) -> dict[str, np.ndarray]:
        """The means over each level's predictions of a drawn image, by channel; see `suites.engine.weights.answers`."""
        if not self.backbone.as_published:
            return {}
        with no_grad():
            levels = self(drawn_image(self.answer_side or 2 * max(64, self.size_multiple)))
        return {f"level_{i}": level.numpy().reshape(-1, level.shape[-1]).mean(axis=0) for i, level in enumerate(levels)}

    def losses(self, images: Tensor, targets: Targets) -> Mapping[str, Tensor | Loss]:
        """Loss terms by name for images [N, H, W, 3]."""
        return self.head.losses(self.maps(images), targets)

    def detect(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
        """What it finds on images [N, H, W, 3], in their pixels; see `Detector.detect`."""
        return self.head.detect(self.maps(images), full_sizes(images) if sizes is None else sizes)


def full_sizes(images: Tensor) -> Tensor:
    """int64 [N, 2], (H, W) of each of images [N, H, W, 3]."""
    number = ops.positions(images, axis=0)  # [N]
    return ops.stack([ops.broadcast_like(ops.extent(images, axis=axis), number) for axis in (1, 2)], axis=1)
