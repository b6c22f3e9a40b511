"""RetinaNet: a pyramid and two heads shared by its levels (Lin et al. 2017, arXiv:1708.02002).

Letters: N batch, H W a level's grid, A anchors a cell, P_l = H * W * A anchors of a level, K classes, T candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.anchor_boxes import RATIOS, retinanet_anchors
from suites.detection.losses.anchored import RetinaNetLoss
from suites.detection.matching import rows_of
from suites.detection.models import detectron2_names, openmmlab_names, paddledetection_names
from suites.detection.models.base import Detections, Head, Neck, PostProcess, Suppression, Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.one_stage import OneStageDetector
from suites.detection.models.torchvision_names import OLD, SCHEMES, backbone_names, convs, known
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.engine.weights import Names
from suites.vision.backbones import Backbone

_NEVER = -1e4  # a logit whose score is 0


@dataclass(frozen=True)
class LevelPostProcess:
    """From the logits and codes of every level to detections.

    Args:
        score_threshold: lowest score that counts.
        level_top_k: pairs of anchor and class of each level that enter non-maximum suppression.
        iou_threshold: overlap with a better box of the class that removes a box.
        keep_top_k: detections an image at most.
        method, sigma, post_threshold: see `PostProcess`.
    """

    score_threshold: float = 0.05
    level_top_k: int = 1000
    iou_threshold: float = 0.5
    keep_top_k: int = 100
    method: Suppression = "hard"
    sigma: float = 0.5
    post_threshold: float = 0.0

    def __call__(
        self,
        logits: Sequence[Tensor],
        deltas: Sequence[Tensor],
        anchors: Sequence[Tensor],
        sizes: Tensor,
        classes: int,
    ) -> Detections:
        """The best of all levels: logits [N, P_l, K], deltas [N, P_l, 4], anchors [P_l, 4]; sizes int64 [N, 2]."""
        chosen = [self._best(*level, classes) for level in zip(logits, deltas, anchors, strict=True)]
        boxes, scores = (ops.concat([level[i] for level in chosen], axis=1) for i in range(2))
        suppress = PostProcess(
            self.score_threshold,
            self.level_top_k * len(chosen),
            self.iou_threshold,
            self.keep_top_k,
            self.method,
            self.sigma,
            self.post_threshold,
        )
        return suppress(ops.clip_boxes(boxes, sizes), scores)

    def _best(self, logits: Tensor, deltas: Tensor, anchors: Tensor, classes: int) -> tuple[Tensor, Tensor]:
        """The T best pairs of a level: boxes [N, T, 4]; scores [N, T, K], 0 but for the pair's class."""
        count = self.level_top_k
        # float32, as a half would round the filler; padded, as a level may have fewer than T pairs
        flat = ops.cast(ops.flatten(logits, start=1, end=2), "float32")  # [N, P_l * K]
        best, place = ops.topk(ops.pad(flat, pads=(0, 0, 0, count), value=_NEVER), k=count, axis=1)
        real = best > _NEVER
        place = ops.where(real, place, ops.full_like(place, value=0))
        owner = ops.floor_div(place, classes)
        kind = ops.one_hot(place - owner * classes, depth=classes, dtype="float32")
        score = ops.where(real, ops.sigmoid(best), ops.full_like(best, value=0.0))
        boxes = ops.box_decode(rows_of(deltas, owner), ops.gather(anchors, owner))
        return boxes, kind * ops.expand_dims(score, axis=2)


