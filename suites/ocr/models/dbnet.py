"""DBNet: a map of the probability of text and one of its threshold, by differentiable binarization.

Liao et al. 2020, arXiv:1911.08947, and DB++, 2022, arXiv:2202.10304. The neck is PaddleOCR's RSE-FPN. Letters: N batch,
H W image size, C channels.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError, ConfigError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.ocr.models.base import GentleSqueeze, TextDetector, conv_source, norm_source, squeeze_source
from suites.ocr.models.lcnet import PPLCNetV3
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import drawn_image, freeze_norms

_STRIDES = (4, 8, 16, 32)
_LATERAL, _OUT = (135, 141, 147, 153), (138, 144, 150, 156)  # numbers of PP-OCRv4's convolutions, finest map first


class SqueezedConv(nn.Layer):
    """y = c + squeeze(c), c the convolution of x.  x: [N, H, W, C], y: [N, H, W, K].

    Args:
        in_channels: C.
        out_channels: K.
        kernel: of the convolution.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, bias=False)
        self.squeeze = GentleSqueeze(out_channels, out_channels // 4)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, K]."""
        y = self.conv(x)
        return y + self.squeeze(y)


class ScaleFusion(nn.Layer):
    """DB++'s adaptive scale fusion: at each place, how much each map counts (Liao et al. 2022, arXiv:2202.10304).

    The form is PaddleOCR's ASFBlock.

    Args:
        channels: C of all maps together.
        maps: how many there are.
    """

    def __init__(self, channels: int, maps: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels // maps, 3)
        self.near = nn.Conv2d(1, 1, 3, bias=False)
        self.place = nn.Conv2d(1, 1, 1, bias=False)
        self.scale = nn.Conv2d(channels // maps, maps, 1, bias=False)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps: [N, H, W, C / maps] each; y: [N, H, W, C], side by side."""
        x = self.conv(ops.concat(maps, axis=-1))
        places = ops.sigmoid(self.place(ops.relu(self.near(ops.mean(x, axes=(3,), keepdims=True)))))
        shares = ops.split(ops.sigmoid(self.scale(x + places)), axis=-1, sizes=[1] * len(maps))
        return ops.concat([share * own for share, own in zip(shares, maps, strict=True)], axis=-1)


class SqueezedFpn(nn.Layer):
    """Maps of strides 4, 8, 16 and 32 as one of stride 4, [N, H/4, W/4, C]: from coarse to fine, then side by side.

    Args:
        in_channels: of the maps, finest first.
        channels: C; a multiple of 16.
        fusion: maps are weighed against each other at each place, as in DB++.
    """

    def __init__(self, in_channels: tuple[int, ...], channels: int = 96, fusion: bool = False) -> None:
        super().__init__()
        self.lateral = nn.LayerList([SqueezedConv(c, channels, 1) for c in in_channels])
        self.out = nn.LayerList([SqueezedConv(channels, channels // 4, 3) for _ in in_channels])
        self.fusion = ScaleFusion(channels, len(in_channels)) if fusion else None

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps: [N, H/s, W/s, C_s], finest first."""
        sums = [lateral(x) for lateral, x in zip(self.lateral, maps, strict=True)]
        for k in range(len(sums) - 2, -1, -1):
            sums[k] = sums[k] + ops.resize_nearest(sums[k + 1], sums[k])
        found = [out(x) for out, x in zip(self.out, sums, strict=True)]
        found = [found[0], *(ops.resize_nearest(x, found[0]) for x in found[1:])]
        return ops.concat(found[::-1], axis=-1) if self.fusion is None else self.fusion(found[::-1])


class Deconv(nn.Layer):
    """Transposed convolution of 2x2 cells at stride 2.  x: [N, H, W, C], weight: [C, 2, 2, K], bias: [1, K],
    y: [N, 2 H, 2 W, K].

    Args:
        in_channels: C.
        out_channels: K.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.add_parameter("weight", (in_channels, 2, 2, out_channels), init.Kaiming())
        self.add_parameter("bias", (1, out_channels), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, 2 H, 2 W, K]."""
        return ops.conv2d_transpose(x, self.weight, stride=2) + self.bias


class MapHead(nn.Layer):
    """Features [N, H/4, W/4, C] to logits [N, H, W].

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = channels // 4
        self.conv = nn.ConvBNAct(channels, inner, 3)
        self.up = Deconv(inner, inner)
        self.norm = nn.BatchNorm(inner)
        self.last = Deconv(inner, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H/4, W/4, C]; logits [N, H, W]."""
        y = ops.relu(self.norm(self.up(self.conv(x))))
        return ops.squeeze(self.last(y), axis=3)


@register("text_model")
class DBNet(TextDetector):
    """Backbone, feature pyramid, and a head for each map; only training reads the threshold's.

    Args:
        backbone: image to maps of strides 4, 8, 16 and 32; PPLCNetV3() by default.
        channels: of the pyramid.
        fusion: with DB++'s adaptive scale fusion behind the pyramid, which starts new on published weights.
        k: steepness of the step between probability and threshold.
        thresholds: with the head that only training needs; a network that only predicts does without.
        frozen_norm: batch norms but those of thresholds use their running statistics in training too, and are not
            trained: for a few pictures at a time, on published weights.
        pretrained: name or file of published weights of the whole; see docs/howto/pretrained.md. The published ones
            have no head for thresholds, which starts new.
    """

    schemes: tuple[str, ...] = ("ppocr",)
    class_tensors: ClassVar[tuple[str, ...]] = (r"^threshold\.", r"^neck\.fusion\.")

    def __init__(
        self,
        backbone: Backbone | None = None,
        channels: int = 96,
        fusion: bool = False,
        k: float = 50.0,
        thresholds: bool = True,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone if backbone is not None else PPLCNetV3()
        if self.backbone.strides != _STRIDES:
            raise AttributeValueError(
                f"DBNet: the backbone has maps of strides {list(self.backbone.strides)}; needed are {list(_STRIDES)}"
            )
        if channels < 16 or channels % 16:
            raise AttributeValueError(f"DBNet: channels is {channels}; it must be a multiple of 16")
        self.neck = SqueezedFpn(self.backbone.channels, channels, fusion)
        self.probability = MapHead(channels)
        self.threshold = MapHead(channels) if thresholds else None
        self._steepness = k
        for part in (self.backbone, self.neck, self.probability) if frozen_norm else ():
            freeze_norms(part)
        start_from(self, pretrained)

    def forward(self, images: Tensor) -> Tensor:
        """The probability of text, [N, H, W], of images [N, H, W, 3]."""
        return ops.sigmoid(self.probability(self.neck(self.backbone(images))))

    def maps(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the probability, the threshold, and the binary map 1 / (1 + exp(-k (p - t))); each [N, H, W].

        Raises ConfigError of a network without the head for thresholds.
        """
        if self.threshold is None:
            raise ConfigError("DBNet: to train it takes the head for thresholds; set model.thresholds to true")
        features = self.neck(self.backbone(images))
        logits = self.probability(features)
        threshold = ops.sigmoid(self.threshold(features))
        return logits, threshold, ops.sigmoid((ops.sigmoid(logits) - threshold) * self._steepness)

    def names_in(self, scheme: str) -> Names:
        """Names in PP-OCRv4's exported detector."""
        names = self.backbone.names_in(scheme).below("backbone.").sources if scheme in self.backbone.schemes else {}
        own: dict[str, Source] = {}
        for part, numbers in (("lateral", _LATERAL), ("out", _OUT)):
            for k, number in enumerate(numbers):
                place = f"neck.{part}.{k}"
                own |= conv_source(f"{place}.conv", f"conv2d_{number}", bias=False)
                own |= squeeze_source(f"{place}.squeeze", number + 1)
        own |= conv_source("probability.conv.conv", "conv2d_159", bias=False)
        own |= norm_source("probability.conv.norm", "batch_norm_0") | norm_source("probability.norm", "batch_norm_1")
        for k, part in enumerate(("up", "last")):
            own[f"probability.{part}.weight"] = Source((f"conv2d_transpose_{k}.w_0",), (0, 2, 3, 1))
            own[f"probability.{part}.bias"] = Source((f"conv2d_transpose_{k}.b_0",), ones=2)
        return Names({**names, **own}, (r"^p2o\.",))

    def answers(self) -> dict[str, np.ndarray]:
        """The mean logit of each row of a drawn image; see `suites.engine.weights.answers`."""
        return {"text": self.probability(self.neck(self.backbone(drawn_image()))).numpy().mean(axis=(0, 2))}
