"""The sections of a detection config, and the rules across them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from suites.detection.metrics import Evaluator
from suites.detection.models.base import Detector
from suites.detection.views import Views
from suites.engine.config import Factory, OfRole
from suites.engine.config.class_rules import add_rules
from suites.engine.config.sections import DistilledConfig
from suites.engine.registry import register
from suites.vision.settings import Data


@register("config", "detection")
@dataclass(kw_only=True)
class DetectionConfig(DistilledConfig):
    """A detection run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        metric: the figures of an evaluation; null for COCO's.
        min_score: lowest score that is drawn and written by `paddock infer`.
        views: several looks at each image in evaluation and `paddock infer` (test-time augmentation, slices of large
            pictures); null for one.
    """

    model: Annotated[Detector, OfRole("detector")]
    data: Data
    metric: Factory[Evaluator] | None = None
    min_score: float = 0.3
    views: Views | None = None


add_rules("detection", classes="model.head.num_classes")
