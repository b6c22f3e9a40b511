"""Heads on HRNet's maps: one convolution (HRNetV2, Wang et al. 2020, arXiv:1908.07919), and object-contextual
representations (Yuan et al. 2020, arXiv:1909.11065).

Letters: N batch, H W image size, h w size of the finest map, P = h w, C channels of all maps, D keys, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.segmentation.models import paddleseg_names
from suites.segmentation.models.base import Segmenter
from suites.segmentation.models.parts import Head, check_classes, classifier
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv


@register("segmenter")
class FCN(Segmenter):
    """All maps of the backbone side by side at the finest one's size, a 1x1 convolution, the classifier.

    Args:
        backbone: gives one map or more, such as `HRNet`, whose logits have stride 4.
        num_classes: K.
        channels: of the 1x1 convolution; C where None, as HRNet's authors have it.
    """

    def __init__(self, backbone: Backbone, num_classes: int, channels: int | None = None) -> None:
        super().__init__()
        self.num_classes = check_classes("FCN", num_classes)
        self.backbone = backbone
        total = sum(backbone.channels)
        self.head = Head(total, channels or total, num_classes, kernel=1, dropout=0.0)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifier."""
        return (r"^head\.2\.",)

    @property
    def schemes(self) -> tuple[str, ...]:
        """PaddleSeg's, on an `HRNet` that enlarges as its segmenters do."""
        return _schemes(self.backbone)

    def names_in(self, scheme: str) -> Names:
        """PaddleSeg's names of its FCN."""
        own = paddleseg_names.module("head.0", "head.conv_1") | conv("head.2", "head.cls", bias=True)
        return paddleseg_names.whole(self.backbone, own)

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/4), ceil(W/4), K] where the finest map has stride 4."""
        return [self.head(_side_by_side(self.backbone(images)))]


@register("segmenter")
class OCRNet(Segmenter):
    """Each pixel also sees the mean features of each class's region, weighed by how much it resembles them.

    The regions are those of a first classifier, whose loss counts too.

    Args:
        backbone: gives one map or more, as `FCN`'s.
        num_classes: K.
        channels: of the pixels' features.
        keys: D, channels in which pixels and regions are compared.
        dropout: share of the features before the classifier that is dropped in training.
        aux_weight: of the first classifier's loss.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        channels: int = 512,
        keys: int = 256,
        dropout: float = 0.05,
        aux_weight: float = 0.4,
    ) -> None:
        super().__init__()
        self.num_classes = check_classes("OCRNet", num_classes)
        self.backbone = backbone
        total = sum(backbone.channels)
        self.regions = Head(total, total, num_classes, kernel=1, dropout=0.0)
        self.pixels = nn.ConvBNAct(total, channels, 3)
        self.attention = _ObjectAttention(channels, keys)
        self.merge = nn.ConvBNAct(2 * channels, channels, 1)
        self.dropout = nn.Dropout(dropout)
        self.classifier = classifier(channels, num_classes)
        self.loss_weights = (1.0, aux_weight)

    @property
    def class_tensors(self) -> tuple[str, ...]:
        """The classifiers."""
        return (r"^regions\.2\.", r"^classifier\.")

    @property
    def schemes(self) -> tuple[str, ...]:
        """PaddleSeg's, on an `HRNet` that enlarges as its segmenters do."""
        return _schemes(self.backbone)

    def names_in(self, scheme: str) -> Names:
        """PaddleSeg's names of its OCRNet."""
        own = paddleseg_names.module("regions.0", "head.aux_head.0") | conv("regions.2", "head.aux_head.1", bias=True)
        own |= paddleseg_names.module("pixels", "head.conv3x3_ocr") | conv("classifier", "head.cls_head", bias=True)
        own |= paddleseg_names.module("merge", "head.spatial_ocr.conv1x1.0")
        block = "head.spatial_ocr.attention_block"
        for ours, theirs in (("of_pixel.{}", "f_pixel.{}"), ("of_region.{}", "f_object.{}")):
            for i in range(2):
                own |= paddleseg_names.module(f"attention.{ours.format(i)}", f"{block}.{theirs.format(i)}")
        own |= paddleseg_names.module("attention.value", f"{block}.f_down")
        own |= paddleseg_names.module("attention.up", f"{block}.f_up")
        return paddleseg_names.whole(self.backbone, own)

    def outputs(self, images: Tensor) -> list[Tensor]:
        """images: [N, H, W, 3]; logits [N, ceil(H/4), ceil(W/4), K], and those of the regions."""
        maps = _side_by_side(self.backbone(images))
        regions, pixels = self.regions(maps), self.pixels(maps)
        seen = self.merge(ops.concat([self.attention(pixels, regions), pixels], axis=3))
        return [self.classifier(self.dropout(seen)), regions]


class _ObjectAttention(nn.Layer):
    """pixels: [N, h, w, C], regions: logits [N, h, w, K]; y: [N, h, w, C]."""

    def __init__(self, channels: int, keys: int) -> None:
        super().__init__()
        self._scale = keys**-0.5
        self.of_pixel = nn.Sequential(nn.ConvBNAct(channels, keys, 1), nn.ConvBNAct(keys, keys, 1))
        self.of_region = nn.Sequential(nn.ConvBNAct(channels, keys, 1), nn.ConvBNAct(keys, keys, 1))
        self.value = nn.ConvBNAct(channels, keys, 1)
        self.up = nn.ConvBNAct(keys, channels, 1)

    def forward(self, pixels: Tensor, regions: Tensor) -> Tensor:
        """pixels: [N, h, w, C], regions: [N, h, w, K]; y: [N, h, w, C]."""
        shares = ops.softmax(ops.flatten(regions, start=1, end=2), axis=1)  # [N, P, K]
        means = ops.matmul(shares, ops.flatten(pixels, start=1, end=2), transpose_a=True)  # [N, K, C]
        means = ops.expand_dims(means, axis=1)  # a map of one row
        query = ops.flatten(self.of_pixel(pixels), start=1, end=2)  # [N, P, D]
        key, value = (ops.squeeze(layer(means), axis=1) for layer in (self.of_region, self.value))  # [N, K, D]
        alike = ops.softmax(ops.matmul(query, key, transpose_b=True) * self._scale, axis=-1)  # [N, P, K]
        seen = ops.unflatten_like(ops.matmul(alike, value), pixels, axis=1, start=1, end=2)
        return self.up(seen)


def _schemes(backbone: Backbone) -> tuple[str, ...]:
    """With the classifiers' way of enlarging it is another network of the same shapes."""
    return () if backbone.as_published else paddleseg_names.schemes(backbone)


def _side_by_side(maps: list[Tensor]) -> Tensor:
    """All maps at the first one's size: [N, h, w, C]."""
    first, *rest = maps
    return ops.concat([first, *(ops.resize_bilinear(x, first) for x in rest)], axis=3)
