"""BlazeFace as MediaPipe has it: faces with six points on phones (Bazarevsky et al. 2019, arXiv:1907.05047).

PaddleDetection's network of the same name is `SSD` on `BlazeNet`; its blocks and its code of boxes are others.

Letters: N batch, H W image size, P priors of both levels, L = 6 points a face, D detections an image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.anchor_boxes import AnchorGrid, AnchorLevel
from suites.detection.losses.anchored import SSDLoss
from suites.detection.matching import rows_of
from suites.detection.models.base import Detections, Head, NoNeck, PostProcess, Targets
from suites.detection.models.faces.full_range import FULL_RANGE, FullRangeBackbone, numbered
from suites.detection.models.one_stage import OneStageDetector
from suites.detection.models.ssd import CODE
from suites.detection.models.torchvision_names import convs, placed
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones import Backbone
from suites.vision.pose import Pose

SCHEME = "blazeface"
# Left and right are the person's.
POINTS = Pose(("right_eye", "left_eye", "nose", "mouth", "right_ear", "left_ear"), mirrored=(1, 0, 2, 3, 5, 4))
_COUNT = len(POINTS.names)
Camera = Literal["front", "back", "full_range"]


@dataclass(frozen=True)
class _FromPriors:
    """Biases with which each prior says its own square: 0 but for width and height.

    Attributes:
        cells: of one level.
    """

    cells: tuple[tuple[float, float, float, float], ...]

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        """Float32 numbers of `shape`; `rng` is not used."""
        biases = np.zeros((len(self.cells), shape[0] // len(self.cells)), np.float32)
        biases[:, 2] = biases[:, 3] = [x2 - x1 for x1, _, x2, _ in self.cells]
        return biases.reshape(-1)


@dataclass(frozen=True)
class _Camera:
    """What differs: input side, blocks (channels out, stride), and the sizes of priors as shares of the side.

    Attributes:
        sizes: of the squares at each cell, one tuple a level.
        least: the score from which on a face counts.
    """

    side: int
    blocks: tuple[tuple[int, int], ...]
    levels: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[tuple[float, ...], ...]
    least: float


def _spread(smallest: float) -> tuple[tuple[float, ...], ...]:
    """Four sizes and those between them, two at each cell of the finer map: MediaPipe's SSD anchors."""
    sizes = [smallest + (0.75 - smallest) * i / 3 for i in range(4)]
    between = [math.sqrt(a * b) for a, b in zip(sizes, [*sizes[1:], 1.0], strict=True)]
    flat = [size for pair in zip(sizes, between, strict=True) for size in pair]
    return tuple(flat[:2]), tuple(flat[2:])


_FRONT = (24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1), (72, 1), (80, 1), (88, 1)
_BACK = *[(24, 1)] * 7, (24, 2), *[(24, 1)] * 7, (48, 2), *[(48, 1)] * 7, (96, 2), *[(96, 1)] * 7
_CAMERAS = {
    "front": _Camera(128, (*_FRONT, (96, 2), *[(96, 1)] * 4), (10, 15), (8, 16), _spread(0.1484375), 0.75),
    "back": _Camera(256, (*_BACK, (96, 2)), (30, 31), (16, 32), _spread(0.15625), 0.65),
    "full_range": _Camera(192, (), (), (4,), (((0.1484375 + 0.75) / 2,),), 0.6),
}
_MAX_LOGIT = 100.0  # MediaPipe's limit


