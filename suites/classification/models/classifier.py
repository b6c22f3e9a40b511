"""ImageClassifier: a backbone, the mean of its coarsest map, a linear layer."""

from __future__ import annotations

from framework import nn
from framework.errors import AttributeValueError
from framework.tensor import Tensor
from suites.engine.registry import register, register_role
from suites.vision.backbones import Backbone


class Classifier(nn.Layer):
    """A whole image classifier: images [N, H, W, 3] to logits [N, K]."""


register_role("classifier", Classifier, doc="A whole image classifier.")


@register("classifier")
class ImageClassifier(Classifier):
    """The network of ResNet's paper and most since: backbone, global mean, linear layer.

    Args:
        backbone: image to feature maps; the last is used.
        num_classes: K.
        dropout: share of the features set to 0 in training.
    """

    def __init__(self, backbone: Backbone, num_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        if num_classes < 1:
            raise AttributeValueError(f"ImageClassifier: num_classes is {num_classes}; it must be 1 or more")
        self.num_classes = num_classes
        self.backbone = backbone
        self.pool = nn.GlobalAvgPool2d()
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(backbone.channels[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; logits [N, K]."""
        return self.fc(self.dropout(self.pool(self.backbone(images)[-1])))