@register("head")
class RetinaNetHead(Head):
    """Two towers of 3x3 convolutions with ReLU, shared by all levels: one for classes, one for boxes.

    Parameters: `cls_convs.I`, `cls_out`, `box_convs.I`, `box_out`; channel a * K + k of `cls_out` is class k of cell
    box a. All weights start from a normal draw of deviation 0.01.

    Args:
        in_channels: of each map; all the same.
        strides: of each map.
        num_classes: K.
        convs: convolutions of a tower.
        scale: side of a level's smallest square anchor, in strides.
        octaves: anchor sizes a level.
        ratios: height / width of anchors.
        rounded_anchors: whole pixels, as torchvision's weights expect.
        prior: score that an untrained head gives every class.
        loss: what is minimised.
        postprocess: how detections are chosen.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        strides: Sequence[int],
        num_classes: int,
        convs: int = 4,
        scale: float = 4.0,
        octaves: int = 3,
        ratios: tuple[float, ...] = RATIOS,
        rounded_anchors: bool = False,
        prior: float = 0.01,
        loss: RetinaNetLoss | None = None,
        postprocess: LevelPostProcess | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1 or not 0 < prior < 1 or convs < 0:
            raise AttributeValueError(
                f"RetinaNetHead: num_classes is {num_classes}, prior {prior}, convs {convs}; num_classes must be 1 or "
                "more, prior lie in (0, 1), convs be 0 or more"
            )
        if len(set(in_channels)) > 1:
            raise AttributeValueError(
                f"RetinaNetHead: the maps have {list(in_channels)} channels; all levels share its convolutions, "
                "so these must be equal (put an FPN before it)"
            )
        self.num_classes = num_classes
        self.octaves, self.ratios = octaves, len(ratios)
        self.anchors = retinanet_anchors(strides, scale, octaves, ratios, rounded_anchors)
        self.loss = loss or RetinaNetLoss()
        self.postprocess = postprocess or LevelPostProcess()
        width, each = in_channels[0], self.anchors.per_cell[0]
        self.cls_convs = nn.LayerList(_conv(width, width) for _ in range(convs))
        self.box_convs = nn.LayerList(_conv(width, width) for _ in range(convs))
        self.cls_out = _conv(width, each * num_classes, -math.log((1 - prior) / prior))
        self.box_out = _conv(width, each * 4)

    def forward(self, maps: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Maps [N, H, W, C]; of each level logits [N, P_l, K] and codes of boxes [N, P_l, 4]."""
        logits, deltas = [], []
        for x in maps:
            cls_tower, box_tower = x, x
            for cls_conv, box_conv in zip(self.cls_convs, self.box_convs, strict=True):
                cls_tower, box_tower = ops.relu(cls_conv(cls_tower)), ops.relu(box_conv(box_tower))
            logits.append(ops.reshape(self.cls_out(cls_tower), shape=(0, -1, self.num_classes)))
            deltas.append(ops.reshape(self.box_out(box_tower), shape=(0, -1, 4)))
        return logits, deltas

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> dict[str, Loss]:
        """`loss_cls` and `loss_box`, means over positive anchors."""
        logits, deltas = self(maps)
        return self.loss(logits, deltas, self.anchors.grids(maps), targets)

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input, cut to the images' `sizes` (int64 [N, 2])."""
        logits, deltas = self(maps)
        return self.postprocess(logits, deltas, self.anchors.grids(maps), sizes, self.num_classes)


@register("detector")
class RetinaNet(OneStageDetector):
    """RetinaNet. Images may have any size, and different ones in a batch.

    Args:
        backbone: image to maps of strides 8, 16 and 32.
        head: predictions and losses.
        neck: what lies between; FPN with RetinaNet's P6 and P7 from P5.
        pretrained: name or file of published weights of the whole detector; see docs/howto/pretrained.md. Those of
            torchvision want `head.rounded_anchors`.
    """

    takes_padding = True
    class_tensors: ClassVar[tuple[str, ...]] = (r"^head\.cls_out\.",)

    def __init__(
        self,
        backbone: Backbone,
        head: Factory[Head],
        neck: Factory[Neck] | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__(backbone, head, neck or Factory.of(FPN, extra="conv_p5"), pretrained)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names its tensors have."""
        if not isinstance(self.head, RetinaNetHead) or not isinstance(self.neck, FPN):
            return ()
        others = detectron2_names.SCHEME, openmmlab_names.SCHEME, paddledetection_names.SCHEME
        return known(self.backbone, *SCHEMES, *others)

    def names_in(self, scheme: str) -> Names:
        """Names of Detectron2, MMDetection, PaddleDetection, or of torchvision's `retinanet_resnet50_fpn`, whose
        classes are COCO's 91 ids."""
        assert isinstance(self.head, RetinaNetHead)
        if scheme == openmmlab_names.SCHEME:
            found = openmmlab_names.backbone_names(self.backbone, self.neck)
            return found | openmmlab_names.retinanet_head(len(self.head.cls_convs))
        for theirs in (detectron2_names, paddledetection_names):
            if scheme == theirs.SCHEME:
                head = self.head
                shape = len(head.cls_convs), head.octaves, head.ratios, head.num_classes
                return theirs.backbone_names(self.backbone, self.neck) | theirs.retinanet_head(*shape)
        towers = {}
        for tower, branch in (("cls_convs", "classification_head"), ("box_convs", "regression_head")):
            for i in range(len(getattr(self.head, tower))):
                at = str(2 * i) if scheme == OLD else f"{i}.0"
                towers[f"head.{tower}.{i}"] = f"head.{branch}.conv.{at}"
        towers |= {
            "head.cls_out": "head.classification_head.cls_logits",
            "head.box_out": "head.regression_head.bbox_reg",
        }
        return backbone_names(self.backbone, self.neck, scheme) | Names(convs(towers))


def _conv(in_channels: int, out_channels: int, bias: float = 0.0) -> nn.Conv2d:
    start, offset = nn.init.Normal(0.01), nn.init.Constant(bias)
    return nn.Conv2d(in_channels, out_channels, 3, initializer=start, bias_initializer=offset)
