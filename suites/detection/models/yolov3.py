"""YOLOv3: backbone, top-down neck and anchor-based head (Redmon and Farhadi 2018, arXiv:1804.02767).

Letters: N batch, H W a level's grid, A anchors a cell, K classes, C_s channels at stride s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.grid import COCO_ANCHORS, decode_boxes, make_grid, points_of, split_anchors
from suites.detection.losses import YOLOv3Loss
from suites.detection.losses.landmarks import PointsLoss
from suites.detection.losses.yolov3 import OutputForm
from suites.detection.matching import rows_of
from suites.detection.models import openmmlab_names, paddledetection_names
from suites.detection.models.base import Detections, Head, Neck, NoNeck, PostProcess, Targets
from suites.detection.models.one_stage import OneStageDetector
from suites.engine.config import Factory, Part, Problem
from suites.engine.registry import register
from suites.engine.weights import ClassRows, Names
from suites.vision.augmentation.pipeline import image_sizes
from suites.vision.backbones import Backbone, DarknetCfg
from suites.vision.backbones.darknet_cfg import output_strides
from suites.vision.backbones.naming import conv, darknet_units
from suites.vision.pose import Pose


class DarknetNeck(Neck):
    """A neck of darknet's."""

    def units(self, level: int) -> list[str]:
        """Its convolutions that darknet computes for a level, from the coarsest, number 0, in order."""
        raise NotImplementedError(f"{type(self).__name__} defines no units()")


