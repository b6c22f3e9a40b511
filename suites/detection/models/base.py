"""What every detector is, and the parts that detectors of one stage or two are made of.

Letters: N batch, H W image size, D detections an image, C_s channels at stride s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register, register_role
from suites.vision.pose import Pose


@dataclass(frozen=True)
class MaskTargets:
    """Shapes of the objects of a batch, as runs of pixels inside and outside; see `ops.crop_masks`.

    Attributes:
        runs: int32 [T], COCO's run lengths of all objects one after the other; the last may be followed by zeros.
        offsets: int64 [N * M + 1]; object m of image n has runs offsets[n * M + m] to offsets[n * M + m + 1].
    """

    runs: Tensor
    offsets: Tensor


@dataclass(frozen=True)
class Targets:
    """Ground truth of a batch, padded to M boxes an image with boxes of no area.

    Attributes:
        boxes: float32 [N, M, 4], [x1, y1, x2, y2] in pixels of the network's input.
        classes: int64 [N, M].
        scores: float32 [N, M], weight of each box; 1, less after mixup, 0 where `ignored` and in padding.
        sizes: int64 [N, 2], the true (H, W) of each image, which may be padded; None where all fill the input.
        ignored: bool [N, M], crowd regions: nothing is learnt from them, nor punished in them; None if there are none.
        masks: the objects' shapes, for networks that need them.
        landmarks: float32 [N, M, L, 3], (x, y, visible) in pixels, where they are learnt; those of visible 0 are not.
    """

    boxes: Tensor
    classes: Tensor
    scores: Tensor
    sizes: Tensor | None = None
    ignored: Tensor | None = None
    masks: MaskTargets | None = None
    landmarks: Tensor | None = None


@dataclass(frozen=True)
class Detections:
    """What a detector finds, best first, padded to D an image.

    Attributes:
        boxes: float32 [N, D, 4], [x1, y1, x2, y2] in pixels of the network's input.
        scores: float32 [N, D].
        classes: int64 [N, D].
        counts: int32 [N], how many of an image's D rows are detections.
        masks: float32 [N, D, S, S], how likely each cell of a grid over the box belongs to the object; or None.
        landmarks: float32 [N, D, L, 2], (x, y) in pixels of the network's input; or None.
        seen: float32 [N, D, L], how sure each of the landmarks is to be seen, 0 to 1; or None.
        heatmaps: float32 [N, D, S, S, L], how likely each cell of a grid over the box holds each point; or None.
    """

    boxes: Tensor
    scores: Tensor
    classes: Tensor
    counts: Tensor
    masks: Tensor | None = None
    landmarks: Tensor | None = None
    heatmaps: Tensor | None = None
    seen: Tensor | None = None

    @classmethod
    def of_rows(cls, rows: Tensor, counts: Tensor) -> Detections:
        """From `ops.multiclass_nms`: rows [N, D, 6] (class, score, x1, y1, x2, y2), and their number [N]."""
        classes, scores, boxes = ops.split(rows, axis=2, sizes=(1, 1, 4))
        classes = ops.cast(ops.squeeze(classes, axis=2), dtype="int64")
        return cls(boxes, ops.squeeze(scores, axis=2), classes, counts)

    def by_name(self) -> dict[str, Tensor]:
        """The tensors by name: outputs of an exported model."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in named.items() if value is not None}


class Neck(nn.Layer):
    """Backbone maps [N, H_s, W_s, C_s] to maps, finest first.

    Attributes:
        channels: of each map given out.
        strides: of each map given out.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]


class NoNeck(Neck):
    """The backbone's maps as they are.

    Args:
        in_channels: of each map, finest first.
        in_strides: of each map.
    """

    def __init__(self, in_channels: Sequence[int], in_strides: Sequence[int]) -> None:
        super().__init__()
        self.channels, self.strides = tuple(in_channels), tuple(in_strides)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """maps: [N, H_s, W_s, C_s], finest first; the same."""
        return list(maps)


class Head(nn.Layer):
    """Neck maps to raw predictions, to losses, and to detections."""

    def losses(self, maps: Sequence[Tensor], targets: Targets) -> Mapping[str, Tensor | Loss]:
        """Loss terms by name, each a scalar, a mean over images, or a Loss where it is a mean over something else."""
        raise NotImplementedError(f"{type(self).__name__} defines no losses()")

    def detect(self, maps: Sequence[Tensor], sizes: Tensor) -> Detections:
        """What it finds, in pixels of the input; `sizes` int64 [N, 2], the true (H, W) of each image."""
        raise NotImplementedError(f"{type(self).__name__} defines no detect()")


class Detector(nn.Layer):
    """A whole detector: what the detection task trains.

    Attributes:
        size_multiple: image sides must be multiples of it, so that the levels fit onto each other.
        takes_padding: whether images of different size may stand in one batch, padded at the right and below.
        needs_masks: whether it learns from the objects' shapes.
        landmarks: L, how many points of each object it learns and finds.
        pose: what these points are, where they have names.
    """

    size_multiple: int = 1
    takes_padding: bool = False
    needs_masks: bool = False
    landmarks: int = 0
    pose: Pose | None = None

    def losses(self, images: Tensor, targets: Targets) -> Mapping[str, Tensor | Loss]:
        """Loss terms by name for images [N, H, W, 3]; see `Head.losses`."""
        raise NotImplementedError(f"{type(self).__name__} defines no losses()")

    def detect(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
        """What it finds on images [N, H, W, 3], in their pixels.

        Args:
            images: the batch.
            sizes: int64 [N, 2], the true (H, W) of each image where it is padded; given where `takes_padding`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no detect()")


Suppression = Literal["hard", "soft_linear", "soft_gaussian", "matrix_linear", "matrix_gaussian"]


@dataclass(frozen=True)
class PostProcess:
    """From scored boxes to detections.

    Args:
        score_threshold: lowest score (object times class) that counts.
        nms_top_k: boxes of each class that enter non-maximum suppression.
        iou_threshold: overlap with a better box of the class that removes a box.
        keep_top_k: detections an image at most.
        method: "hard" removes; the others lower the score, see `ops.multiclass_nms`.
        sigma: of the Gaussian methods.
        post_threshold: lowest lowered score that counts.
    """

    score_threshold: float = 0.01
    nms_top_k: int = 1000
    iou_threshold: float = 0.45
    keep_top_k: int = 100
    method: Suppression = "hard"
    sigma: float = 0.5
    post_threshold: float = 0.0

    def __call__(self, boxes: Tensor, scores: Tensor) -> Detections:
        """The best of boxes [N, M, 4] with scores [N, M, K], by class."""
        return self.indexed(boxes, scores)[0]

    def indexed(self, boxes: Tensor, scores: Tensor) -> tuple[Detections, Tensor]:
        """The detections, and which of the M boxes each is: int64 [N, D], -1 in rows that are none."""
        rows, counts, index = ops.multiclass_nms(
            boxes,
            scores,
            score_threshold=self.score_threshold,
            nms_top_k=self.nms_top_k,
            iou_threshold=self.iou_threshold,
            keep_top_k=self.keep_top_k,
            method=self.method,
            sigma=self.sigma,
            post_threshold=self.post_threshold,
        )
        return Detections.of_rows(rows, counts), index


register_role("detector", Detector, doc="A whole detection network.")
register_role("neck", Neck, supplied=("in_channels", "in_strides"), doc="Feature maps to feature maps.")
register_role("head", Head, supplied=("in_channels", "strides"), doc="Feature maps to predictions and losses.")
register("neck")(NoNeck)
