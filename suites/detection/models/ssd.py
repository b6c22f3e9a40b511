"""SSD: priors on several maps, a class and an offset for each (Liu et al. 2016, arXiv:1512.02325).

Letters: N batch, H W a level's grid, A priors a cell, P priors of all levels, K classes, C_s channels at stride s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.anchor_boxes import SSD300, SSDPriors
from suites.detection.losses.anchored import SSDLoss
from suites.detection.losses.landmarks import landmarks_of
from suites.detection.matching import rows_of
from suites.detection.models import paddledetection_names
from suites.detection.models.base import Detections, Head, Neck, PostProcess, Targets
from suites.detection.models.one_stage import OneStageDetector
from suites.detection.models.torchvision_names import convs, known, ssdlite
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones import VGG, Backbone, MobileNetV3
from suites.vision.backbones.vgg import torchvision_name
from suites.vision.pose import Pose

# (channels between, channels out, kernel, stride, padding) of each extra level
SSD300_EXTRAS = ((256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 1, 0), (128, 256, 3, 1, 0))
_POSTPROCESS = PostProcess(0.01, 400, 0.45, 200)
_LITE_EPS = 1e-3  # of SSDlite's batch norms, as of MobileNetV3's
Convolution = Literal["3x3", "1x1", "separable"]
CODE = (10.0, 10.0, 5.0, 5.0)  # weights of the box code: 1 / the "variances" 0.1, 0.1, 0.2, 0.2


@register("neck")
class SSDNeck(Neck):
    """The backbone's maps, the first scaled to a length of its own, then levels of a 1x1 and another convolution each.

    Parameters: `scale` (with `l2_norm`), and for each extra level `extras.I.0` and `extras.I.1`.

    Args:
        in_channels: C_s of each backbone map, finest first.
        in_strides: of each backbone map.
        extras: (channels between, channels out, kernel, stride, padding) of the second convolution of each level.
        l2_norm: length that each pixel of the first map starts with, learnt for each channel (Liu et al. 2015,
            ParseNet); 20 for VGG. None leaves the map as it is.
        norm: batch norm in the extra levels, without which the paper's VGG gets along.
        lite: SSDlite's levels, the second convolution depthwise and a 1x1 one behind it; ReLU6 (Sandler et al. 2018).
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        in_strides: Sequence[int],
        extras: tuple[tuple[int, int, int, int, int], ...] = SSD300_EXTRAS,
        l2_norm: float | None = None,
        norm: bool = True,
        lite: bool = False,
    ) -> None:
        super().__init__()
        self.norm, self.lite = norm, lite
        self.scale: Tensor | None = None
        if l2_norm is not None:
            self.add_parameter("scale", (in_channels[0],), nn.init.Constant(l2_norm))
        self.extras = nn.LayerList()
        channels, strides = list(in_channels), list(in_strides)
        for middle, out, kernel, stride, padding in extras:
            if lite:
                self.extras.append(_lite_level(channels[-1], middle, out, kernel, stride))
            else:
                first = _layer(channels[-1], middle, 1, 1, 0, norm)
                self.extras.append(nn.Sequential(*first, *_layer(middle, out, kernel, stride, padding, norm)))
            channels.append(out)
            strides.append(strides[-1] * stride)
        self.channels, self.strides = tuple(channels), tuple(strides)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """maps: [N, H, W, C_s], finest first; these, and one for each extra level."""
        found = list(maps)
        for extra in self.extras:
            found.append(extra(found[-1]))
        if self.scale is not None:
            x = found[0]
            squares = ops.sum(x * x, axes=(3,), keepdims=True)
            found[0] = x * ops.rsqrt(squares + 1e-10) * self.scale
        return found


