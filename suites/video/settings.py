"""The sections of a video classification config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import OfRole
from suites.engine.config.class_rules import add_rules
from suites.engine.config.sections import DistilledConfig
from suites.engine.registry import register
from suites.video.models.base import VideoClassifier
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.settings import Data


@register("config", "video")
@dataclass(kw_only=True)
class VideoConfig(DistilledConfig):
    """A video classification run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        loss: what is minimised.
    """

    model: Annotated[VideoClassifier, OfRole("video_classifier")]
    data: Data
    loss: CrossEntropy = field(default_factory=CrossEntropy)


add_rules("video")
