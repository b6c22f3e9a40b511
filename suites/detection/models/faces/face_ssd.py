"""SSD on MobileNetV1 for faces, as TensorFlow's object detection API built it and face-api.js published it.

Source: Liu et al. 2016 (arXiv:1512.02325), Howard et al. 2017 (arXiv:1704.04861), and the network and file of
face-api.js (https://github.com/vladmandic/face-api). The file holds the norms behind its full convolutions inside of
them; those behind depthwise ones stand by themselves.

Letters: N batch, H W image size, H_s W_s grid of stride s, C_s channels, P priors of all levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.errors import ShapeError
from framework.tensors import Tensor
from suites.detection.anchor_boxes import AnchorGrid, AnchorLevel
from suites.detection.losses.anchored import SSDLoss
from suites.detection.models.base import Detections, Head, Neck, PostProcess, Targets
from suites.detection.models.one_stage import OneStageDetector
from suites.detection.models.ssd import CODE
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone

SCHEME = "faceapi"
SIDE = 512  # pixels
_EPS = 1e-3
# (channels out, stride) of the 13 separable blocks behind the stem; the 11th and the last give the maps.
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
_TAPS = (10, 12)
_EXTRAS = ((256, 512), (128, 256), (128, 256), (64, 128))  # channels between and out of each further level
_SIZES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)  # of the priors, as shares of the side; the last is no level's
_RATIOS = (2.0, 0.5, 3.0, 0.3333)  # width / height
_STRIDES = (16, 32, 64, 128, 256, 512)
_CONV = (3, 0, 1, 2)  # their axes [R, S, C, K]
_DEPTHWISE = (2, 0, 1, 3)  # [R, S, C, 1]
_BACKGROUND_FACE_OTHER = 3  # their logits of a prior
_POSTPROCESS = PostProcess(0.02, 1000, 0.5, 100)


def _conv(channels: int, out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A full convolution; TensorFlow pads behind alone where it halves a map of an even side."""
    padding = (0, 1, 0, 1) if stride == 2 else kernel // 2
    return nn.Conv2d(channels, out, kernel, stride, padding, initializer=nn.init.Kaiming())


def _relu6() -> nn.Layer:
    return nn.Activation("relu6")


class _Separable(nn.Layer):
    """relu6(1x1(relu6(norm(depthwise 3x3(x))))).  x: [N, H, W, C], y: [N, H/stride, W/stride, K].

    The norm keeps its statistics: those behind the other convolutions are gone too.
    """

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        padding = (0, 1, 0, 1) if stride == 2 else 1
        self.depthwise = nn.Conv2d(channels, channels, 3, stride, padding, groups=channels, bias=False)
        self.norm = nn.BatchNorm(channels, eps=_EPS, frozen=True)
        self.pointwise = _conv(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return ops.relu6(self.pointwise(ops.relu6(self.norm(self.depthwise(x)))))


class FaceMobileNet(Backbone):
    """Images [N, H, W, 3] in [-1, 1], sides multiples of 512, to maps of strides 16 and 32, 512 and 1,024 channels."""

    schemes: tuple[str, ...] = (SCHEME,)

    def __init__(self) -> None:
        super().__init__()
        self.stem, width = _conv(3, 32, 3, 2), 32
        self.blocks = nn.LayerList()
        for out, stride in _BLOCKS:
            self.blocks.append(_Separable(width, out, stride))
            width = out
        self.strides, self.channels = _STRIDES[:2], tuple(_BLOCKS[tap][0] for tap in _TAPS)
        self.finish()

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/16, W/16, 512] and [N, H/32, W/32, 1024]."""
        if x.shape[1] % SIDE or x.shape[2] % SIDE:
            raise ShapeError(f"FaceSSD: images are {x.shape[1]}x{x.shape[2]}; sides must be multiples of {SIDE}")
        x = ops.relu6(self.stem(x))
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in _TAPS:
                maps.append(x)
        return maps

    def answers(self) -> dict[str, np.ndarray]:
        """None: its detector has some."""
        return {}

    def names_in(self, scheme: str) -> Names:
        """Names in face-api.js' manifest."""
        names = _folded("stem", "MobilenetV1/Conv2d_0_pointwise")
        norm = {"scale": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
        for i in range(len(_BLOCKS)):
            ours, theirs = f"blocks.{i}", f"MobilenetV1/Conv2d_{i + 1}"
            names[f"{ours}.depthwise.weight"] = Source((f"{theirs}_depthwise/depthwise_weights",), _DEPTHWISE)
            names |= {f"{ours}.norm.{o}": Source((f"{theirs}_depthwise/BatchNorm/{t}",)) for o, t in norm.items()}
            names |= _folded(f"{ours}.pointwise", f"{theirs}_pointwise")
        return Names(names)


def _folded(ours: str, theirs: str) -> dict[str, Source]:
    """A convolution that holds its norm."""
    weight = Source((f"{theirs}/weights",), _CONV)
    return {f"{ours}.weight": weight, f"{ours}.bias": Source((f"{theirs}/convolution_bn_offset",))}


class _Levels(Neck):
    """The backbone's maps and four more, each a 1x1 convolution and one that halves the map."""

    def __init__(self, in_channels: Sequence[int], in_strides: Sequence[int]) -> None:
        super().__init__()
        self.extras, width = nn.LayerList(), in_channels[-1]
        for middle, out in _EXTRAS:
            self.extras.append(nn.Sequential(_conv(width, middle, 1), _relu6(), _conv(middle, out, 3, 2), _relu6()))
            width = out
        self.channels, self.strides = (*in_channels, *(out for _, out in _EXTRAS)), _STRIDES

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """maps: [N, H_s, W_s, C_s], finest first; these, and one for each further level."""
        found = list(maps)
        for extra in self.extras:
            found.append(extra(found[-1]))
        return found


class FaceSSDHead(Head):
    """A logit and a box at each prior, by 1x1 convolutions on each map.

    Parameters: `cls_outs.I`, of the logits, and `box_outs.I`; channel a * 4 + k is number k of prior a's code.

    Args:
        in_channels: of the maps.
        strides: of the maps.
        loss: what is minimised.
        postprocess: how detections are chosen.
    """

    num_classes = 1

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        loss: SSDLoss | None = None,
        postprocess: PostProcess | None = None,
    ) -> None:
        super().__init__()
        self.anchors = _priors()
        self.loss, self.postprocess = loss or SSDLoss(), postprocess or _POSTPROCESS
        pairs = list(zip(in_channels, self.anchors.per_cell, strict=True))
        self.cls_outs = nn.LayerList(nn.Conv2d(c, each, 1) for c, each in pairs)
        self.box_outs = nn.LayerList(nn.Conv2d(c, each * 4, 1) for c, each in pairs)

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Maps [N, H_s, W_s, C_s]; logits [N, P, 1] and codes of boxes [N, P, 4]."""
        logits = [ops.reshape(out(x), shape=(0, -1, 1)) for out, x in zip(self.cls_outs, maps, strict=True)]
        codes = [ops.reshape(out(x), shape=(0, -1, 4)) for out, x in zip(self.box_outs, maps, strict=True)]
        return ops.concat(logits, axis=1), ops.concat(codes, axis=1)

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> dict[str, Loss]:
        """`loss_cls` and `loss_box` as SSD has them, by the number of positive priors."""
        logits, codes = self(maps)
        both = ops.concat([logits * 0.0, logits], axis=2)  # the sigmoid of one is the softmax of it and 0
        return self.loss(both, codes, ops.concat(self.anchors.grids(maps), axis=0), targets, CODE)

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input, cut to the images' `sizes` (int64 [N, 2]).

        Boxes are cut after the best were chosen, as face-api.js does.
        """
        logits, codes = self(maps)
        boxes = ops.box_decode(codes, ops.concat(self.anchors.grids(maps), axis=0), weights=CODE)
        found = self.postprocess(boxes, ops.sigmoid(logits))
        return replace(found, boxes=ops.clip_boxes(found.boxes, sizes))

    def names(self) -> Names:
        """Names in face-api.js' manifest: logits of background, face and a class that nothing reads; y before x."""
        names: dict[str, Source] = {}
        for i, each in enumerate(self.anchors.per_cell):
            theirs = f"Prediction/BoxPredictor_{i}"
            swapped = tuple(4 * a + k for a in range(each) for k in (1, 0, 3, 2))
            for leaf, word, axes in (("weight", "weights", _CONV), ("bias", "biases", None)):
                logits = Source((f"{theirs}/ClassPredictor/{word}",), axes, picked=(1, _BACKGROUND_FACE_OTHER))
                names[f"cls_outs.{i}.{leaf}"] = logits
                codes = Source((f"{theirs}/BoxEncodingPredictor/{word}",), axes, rows=swapped)
                names[f"box_outs.{i}.{leaf}"] = codes
        return Names(names)