class BlazeFaceBackbone(Backbone):
    """A 5x5 convolution of stride 2, then blocks of a depthwise 3x3 and a 1x1 convolution with a residual, no norm.

    Where a block widens the map, its shortcut is padded with zeros; where it halves it, with a 2x2 maximum. The last
    block of the back camera's has none.

    Args:
        camera: "front", of 128 x 128 pixels, or "back", of 256 x 256.
    """

    schemes: tuple[str, ...] = (SCHEME,)

    def __init__(self, camera: Literal["front", "back"]) -> None:
        super().__init__()
        what = _CAMERAS[camera]
        self.camera = camera
        self.strides, self._taps = what.strides, what.levels
        width = what.blocks[0][0]
        self.stem = nn.Conv2d(3, width, 5, 2, (1, 2, 1, 2), initializer=nn.init.Kaiming())
        # Without a norm, each branch starts with its share of the variance, so that the sums do not grow.
        start = nn.init.Kaiming(slope=math.sqrt(2 * len(what.blocks) - 1))
        self.blocks = nn.LayerList()
        for i, (out, stride) in enumerate(what.blocks):
            shortcut = camera == "front" or i + 1 < len(what.blocks)
            self.blocks.append(_Block(width, out, stride, shortcut, start if shortcut else nn.init.Kaiming()))
            width = out
        self.channels = tuple(what.blocks[i][0] for i in what.levels)
        self.finish()

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3], H and W multiples of the coarser stride; two maps [N, H/s, W/s, C_s]."""
        x = ops.relu(self.stem(x))
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self._taps:
                maps.append(x)
        return maps

    def names_in(self, scheme: str) -> Names:
        """Names in the PyTorch files of github.com/hollance/BlazeFace-PyTorch."""
        if self.camera == "front":
            first = {i: f"backbone1.{i + 2}" for i in range(11)}
            places = {**first, **{i + 11: f"backbone2.{i}" for i in range(5)}}
            stem = "backbone1.0"
        else:
            places = {**{i: f"backbone.{i + 2}" for i in range(31)}, 31: "final"}
            stem = "backbone.0"
        pairs = {"stem": stem}
        for i, theirs in places.items():
            pairs |= {f"blocks.{i}.depthwise": f"{theirs}.convs.0", f"blocks.{i}.pointwise": f"{theirs}.convs.1"}
        return Names(convs(pairs))


class _Block(nn.Layer):
    """relu(1x1(depthwise 3x3(x)) + x).  x: [N, H, W, C], y: [N, H/stride, W/stride, K]."""

    def __init__(self, channels: int, out: int, stride: int, shortcut: bool, start: nn.init.Initializer) -> None:
        super().__init__()
        # What halves the map looks at the three rows from its own first one on.
        padding = (0, 1, 0, 1) if stride == 2 else 1
        self.depthwise = nn.Conv2d(channels, channels, 3, stride, padding, groups=channels)
        self.pointwise = nn.Conv2d(channels, out, 1, initializer=start)
        self.wider, self.stride, self.shortcut = out - channels, stride, shortcut

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        y = self.pointwise(self.depthwise(x))
        if not self.shortcut:
            return ops.relu(y)
        if self.stride == 2:
            x = ops.max_pool2d(x, kernel=2, stride=2)
        if self.wider:
            x = ops.pad(x, pads=(0, 0, 0, 0, 0, 0, 0, self.wider))
        return ops.relu(y + x)


class BlazeFaceHead(Head):
    """A score, a box and six points at each prior: 1x1 convolutions on each map.

    A prior predicts in pixels of the input from its cell's middle: centre, width and height of the box, and each point.
    Parameters: `cls_outs.I`, `box_outs.I`; channel a * 16 + k is number k of prior a.

    Args:
        in_channels: of the maps.
        strides: of the maps.
        camera: whose priors they are; they say which prior learns which face.
        loss: what is minimised; an overlap of 0.35 with the prior makes a positive.
        postprocess: how detections are chosen.
    """

    num_classes = 1
    landmarks = _COUNT

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        camera: Camera,
        loss: SSDLoss | None = None,
        postprocess: PostProcess | None = None,
    ) -> None:
        super().__init__()
        self.anchors = _priors(_CAMERAS[camera])
        self.loss = loss or SSDLoss(overlap=0.35)
        what = _CAMERAS[camera]
        count = sum(len(own) * (what.side // s) ** 2 for own, s in zip(what.sizes, what.strides, strict=True))
        self.postprocess = postprocess or PostProcess(what.least, count, 0.3, 100)
        pairs = [(c, len(sizes)) for c, sizes in zip(in_channels, what.sizes, strict=True)]
        self.cls_outs = nn.LayerList(nn.Conv2d(c, each, 1) for c, each in pairs)
        self.box_outs = nn.LayerList(
            nn.Conv2d(c, each * (4 + 2 * _COUNT), 1, bias_initializer=_FromPriors(level.cells))
            for (c, each), level in zip(pairs, self.anchors.levels, strict=True)
        )

    def forward(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Maps [N, H_s, W_s, C_s]; logits [N, P, 1] and codes [N, P, 4 + 2 L] in pixels."""
        logits = [ops.reshape(out(x), shape=(0, -1, 1)) for out, x in zip(self.cls_outs, maps, strict=True)]
        width = 4 + 2 * _COUNT
        codes = [ops.reshape(out(x), shape=(0, -1, width)) for out, x in zip(self.box_outs, maps, strict=True)]
        return ops.concat(logits, axis=1), ops.concat(codes, axis=1)

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> dict[str, Loss]:
        """`loss_cls`, `loss_box` and `loss_landmarks` as SSD has them, by the number of positive priors."""
        logits, codes = self(maps)
        priors = ops.concat(self.anchors.grids(maps), axis=0)  # [P, 4]
        low, high = ops.split(priors, axis=1, sizes=(2, 2))
        moved, size, points = ops.split(codes, axis=2, sizes=(2, 2, 2 * _COUNT))
        sides = high - low
        # A size below a pixel has no logarithm; below it, the tangent goes on.
        log = ops.where(size > 1.0, ops.log(ops.maximum(size, 1.0)), size - 1.0) - ops.log(sides)
        deltas = ops.concat([moved / sides * CODE[0], log * CODE[2]], axis=2)
        marks = ops.reshape(points, shape=(0, 0, -1, 2)) / ops.expand_dims(sides, axis=1) * CODE[0]
        both = ops.concat([logits * 0.0, logits], axis=2)  # the sigmoid of one is the softmax of it and 0
        return self.loss(both, deltas, priors, targets, CODE, marks)

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input, cut to the images' `sizes` (int64 [N, 2]).

        Boxes that overlap are not dropped but become one, the mean of them weighted by their scores, as the paper's
        section 5 has it.
        """
        logits, codes = self(maps)
        scores = ops.sigmoid(ops.clip(logits, min=-_MAX_LOGIT, max=_MAX_LOGIT))
        low, high = ops.split(ops.concat(self.anchors.grids(maps), axis=0), axis=1, sizes=(2, 2))
        middle = (low + high) * 0.5  # [P, 2]
        moved, size, points = ops.split(codes, axis=2, sizes=(2, 2, 2 * _COUNT))
        centres = moved + middle
        boxes = ops.concat([centres - size * 0.5, centres + size * 0.5], axis=2)
        points = ops.reshape(points, shape=(0, 0, -1, 2)) + ops.expand_dims(middle, axis=1)
        found = self._blended(boxes, ops.flatten(points, start=2, end=3), scores)
        return replace(found, boxes=ops.clip_boxes(found.boxes, sizes))

    def _blended(self, boxes: Tensor, points: Tensor, scores: Tensor) -> Detections:
        """Detections that are means of what overlaps.

        Args:
            boxes: [N, P, 4].
            points: [N, P, 2 L].
            scores: [N, P, 1].
        """
        best, index = self.postprocess.indexed(boxes, scores)
        overlap = _overlaps(best.boxes, boxes)  # [N, D, P]
        scored = ops.cast(scores > self.postprocess.score_threshold, "float32")
        near = ops.cast(overlap > self.postprocess.iou_threshold, "float32") * ops.transpose(scored, perm=(0, 2, 1))
        # Each box goes to the first, so the best, of those that it overlaps.
        first = near * ops.cast(ops.cumsum(near, axis=1) <= 1.0, "float32")
        weight = first * ops.transpose(scores, perm=(0, 2, 1))
        total = ops.sum(weight, axes=(2,), keepdims=True)
        any_near = total > 0.0  # a box of no area overlaps not even itself
        values = ops.concat([boxes, points], axis=2)
        own = rows_of(values, ops.maximum(index, 0))
        mean = ops.where(any_near, ops.matmul(weight, values) / ops.maximum(total, 1e-12), own)
        score = ops.where(any_near, total / ops.maximum(ops.sum(first, axes=(2,), keepdims=True), 1.0), own[:, :, :1])
        blended, marks = ops.split(mean, axis=2, sizes=(4, 2 * _COUNT))
        return replace(
            best,
            boxes=blended,
            scores=ops.where(any_near[:, :, 0], score[:, :, 0], best.scores),
            landmarks=ops.reshape(marks, shape=(0, 0, -1, 2)),
        )


@register("detector")
class BlazeFace(OneStageDetector):
    """MediaPipe's BlazeFace: 0.1 to 0.5 million parameters, one class, six named points a face (`POINTS`).

    Args:
        camera: "front" for faces near by (128 x 128 pixels), "back" for smaller ones (256 x 256), "full_range" for
            faces up to 5 metres away (192 x 192).
        loss: what is minimised.
        postprocess: how detections are chosen; by default at least 0.75 (front), 0.65 (back) or 0.6 (full range);
            overlaps over 0.3 are one face.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    def __init__(
        self,
        camera: Camera = "front",
        loss: SSDLoss | None = None,
        postprocess: PostProcess | None = None,
        pretrained: str | None = None,
    ) -> None:
        if camera not in _CAMERAS:
            raise AttributeValueError(f"BlazeFace: camera is '{camera}'; it must be one of {', '.join(_CAMERAS)}")
        head: Factory[Head] = Factory.of(BlazeFaceHead, camera=camera, loss=loss, postprocess=postprocess)
        backbone = FullRangeBackbone() if camera == "full_range" else BlazeFaceBackbone(camera)
        super().__init__(backbone, head, Factory.of(NoNeck), pretrained)
        self.landmarks, self.pose = _COUNT, POINTS

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names its tensors have."""
        return self.backbone.schemes

    def names_in(self, scheme: str) -> Names:
        """Names in the PyTorch files of github.com/hollance/BlazeFace-PyTorch, or in MediaPipe's of the full range."""
        if scheme == FULL_RANGE:
            backbone = placed(self.backbone.names_in(scheme), "backbone.", "")
            convolutions = sum(name.startswith("conv_2d") for s in backbone.sources.values() for name in s.names) // 2
            heads = ("head.cls_outs.0", "head.box_outs.0")
            return backbone | Names(numbered("conv_2d", heads, convolutions))
        found = {f"backbone.{ours}": source for ours, source in self.backbone.names_in(scheme).sources.items()}
        pairs: dict[str, str] = {}
        for i, level in enumerate((8, 16)):  # so in both files
            pairs |= {f"head.cls_outs.{i}": f"classifier_{level}", f"head.box_outs.{i}": f"regressor_{level}"}
        return Names({**found, **convs(pairs)})


def _priors(camera: _Camera) -> AnchorGrid:
    """Squares around the middle of each cell; their sizes say which prior learns which face, no more."""
    levels = []
    for sizes, stride in zip(camera.sizes, camera.strides, strict=True):
        halves = [camera.side * size / 2 for size in sizes]
        levels.append(AnchorLevel(tuple((-h, -h, h, h) for h in halves), stride, 0.5))
    return AnchorGrid(tuple(levels))


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """IoU [N, D, P] of boxes [N, D, 4] and [N, P, 4]; 0 where one has no area."""
    a, b = ops.expand_dims(a, axis=2), ops.expand_dims(b, axis=1)
    inner = ops.maximum(ops.minimum(a[..., 2:], b[..., 2:]) - ops.maximum(a[..., :2], b[..., :2]), 0.0)
    both = ops.prod(inner, axes=(3,))
    areas = ops.prod(a[..., 2:] - a[..., :2], axes=(3,)) + ops.prod(b[..., 2:] - b[..., :2], axes=(3,))
    return both / ops.maximum(areas - both, 1e-12)