@register("neck")
class YOLOv3Neck(DarknetNeck):
    """From the coarsest level up: five convolutions give a route; half of it, doubled in size, joins the next level.

    Args:
        in_channels: of each backbone map, finest first.
        in_strides: of each backbone map; the routes have the same.
        width: channels of the coarsest route; each finer one has half.
    """

    def __init__(self, in_channels: Sequence[int], in_strides: Sequence[int], width: int = 512) -> None:
        super().__init__()
        self.strides = tuple(in_strides)
        if width < 1 << len(in_channels):
            raise AttributeValueError(f"YOLOv3Neck: width is {width}, too little for {len(in_channels)} levels")
        self.sets, self.laterals = nn.LayerList(), nn.LayerList()
        extra = 0
        for i, channels in enumerate(reversed(in_channels)):
            w = width >> i
            self.sets.append(_conv_set(channels + extra, w))
            if i + 1 < len(in_channels):
                self.laterals.append(nn.ConvBNAct(w, w // 2, 1, act="leaky_relu"))
                extra = w // 2
        self.up = nn.Upsample(2)
        self.channels = tuple(width >> i for i in reversed(range(len(in_channels))))

    def units(self, level: int) -> list[str]:
        """The lateral convolution to the level, then its five."""
        return [*([f"laterals.{level - 1}"] if level else []), *(f"sets.{level}.{i}" for i in range(5))]

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Maps [N, H_s, W_s, C_s], finest first; routes of the same strides."""
        routes: list[Tensor] = []
        for i, x in enumerate(reversed(maps)):
            if routes:
                x = ops.concat([self.up(self.laterals[i - 1](routes[-1])), x], axis=3)
            routes.append(self.sets[i](x))
        return routes[::-1]


@register("neck")
class TinyYOLOv3Neck(DarknetNeck):
    """The neck of yolov3-tiny.cfg: a 1x1 convolution gives the coarse route; half of it, doubled in size, joins the
    finer map, which has no convolutions of its own.

    Args:
        in_channels: of the two backbone maps, the finer first.
        in_strides: of the two backbone maps; the routes have the same.
        width: channels of the coarse route.
    """

    def __init__(self, in_channels: Sequence[int], in_strides: Sequence[int], width: int = 256) -> None:
        super().__init__()
        if len(in_channels) != 2 or width < 2:
            raise AttributeValueError(
                f"TinyYOLOv3Neck: {len(in_channels)} backbone maps, width {width}; it takes two maps and a width from 2"
            )
        self.strides = tuple(in_strides)
        self.route = nn.ConvBNAct(in_channels[1], width, 1, act="leaky_relu")
        self.lateral = nn.ConvBNAct(width, width // 2, 1, act="leaky_relu")
        self.up = nn.Upsample(2)
        self.channels = (width // 2 + in_channels[0], width)

    def units(self, level: int) -> list[str]:
        """The route, then the lateral convolution."""
        return ["lateral" if level else "route"]

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Two maps [N, H_s, W_s, C_s], the finer first; routes of the same strides."""
        route = self.route(maps[1])
        return [ops.concat([self.up(self.lateral(route)), maps[0]], axis=3), route]


def _conv_set(in_channels: int, width: int) -> nn.Sequential:
    plan = [(in_channels, width, 1), (width, 2 * width, 3), (2 * width, width, 1), (width, 2 * width, 3)]
    plan.append((2 * width, width, 1))
    return nn.Sequential(*[nn.ConvBNAct(a, b, kernel, act="leaky_relu") for a, b, kernel in plan])


@dataclass(frozen=True)
class _ObjectBias:
    """Zeros, but log(prior / (1 - prior)) for the object output of each of `anchors` anchors."""

    anchors: int
    prior: float

    def __call__(self, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
        bias = np.zeros((self.anchors, shape[0] // self.anchors), np.float32)
        bias[:, 4] = np.log(self.prior / (1 - self.prior))
        return bias.reshape(-1)


@register("head", needs={"points": "pose"})
class YOLOv3Head(Head):
    """A 3x3 convolution and a 1x1 one for each level; A anchors a cell, 5 + K numbers each, 6 + K with `iou_aware`.

    Args:
        in_channels: of each map, finest first.
        strides: of each map.
        num_classes: K.
        anchors: (width, height) in pixels of the network's input, from small to large; dealt out evenly to the levels.
        loss: what is minimised.
        postprocess: how detections are chosen.
        prior: score of "object" that an untrained head gives; small, as most cells are empty (Lin et al. 2017, 4.1).
        tip_channels: of each level's 3x3 convolution; by default twice the map's; [] for none, where the neck has it.
        scale_xy: factor on a centre's place in its cell, 1.05 for PP-YOLO ("grid sensitive"), one a level for YOLOv4; 1
            for YOLOv3.
        iou_aware: share f of the overlap that is predicted too in the score, object^(1 - f) * overlap^f (Wu et al.
            2019, arXiv:1912.05992; PP-YOLO has 0.4). None predicts none.
        pose: points of each object, which further 1x1 convolutions `mark_outs.I` find: of each anchor x and y of the L
            points, then how sure each is to be seen (YOLO-Pose, Maji et al. 2022, arXiv:2204.06806).
        points: what these cost.
    """

    new_tensors = ("mark_outs",)  # files of networks without points lack them

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        anchors: tuple[tuple[float, float], ...] = COCO_ANCHORS,
        loss: YOLOv3Loss | None = None,
        postprocess: PostProcess | None = None,
        prior: float = 0.01,
        tip_channels: tuple[int, ...] | None = None,
        scale_xy: float | tuple[float, ...] = 1.0,
        iou_aware: float | None = None,
        pose: Pose | None = None,
        points: PointsLoss | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1:
            raise AttributeValueError(f"YOLOv3Head: num_classes is {num_classes}; it must be 1 or more")
        scales = (scale_xy,) * len(strides) if isinstance(scale_xy, int | float) else tuple(scale_xy)
        if len(scales) != len(strides) or min(scales) < 1 or not 0 <= (iou_aware or 0) <= 1:
            raise AttributeValueError(
                f"YOLOv3Head: scale_xy is {scale_xy} and iou_aware {iou_aware}; scale_xy must be 1 or more, or one a "
                "level, iou_aware lie in [0, 1]"
            )
        if not 0 < prior < 1:
            raise AttributeValueError(f"YOLOv3Head: prior is {prior}; it must lie in (0, 1)")
        self.num_classes = num_classes
        self.form = OutputForm(num_classes, iou_aware is not None)
        self.iou_aware = iou_aware
        self.levels = split_anchors(anchors, strides, scales)
        self.loss = loss or YOLOv3Loss()
        self.postprocess = postprocess or PostProcess()
        tips = tuple(2 * c for c in in_channels) if tip_channels is None else tuple(tip_channels)
        if len(tips) not in (0, len(in_channels)):
            raise AttributeValueError(f"YOLOv3Head: tip_channels is {list(tips)} for {len(in_channels)} levels")
        pairs = zip(in_channels, tips, strict=False)
        self.tips = nn.LayerList(nn.ConvBNAct(c, t, 3, act="leaky_relu") for c, t in pairs)
        self.outs = nn.LayerList(
            nn.Conv2d(
                t,
                len(v.anchors) * self.form.width,
                1,
                initializer=nn.init.Normal(0.01),
                bias_initializer=_ObjectBias(len(v.anchors), prior),
            )
            for t, v in zip(tips or in_channels, self.levels, strict=True)
        )
        self.pose, self.points = pose, points or PointsLoss()
        count = 0 if pose is None else len(pose.names)
        self.mark_outs = nn.LayerList()
        if pose is not None:
            self.points.of(count)
            self.mark_outs = nn.LayerList(
                nn.Conv2d(t, len(v.anchors) * 3 * count, 1, initializer=nn.init.Normal(0.01))
                for t, v in zip(tips or in_channels, self.levels, strict=True)
            )

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Raw predictions [N, H_s, W_s, A * (5 + K)] of each level; A * (6 + K) with `iou_aware`."""
        return self._outputs(self._tipped(maps))

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> dict[str, Tensor]:
        """Loss terms by name, each a scalar."""
        maps = self._tipped(maps)
        return self.loss(self._outputs(maps), self.levels, targets, self.form, self._marks(maps), self.points)

    def _tipped(self, maps: Sequence[Tensor]) -> Sequence[Tensor]:
        """What the 1x1 convolutions read."""
        return [tip(x) for tip, x in zip(self.tips, maps, strict=True)] if len(self.tips) else maps

    def _outputs(self, tipped: Sequence[Tensor]) -> list[Tensor]:
        return [out(x) for out, x in zip(self.outs, tipped, strict=True)]

    def _marks(self, tipped: Sequence[Tensor]) -> list[Tensor]:
        """Raw points [N, H_s, W_s, A * 3 L] of each level; none without a pose."""
        return [out(x) for out, x in zip(self.mark_outs, tipped, strict=True)] if self.pose is not None else []

    def scored_boxes(self, maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """All predictions: boxes [N, M, 4] in pixels of the input, scores [N, M, K]."""
        return self._scored(self._tipped(maps))

    def _scored(self, tipped: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        boxes, scores = [], []
        for output, level in zip(self._outputs(tipped), self.levels, strict=True):
            raw = ops.reshape(output, shape=(0, -1, self.form.width))
            boxes.append(decode_boxes(raw, make_grid(level, output), level))
            _, _, objectness, iou, logits = self.form.split(raw)
            scores.append(self._sureness(objectness, iou) * ops.sigmoid(logits))
        return ops.concat(boxes, axis=1), ops.concat(scores, axis=1)

    def _sureness(self, objectness: Tensor, iou: Tensor | None) -> Tensor:
        """The score of "object", with the predicted IoU where there is one."""
        if iou is None or self.iou_aware is None:
            return ops.sigmoid(objectness)
        share = self.iou_aware
        return ops.exp(ops.log_sigmoid(objectness) * (1 - share) + ops.log_sigmoid(iou) * share)

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input."""
        tipped = self._tipped(maps)
        found, index = self.postprocess.indexed(*self._scored(tipped))
        if self.pose is None:
            return found
        rows = rows_of(self._points(self._marks(tipped)), ops.maximum(index, 0))  # [N, D, 3 L]
        count = len(self.pose.names)
        points, seen = ops.split(rows, axis=2, sizes=(2 * count, count))
        return replace(found, landmarks=ops.reshape(points, shape=(0, 0, count, 2)), seen=seen)

    def _points(self, marks: Sequence[Tensor]) -> Tensor:
        """Of all predictions x and y of the points in pixels of the input, and how sure each is seen: [N, P, 3 L]."""
        assert self.pose is not None
        parts, count = [], len(self.pose.names)
        for output, level in zip(marks, self.levels, strict=True):
            grid = make_grid(level, output)
            codes, logits = ops.split(ops.reshape(output, shape=(0, -1, 3 * count)), axis=2, sizes=(2 * count, count))
            cell = ops.stack([grid.x, grid.y], axis=1)  # [P, 2]
            points = points_of(ops.reshape(codes, shape=(0, -1, count, 2)), cell, grid.anchors, level)
            parts.append(ops.concat([ops.flatten(points, start=2, end=3), ops.sigmoid(logits)], axis=2))
        return ops.concat(parts, axis=1)


@register("detector")
class YOLOv3(OneStageDetector):
    """YOLOv3. Image sides must be multiples of the largest stride.

    Args:
        backbone: image to feature maps.
        head: predictions and losses.
        neck: what lies between.
        pretrained: name or file of published weights, such as yolov3_tiny_coco; see docs/howto/pretrained.md.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^head\.outs\.",)

    def __init__(
        self,
        backbone: Backbone,
        head: Factory[Head],
        neck: Factory[Neck] | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__(backbone, head, neck or Factory.of(YOLOv3Neck), pretrained)
        self.size_multiple = max(self.neck.strides)
        self.pose = self.head.pose if isinstance(self.head, YOLOv3Head) else None
        self.landmarks = 0 if self.pose is None else len(self.pose.names)

    def class_rows(self) -> dict[str, ClassRows]:
        """Of each level A times (tx, ty, tw, th, object, classes), with the overlap where it is predicted."""
        head = self.head
        if not isinstance(head, YOLOv3Head):
            return {}
        before = head.form.width - head.num_classes
        return {rf"^head\.outs\.{i}\.": ClassRows(len(v.anchors), before) for i, v in enumerate(head.levels)}

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names its tensors have: darknet's with one of its necks, others' with the larger one."""
        if not isinstance(self.head, YOLOv3Head) or self.head.form.iou_aware:
            return ()
        if isinstance(self.backbone, DarknetCfg):
            return ("darknet",) if isinstance(self.neck, NoNeck) and not len(self.head.tips) else ()
        others = openmmlab_names.SCHEME, paddledetection_names.SCHEME
        necks: dict[str, type[Neck]] = {"darknet": DarknetNeck, **dict.fromkeys(others, YOLOv3Neck)}
        return tuple(s for s, kind in necks.items() if isinstance(self.neck, kind) and s in self.backbone.schemes)

    def names_in(self, scheme: str) -> Names:
        """Numbers of the convolutions in a darknet cfg: the backbone's, then level by level, the coarsest first.
        Or MMDetection's or PaddleDetection's names."""
        for theirs in (openmmlab_names, paddledetection_names):
            if scheme == theirs.SCHEME:
                return theirs.yolov3(self.backbone, len(self.neck.channels))
        names = self.backbone.names_in(scheme).below("backbone.").sources
        if isinstance(self.backbone, DarknetCfg):
            found = dict(names)
            for i, number in enumerate(self.backbone.out_numbers):
                found |= conv(f"head.outs.{i}", str(number), bias=True)
            return Names(found)
        assert isinstance(self.neck, DarknetNeck)  # so `schemes` says
        found = dict(names)
        at = len({name.partition(".")[0] for s in names.values() for name in s.names})
        levels = len(self.neck.channels)
        for i in range(levels):
            units = [f"neck.{unit}" for unit in self.neck.units(i)] + [f"head.tips.{levels - 1 - i}"]
            found |= darknet_units(units, at)
            at += len(units)
            found |= conv(f"head.outs.{levels - 1 - i}", str(at), bias=True)
            at += 1
        return Names(found)

    @classmethod
    def config_rules(cls, part: Part) -> Iterator[Problem]:
        """Anchors divide evenly into the levels; image sides are multiples of the largest stride."""
        anchors, cfg = part["head.anchors"], part.get("backbone.cfg")
        strides = part["backbone.out_strides"] if cfg is None else output_strides(cfg)
        if len(anchors) % len(strides):
            text = f"{len(anchors)} anchors do not divide into {len(strides)} levels (strides {list(strides)})"
            yield part.problem("head.anchors", text)
        for path, size in image_sizes(part.config):
            for side in size:
                if side % max(strides):
                    text = f"{side} is no multiple of {max(strides)}, the network's largest stride"
                    yield part.config.problem(path, text)