@register("head")
class SSDHead(Head):
    """A convolution for classes and one for boxes on each map. Class 0 of the logits is background.

    Parameters: `cls_outs.I`, `box_outs.I`; channel a * (1 + K) + k is class k of prior a.

    Args:
        in_channels: of each map, finest first.
        strides: not used; `priors` has its own.
        num_classes: K.
        priors: sizes, ratios and steps of each level; by default those of SSD300 for Pascal VOC.
        loss: what is minimised.
        postprocess: how detections are chosen.
        landmarks: L, points of each object that are predicted too, such as the 5 of a face; by `mark_outs.I`.
        convolution: what predicts on each map: "3x3"; "1x1" where the neck has looked around; "separable", SSDlite's,
            a depthwise 3x3 with a 1x1 behind it.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        priors: SSDPriors | None = None,
        loss: SSDLoss | None = None,
        postprocess: PostProcess = _POSTPROCESS,
        landmarks: int = 0,
        convolution: Convolution = "3x3",
    ) -> None:
        super().__init__()
        if convolution not in _OUTS:
            raise AttributeValueError(f"SSDHead: convolution is '{convolution}'; it must be one of {', '.join(_OUTS)}")
        if num_classes < 1 or landmarks < 0:
            raise AttributeValueError(
                f"SSDHead: num_classes is {num_classes} and landmarks {landmarks}; num_classes must be 1 or more, "
                "landmarks 0 or more"
            )
        self.landmarks, self.convolution = landmarks, convolution
        self.num_classes = num_classes
        self.anchors = (priors or SSD300).grid()
        if len(in_channels) != len(self.anchors.levels):
            raise AttributeValueError(
                f"SSDHead: the neck gives {len(in_channels)} maps but the priors are of {len(self.anchors.levels)} "
                "levels; give min_sizes, ratios and steps for each map"
            )
        self.loss = loss or SSDLoss()
        self.postprocess = postprocess
        pairs = list(zip(in_channels, self.anchors.per_cell, strict=True))
        out = _OUTS[convolution]
        self.cls_outs = nn.LayerList(out(c, each * (1 + num_classes)) for c, each in pairs)
        self.box_outs = nn.LayerList(out(c, each * 4) for c, each in pairs)
        self.mark_outs = nn.LayerList(out(c, each * 2 * landmarks) for c, each in pairs if landmarks)

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Maps [N, H, W, C_s]; logits [N, P, 1 + K] and codes of boxes [N, P, 4]."""
        width = 1 + self.num_classes
        logits = [ops.reshape(out(x), shape=(0, -1, width)) for out, x in zip(self.cls_outs, maps, strict=True)]
        deltas = [ops.reshape(out(x), shape=(0, -1, 4)) for out, x in zip(self.box_outs, maps, strict=True)]
        return ops.concat(logits, axis=1), ops.concat(deltas, axis=1)

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> dict[str, Loss]:
        """`loss_cls`, `loss_box` and perhaps `loss_landmarks`, by the number of positive priors."""
        logits, deltas = self(maps)
        return self.loss(logits, deltas, self._anchors(maps), targets, CODE, self._marks(maps))

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input, cut to the images' `sizes` (int64 [N, 2])."""
        logits, deltas = self(maps)
        anchors = self._anchors(maps)
        boxes = ops.box_decode(deltas, anchors, weights=CODE)
        scores = ops.softmax(logits, axis=2)
        scores = scores[:, :, 1 : 1 + self.num_classes]
        found, index = self.postprocess.indexed(ops.clip_boxes(boxes, sizes), scores)
        codes = self._marks(maps)
        if codes is None:
            return found
        points = ops.flatten(landmarks_of(codes, anchors), start=2, end=3)  # [N, P, 2 L]
        return replace(found, landmarks=ops.reshape(rows_of(points, ops.maximum(index, 0)), shape=(0, 0, -1, 2)))

    def _marks(self, maps: Sequence[Tensor]) -> Tensor | None:
        """Codes of landmarks [N, P, L, 2]."""
        if not self.landmarks:
            return None
        pairs = zip(self.mark_outs, maps, strict=True)
        return ops.concat([ops.reshape(out(x), shape=(0, -1, self.landmarks, 2)) for out, x in pairs], axis=1)

    def _anchors(self, maps: Sequence[Tensor]) -> Tensor:
        return ops.concat(self.anchors.grids(maps), axis=0)  # [P, 4]


