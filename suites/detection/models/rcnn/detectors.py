"""Faster R-CNN, Mask R-CNN and Cascade R-CNN (arXiv:1506.01497, 1703.06870, 1712.00726), with a pyramid of maps.

Letters: N batch, H W image size.
"""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models import detectron2_names, openmmlab_names, paddledetection_names
from suites.detection.models.base import Detections, Detector, Neck, Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.one_stage import full_sizes
from suites.detection.models.rcnn import names as names_of
from suites.detection.models.rcnn.box_head import BoxHead, RoIHead
from suites.detection.models.rcnn.cascade import CascadeHead
from suites.detection.models.rcnn.keypoint_head import KeypointHead
from suites.detection.models.rcnn.mask_head import MaskHead
from suites.detection.models.rcnn.proposals import RPN
from suites.detection.models.torchvision_names import SCHEMES, backbone_names, known
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.registry import register
from suites.engine.weights import Names, start_from
from suites.vision.backbones import Backbone


@register("detector")
class FasterRCNN(Detector):
    """Backbone, pyramid, region proposals, and a head that looks at each region.

    Images may have any size, and different ones in a batch.

    Args:
        backbone: image to feature maps, of strides 4, 8, 16 and 32.
        head: classes and boxes of regions.
        neck: what lies between; P2 to P6 by default.
        rpn: where objects may be.
        mask_head: shapes of objects, for a network that learns them too.
        keypoint_head: points of objects, for a network that learns them too.
        pretrained: name or file of published weights of a whole detector; see docs/howto/pretrained.md. What depends on
            the classes starts anew where their number differs.
    """

    takes_padding = True
    default_mask_head: ClassVar[Factory[MaskHead] | None] = None
    default_keypoint_head: ClassVar[Factory[KeypointHead] | None] = None
    head_kind: ClassVar[type[RoIHead]] = RoIHead
    class_tensors: ClassVar[tuple[str, ...]] = (r"\.classes\.", r"^head\..*deltas\.", r"^mask_head\.out_")

    def __init__(
        self,
        backbone: Backbone,
        head: Factory[RoIHead],
        neck: Factory[Neck] | None = None,
        rpn: Factory[RPN] | None = None,
        mask_head: Factory[MaskHead] | None = None,
        keypoint_head: Factory[KeypointHead] | None = None,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.neck = (neck or Factory.of(FPN))(in_channels=backbone.channels, in_strides=backbone.strides)
        shape = {"in_channels": self.neck.channels, "strides": self.neck.strides}
        self.rpn = (rpn or Factory.of(RPN))(**shape)
        self.head = head(**shape)
        if not isinstance(self.head, self.head_kind):
            raise AttributeValueError(
                f"{type(self).__name__}: its head is a {type(self.head).__name__}; "
                f"it takes a {self.head_kind.__name__} (FasterRCNN takes any)"
            )
        self.mask_head: MaskHead | None = None
        mask_head = mask_head or self.default_mask_head
        if mask_head is not None:
            self.mask_head = mask_head(**shape, num_classes=self.head.num_classes)
        keypoint_head = keypoint_head or self.default_keypoint_head
        self.keypoint_head: KeypointHead | None = None
        if keypoint_head is not None:
            self.keypoint_head = keypoint_head(**shape)
            self.pose = self.keypoint_head.pose
            self.landmarks = len(self.pose.names)
        self.size_multiple = max(backbone.strides)
        self.needs_masks = mask_head is not None
        self.num_classes: int | None = self.head.num_classes
        self.schemes = self._schemes()
        start_from(self, pretrained)

    def _schemes(self) -> tuple[str, ...]:
        """Who has such models: torchvision with a `BoxHead` only, all with an FPN and a backbone that they know."""
        if not isinstance(self.neck, FPN):
            return ()
        both = detectron2_names.SCHEME, paddledetection_names.SCHEME
        if isinstance(self.head, BoxHead):
            others = (*both, openmmlab_names.SCHEME) if self.keypoint_head is None else ()
            return known(self.backbone, *SCHEMES, *others)
        if self.keypoint_head is not None:
            return ()
        one = (openmmlab_names.SCHEME,) if self.mask_head is None else ()  # its cascade has a mask head a stage
        return known(self.backbone, *both, *one) if isinstance(self.head, CascadeHead) else ()

    def names_in(self, scheme: str) -> Names:
        """The names of a scheme. Anchors and RoIAlign are Detectron2's; they are torchvision's with
        `rounded_anchors: true` of the RPN and `aligned: false` of the pools."""
        if scheme == detectron2_names.SCHEME:
            return self._numbered(detectron2_names, (r"^roi_heads\.mask_head\.",))
        if scheme == openmmlab_names.SCHEME:
            return self._numbered(openmmlab_names, (r"^roi_head\.mask_head\.",))
        if scheme == paddledetection_names.SCHEME:
            return self._paddledetection()
        assert isinstance(self.head, BoxHead) and isinstance(self.neck, FPN)
        names = backbone_names(self.backbone, self.neck, scheme) | Names(names_of.rpn(scheme))
        names = names | Names(names_of.box_head(self.neck.channels[0], self.head.pool.size))
        if self.keypoint_head is not None:
            head = self.keypoint_head
            names = names | Names(names_of.keypoint_head(len(head.convs), head.pose.names))
        else:
            names = names | Names({}, (r"^roi_heads\.keypoint_",))
        if self.mask_head is not None:
            convs = self.mask_head.convs
            return names | Names(names_of.mask_head(scheme, len(convs), self.mask_head.width))
        return Names(names.sources, (*names.unused, r"^roi_heads\.mask_"))

    def _numbered(self, theirs: ModuleType, masks: tuple[str, ...]) -> Names:
        """Names of Detectron2 or MMDetection; `masks` are those of a mask head, which this model may lack."""
        assert isinstance(self.head, (BoxHead, CascadeHead))
        names: Names = theirs.backbone_names(self.backbone, self.neck) | theirs.rpn()
        shape = self.neck.channels[0], self.head.pool.size, self.head.num_classes
        if isinstance(self.head, BoxHead):
            names |= theirs.box_predictor("head.predictor", "", *shape)
        else:
            for i in range(len(self.head.predictors)):
                names |= theirs.box_predictor(f"head.predictors.{i}", f".{i}", *shape)
        if self.mask_head is not None:
            return names | theirs.mask_head(len(self.mask_head.convs), self.mask_head.width)
        return names | Names({}, masks)

    def _paddledetection(self) -> Names:
        assert isinstance(self.head, (BoxHead, CascadeHead))
        names = paddledetection_names.backbone_names(self.backbone, self.neck) | paddledetection_names.rpn()
        shape = self.neck.channels[0], self.head.pool.size, self.head.num_classes
        if isinstance(self.head, BoxHead):
            names |= paddledetection_names.box_predictor("head.predictor", None, *shape)
        else:
            for i in range(len(self.head.predictors)):
                names |= paddledetection_names.box_predictor(f"head.predictors.{i}", i, *shape)
        if self.mask_head is not None:
            return names | paddledetection_names.mask_head(len(self.mask_head.convs), self.mask_head.width)
        return names | Names({}, (r"^mask_head\.",))

    def maps(self, images: Tensor) -> list[Tensor]:
        """The pyramid's maps, finest first, of images [N, H, W, 3]."""
        return self.neck(self.backbone(images))

    def losses(self, images: Tensor, targets: Targets) -> dict[str, Loss]:
        """Loss terms by name: of proposals, of regions, of masks, of points."""
        maps = self.maps(images)
        sizes = full_sizes(images) if targets.sizes is None else targets.sizes
        terms, proposals = self.rpn.losses(maps, targets, sizes)
        of_regions, regions = self.head.losses(maps, proposals, targets, sizes)
        terms |= of_regions
        if self.mask_head is not None:
            if targets.masks is None:
                raise AttributeValueError(f"{type(self).__name__}: learns from masks, but the targets have none")
            matched = regions.first(self.head.sampler.positives)
            terms |= self.mask_head.losses(maps, matched, targets.masks, sizes)
        if self.keypoint_head is not None:
            if targets.landmarks is None:
                raise AttributeValueError(f"{type(self).__name__}: learns from keypoints, but the targets have none")
            matched = regions.first(self.head.sampler.positives)
            terms |= self.keypoint_head.losses(maps, matched, targets.landmarks)
        return terms

    def detect(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
        """What it finds on images [N, H, W, 3], in their pixels; see `Detector.detect`."""
        maps = self.maps(images)
        sizes = full_sizes(images) if sizes is None else sizes
        found = self.head.detect(maps, self.rpn.propose(maps, sizes), sizes)
        rows = self.head.postprocess.keep_top_k
        if self.mask_head is not None:
            found = self.mask_head.detect(maps, found, rows)
        return found if self.keypoint_head is None else self.keypoint_head.detect(maps, found, rows)


@register("detector")
class MaskRCNN(FasterRCNN):
    """Faster R-CNN with the shape of each object.

    Args:
        backbone: as for `FasterRCNN`.
        head: as for `FasterRCNN`.
        neck: as for `FasterRCNN`.
        rpn: as for `FasterRCNN`.
        mask_head: shapes of objects.
        keypoint_head: as for `FasterRCNN`.
        pretrained: as for `FasterRCNN`.
    """

    default_mask_head = Factory.of(MaskHead)


@register("detector")
class KeypointRCNN(FasterRCNN):
    """Faster R-CNN with named points of each object, such as the joints of a person.

    Args:
        backbone: as for `FasterRCNN`.
        head: as for `FasterRCNN`.
        neck: as for `FasterRCNN`.
        rpn: as for `FasterRCNN`.
        mask_head: as for `FasterRCNN`.
        keypoint_head: points of objects.
        pretrained: as for `FasterRCNN`.
    """

    default_keypoint_head = Factory.of(KeypointHead)


@register("detector")
class CascadeRCNN(FasterRCNN):
    """Faster R-CNN with second stages one after the other.

    Args:
        backbone: as for `FasterRCNN`.
        head: the stages; a `CascadeHead`.
        neck: as for `FasterRCNN`.
        rpn: as for `FasterRCNN`.
        mask_head: shapes of objects, if wanted ("Cascade Mask R-CNN").
        keypoint_head: as for `FasterRCNN`.
        pretrained: as for `FasterRCNN`.
    """

    head_kind = CascadeHead


__all__ = ["CascadeRCNN", "FasterRCNN", "KeypointRCNN", "MaskRCNN"]
