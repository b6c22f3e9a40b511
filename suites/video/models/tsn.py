"""TSN: an image network on a few frames of a video, whose opinions are averaged (Wang et al. 2016, arXiv:1608.00859).

Letters: N clips, T frames of a clip, H W height and width, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensor import Tensor
from suites.engine.registry import register
from suites.video.models.base import VideoClassifier, by_clip
from suites.vision.backbones import Backbone


@register("video_classifier")
class TSN(VideoClassifier):
    """Temporal segment network: the mean over frames of an image classifier's logits.

    Args:
        backbone: image to feature maps; the last is used.
        num_classes: K.
        dropout: share of the features set to 0 in training.
        fc_std: standard deviation of the linear layer's starting weights.
    """

    def __init__(self, backbone: Backbone, num_classes: int, dropout: float = 0.0, fc_std: float = 0.01) -> None:
        super().__init__()
        if num_classes < 1:
            raise AttributeValueError(f"TSN: num_classes is {num_classes}; it must be 1 or more")
        self.num_classes = num_classes
        self.backbone = backbone
        self.pool = nn.GlobalAvgPool2d()
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(backbone.channels[-1], num_classes, initializer=init.Normal(fc_std))

    def forward(self, clips: Tensor) -> Tensor:
        """clips: [N, T, H, W, 3]; logits [N, K]."""
        frames = ops.flatten(clips, start=0, end=1)  # (N, T, H, W, 3) -> (N * T, H, W, 3)
        logits = self.fc(self.dropout(self.pool(self.backbone(frames)[-1])))
        return ops.mean(by_clip(logits, clips, self.num_classes), axes=1)