def _priors() -> AnchorGrid:
    """Three boxes a cell of the finest map, the first of half its size, and six of each other map."""
    levels = []
    for i, (size, stride) in enumerate(zip(_SIZES, _STRIDES, strict=False)):
        shapes = [(size, 1.0), (math.sqrt(size * _SIZES[i + 1]), 1.0), *((size, ratio) for ratio in _RATIOS)]
        if i == 0:
            shapes = [(size / 2, 1.0), *((size, ratio) for ratio in _RATIOS[:2])]
        halves = [(SIDE * s * math.sqrt(r) / 2, SIDE * s / math.sqrt(r) / 2) for s, r in shapes]
        levels.append(AnchorLevel(tuple((-w, -h, w, h) for w, h in halves), stride, 0.5))
    return AnchorGrid(tuple(levels))


@register("detector")
class FaceSSD(OneStageDetector):
    """SSD on MobileNetV1 for faces of all sizes: 512 x 512 pixels, 5,118 priors, 5.5 million parameters.

    Its norms keep their statistics in training.

    Args:
        loss: what is minimised.
        postprocess: how detections are chosen; by default 100 at most, and an overlap over 0.5 with a better one
            removes. face-api.js then takes those over 0.5, as `min_score` of its config does.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = (SCHEME,)
    answer_side: ClassVar[int | None] = SIDE

    def __init__(
        self, loss: SSDLoss | None = None, postprocess: PostProcess | None = None, pretrained: str | None = None
    ) -> None:
        head: Factory[Head] = Factory.of(FaceSSDHead, loss=loss, postprocess=postprocess)
        super().__init__(FaceMobileNet(), head, Factory.of(_Levels), pretrained)
        self.size_multiple = SIDE

    def names_in(self, scheme: str) -> Names:
        """Names in face-api.js' `ssd_mobilenetv1_model-weights_manifest.json`; what its graph computed by is unused."""
        assert isinstance(self.head, FaceSSDHead)
        extras: dict[str, Source] = {}
        for i in range(2 * len(_EXTRAS)):
            extras |= _folded(f"neck.extras.{i // 2}.{i % 2 * 2}", f"Prediction/Conv2d_{i}_pointwise")
        constants = (r"^(Pre|Post)processor/", r"^Prediction/BoxPredictor_\d/(stack|strided)", r"^concat", r"^Output/")
        return (
            self.backbone.names_in(scheme).below("backbone.")
            | Names(extras, constants)
            | self.head.names().below("head.")
        )
