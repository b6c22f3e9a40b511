"""The sections of a config of keypoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import OfRole
from suites.engine.config.sections import DistilledConfig
from suites.engine.registry import register
from suites.keypoints.metrics import Figures
from suites.keypoints.models.base import PoseModel
from suites.keypoints.task import Targets
from suites.vision.settings import Data


@register("config", "keypoints")
@dataclass(kw_only=True)
class KeypointsConfig(DistilledConfig):
    """A run of a network of points.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        targets: what heatmaps are learnt, and how points are read from them.
        figures: what evaluation measures.
    """

    model: Annotated[PoseModel, OfRole("pose_model")]
    data: Data
    targets: Targets = field(default_factory=Targets)
    figures: Figures = field(default_factory=Figures)
