"""ImageClassifier: a backbone, the mean of its coarsest map, a linear layer."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register, register_role
from suites.engine.weights import ClassRows, Names, Origins, start_from
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import drawn_image


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
        top: with the layers that the backbone's authors put before the linear layer, such as MobileNetV2's convolution
            to 1,280 channels; published weights have them.
        pretrained: name or file of published weights, such as efficientnet_lite0_imagenet; of another number of classes
            all but the linear layer is taken. See docs/howto/pretrained.md.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.",)

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        dropout: float = 0.0,
        top: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise AttributeValueError(f"ImageClassifier: num_classes is {num_classes}; it must be 1 or more")
        self.num_classes = num_classes
        self.backbone = backbone
        self.schemes = backbone.schemes
        self.top, features = backbone.top() if top else (nn.GlobalAvgPool2d(), backbone.channels[-1])
        self._topped, self._cells = top, top and backbone.cell_logits
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(features, num_classes)
        start_from(self, pretrained)

    def class_rows(self) -> dict[str, ClassRows]:
        """A row a class."""
        return {r"^fc\.": ClassRows()}

    def names_in(self, scheme: str) -> Names:
        """What `scheme` calls the tensors: the backbone's names and those of what is behind it."""
        own = self.state_dict()
        behind = self.backbone.top_names(scheme)
        names = self.backbone.names_in(scheme).inside(self.backbone.place_in(scheme))
        return names.below("backbone.") | Names(
            {name: source for name, source in behind.sources.items() if name in own}, behind.unused
        )

    def origins_in(self, scheme: str) -> Origins:
        """Those of the backbone."""
        return self.backbone.origins_in(scheme)

    def answers(self) -> dict[str, np.ndarray]:
        """Logits of a drawn image; see `suites.engine.weights.answers`."""
        return {"logits": self(drawn_image()).numpy()} if self.backbone.as_published else {}

    def forward(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; logits [N, K]."""
        logits = self.fc(self.dropout(self._seen(images)))
        return ops.mean(ops.relu(logits), axes=(1, 2)) if self._cells else logits

    def features(self, images: Tensor) -> Tensor:
        """What the linear layer sees: [N, D] of images [N, H, W, 3]; its mean where each cell has logits of its own."""
        seen = self._seen(images)
        return ops.mean(seen, axes=(1, 2)) if self._cells else seen

    def _seen(self, images: Tensor) -> Tensor:
        return self.top(self.backbone.before_top(images) if self._topped else self.backbone(images)[-1])
