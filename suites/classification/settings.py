"""The sections of an image classification config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.classification.models.classifier import Classifier
from suites.engine.config import OfRole
from suites.engine.config.class_rules import add_rules
from suites.engine.config.sections import DistilledConfig
from suites.engine.registry import register
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.settings import Data


@register("config", "classification")
@dataclass(kw_only=True)
class ClassificationConfig(DistilledConfig):
    """An image classification run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        loss: what is minimised.
    """

    model: Annotated[Classifier, OfRole("classifier")]
    data: Data
    loss: CrossEntropy = field(default_factory=CrossEntropy)


add_rules("classification")