@register("detector")
class SSD(OneStageDetector):
    """SSD. Images of the side that the priors are made for.

    Args:
        backbone: image to feature maps.
        head: predictions and losses.
        neck: what lies between.
        pretrained: name or file of published weights of the whole detector; see docs/howto/pretrained.md.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^head\.cls_outs\.",)
    default_neck: ClassVar[type[Neck]] = SSDNeck
    points: ClassVar[Pose | None] = None  # what landmarks are, of a head that finds as many

    def __init__(
        self,
        backbone: Backbone,
        head: Factory[Head],
        neck: Factory[Neck] | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__(backbone, head, neck or Factory.of(self.default_neck), pretrained)
        self.size_multiple = 1
        self.landmarks = getattr(self.head, "landmarks", 0)
        if self.points is not None and self.landmarks == len(self.points.names):
            self.pose = self.points

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names its tensors have: those of SSD as in the paper, on VGG with fc6 and fc7, and of SSDlite."""
        backbone, neck, head = self.backbone, self.neck, self.head
        if isinstance(backbone, MobileNetV3):
            parts = (
                isinstance(neck, SSDNeck)
                and neck.lite
                and isinstance(head, SSDHead)
                and head.convolution == "separable"
            )
            return ("torchvision",) if parts and backbone.ssdlite and len(backbone.openers) == 1 else ()
        if not isinstance(backbone, VGG) or backbone.fc6 is None or backbone.strides != (8, 16):
            return ()
        if not isinstance(neck, SSDNeck) or neck.norm or neck.lite or not isinstance(head, SSDHead):
            return ()
        if head.landmarks or head.convolution != "3x3":
            return ()
        found = known(backbone, paddledetection_names.SCHEME)
        return ("torchvision", *found) if len(backbone.convs) == 13 else found  # there are none of VGG-19

    def names_in(self, scheme: str) -> Names:
        """Names in torchvision's `ssd300_vgg16` and `ssdlite320_mobilenet_v3_large`, or PaddleDetection's."""
        assert isinstance(self.neck, SSDNeck) and isinstance(self.head, SSDHead)
        if isinstance(self.backbone, MobileNetV3):
            return ssdlite(self.backbone, len(self.neck.extras), len(self.neck.channels))
        extras, scaled = len(self.neck.extras), self.neck.scale is not None
        if scheme == paddledetection_names.SCHEME:
            anchors = self.head.anchors.per_cell
            return paddledetection_names.ssd(self.backbone, extras, anchors, self.head.num_classes, scaled)
        pairs = {f"backbone.convs.{i}": f"backbone.{torchvision_name(f'convs.{i}.')}"[:-1] for i in range(10)}
        pairs |= {f"backbone.convs.{10 + i}": f"backbone.extra.0.{1 + 2 * i}" for i in range(3)}
        pairs |= {"backbone.fc6": "backbone.extra.0.7.1", "backbone.fc7": "backbone.extra.0.7.3"}
        for i in range(extras):
            pairs |= {f"neck.extras.{i}.{at}": f"backbone.extra.{i + 1}.{at}" for at in (0, 2)}
        for i in range(len(self.neck.channels)):
            pairs[f"head.cls_outs.{i}"] = f"head.classification_head.module_list.{i}"
            pairs[f"head.box_outs.{i}"] = f"head.regression_head.module_list.{i}"
        return Names({**convs(pairs), **({"neck.scale": Source(("backbone.scale_weight",))} if scaled else {})})


def _layer(in_channels: int, out: int, kernel: int, stride: int, padding: int, norm: bool) -> list[nn.Layer]:
    start = nn.init.Kaiming() if norm else nn.init.Xavier("uniform")
    conv = nn.Conv2d(in_channels, out, kernel, stride, padding, bias=not norm, initializer=start)
    return [conv, *([nn.BatchNorm(out)] if norm else []), nn.Activation("relu")]


def _dense(in_channels: int, out: int) -> nn.Layer:
    return nn.Conv2d(in_channels, out, 3, initializer=nn.init.Xavier("uniform"))


def _pointwise(in_channels: int, out: int) -> nn.Layer:
    return nn.Conv2d(in_channels, out, 1, initializer=nn.init.Xavier("uniform"))


def _lite_level(in_channels: int, middle: int, out: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvBNAct(in_channels, middle, 1, act="relu6", norm_eps=_LITE_EPS),
        nn.ConvBNAct(middle, middle, kernel, stride, groups=middle, act="relu6", norm_eps=_LITE_EPS),
        nn.ConvBNAct(middle, out, 1, act="relu6", norm_eps=_LITE_EPS),
    )


def _separable(in_channels: int, out: int) -> nn.Layer:
    return nn.Sequential(
        nn.ConvBNAct(in_channels, in_channels, 3, groups=in_channels, act="relu6", norm_eps=_LITE_EPS),
        nn.Conv2d(in_channels, out, 1, initializer=nn.init.Normal(0.03)),
    )


_OUTS = {"3x3": _dense, "1x1": _pointwise, "separable": _separable}
