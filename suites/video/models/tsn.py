"""TSN: an image network on a few frames of a video, whose opinions are averaged (arXiv:1608.00859)."""

from __future__ import annotations

from suites.engine.registry import register
from suites.video.models.base import FrameClassifier


@register("video_classifier")
class TSN(FrameClassifier):
    """Temporal segment network: the mean over frames of an image classifier's logits (Wang et al. 2016).

    Args:
        backbone: image to feature maps; the last is used.
        num_classes: K.
        dropout: share of the features set to 0 in training.
        fc_std: standard deviation of the linear layer's starting weights.
        top: see `FrameClassifier`.
    """
