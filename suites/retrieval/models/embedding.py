"""EmbeddingNet: a backbone, a pooling of its coarsest map, a projection, and length 1."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from framework import nn
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register, register_role
from suites.engine.weights import Names, Origins, start_from
from suites.retrieval.models.pooling import Average, Pooling
from suites.vision.backbones import Backbone


class Embedder(nn.Layer):
    """Images [N, H, W, 3] to vectors [N, D] of length 1.

    Attributes:
        size: D.
    """

    size: int


register_role("embedder", Embedder, doc="Images to vectors of length 1.")


@register("embedder", exclusive=(("top", "pooling"),))
class EmbeddingNet(Embedder):
    """Any backbone of classification with a pooling, a linear projection and a norm behind it.

    Args:
        backbone: image to feature maps; the last is pooled.
        size: D of the projection; null for the pooled vector as it is, whose D is the map's channels.
        pooling: of the map.
        norm: "batch" puts a batch norm behind the projection, as ArcFace's networks have; "none" nothing.
        top: with the layers that the backbone's authors put before the linear layer in place of `pooling`, such as
            MobileNetV2's convolution to 1,280 channels.
        dropout: share of the pooled numbers set to 0 in training.
        pretrained: name or file of published weights of a classifier, such as mobilenetv2_imagenet.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.", r"^norm\.")
    new_tensors: ClassVar[tuple[str, ...]] = ("top.p",)  # of GeM: files of classifiers lack it

    def __init__(
        self,
        backbone: Backbone,
        size: int | None = 128,
        pooling: Pooling | None = None,
        norm: Literal["batch", "none"] = "batch",
        top: bool = False,
        dropout: float = 0.0,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if size is not None and size < 1:
            raise AttributeValueError(f"EmbeddingNet: size is {size}; it must be 1 or more, or null")
        self.backbone, self.schemes = backbone, backbone.schemes
        found: nn.Layer = pooling or Average()
        self.top, features = backbone.top() if top else (found, backbone.channels[-1])
        self._topped = top
        self.dropout = nn.Dropout(dropout)
        self.fc = None if size is None else nn.Linear(features, size)
        self.size = features if size is None else size
        self.norm = nn.BatchNorm(self.size) if norm == "batch" and size is not None else None
        start_from(self, pretrained)

    def names_in(self, scheme: str) -> Names:
        """What `scheme` calls the tensors: the backbone's names and those of its top; the classifier's are unused."""
        names = self.backbone.names_in(scheme).inside(self.backbone.place_in(scheme)).below("backbone.")
        behind = self.backbone.top_names(scheme)
        wanted = {f"top.{name}" for name in self.top.state_dict()} if self._topped else set()
        sources = {name: source for name, source in behind.sources.items() if name in wanted}
        left = [source for name, source in behind.sources.items() if name not in wanted]
        rest = tuple(f"^{re.escape(theirs)}$" for source in left for theirs in source.needed)
        return names | Names(sources, (*behind.unused, *rest))

    def origins_in(self, scheme: str) -> Origins:
        """Those of the backbone."""
        return self.backbone.origins_in(scheme)

    def forward(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; vectors of length 1, [N, D]."""
        x = self.dropout(self.features(images))
        if self.fc is not None:
            x = self.fc(x)
        return nn.unit(x if self.norm is None else self.norm(x))

    def features(self, images: Tensor) -> Tensor:
        """What the projection takes, [N, C] of images [N, H, W, 3]."""
        found: Tensor = self.top(self.backbone.before_top(images) if self._topped else self.backbone(images)[-1])
        return found
