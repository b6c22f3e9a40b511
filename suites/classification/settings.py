"""The sections of an image classification config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from framework.optim import Optimizer, Schedule
from suites.classification.models.classifier import Classifier
from suites.engine.config import Factory, OfRole
from suites.engine.registry import register
from suites.engine.settings import Runtime
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.recognition.settings import Data
from suites.vision.rules import add_rules


@register("config", "classification")
@dataclass
class ClassificationConfig:
    """An image classification run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        optimizer: how weights are updated.
        schedule: the learning rate.
        runtime: how long and how the run trains.
        loss: what is minimised.
    """

    model: Annotated[Classifier, OfRole("classifier")]
    data: Data
    optimizer: Annotated[Factory[Optimizer], OfRole("optimizer")]
    schedule: Annotated[Factory[Schedule], OfRole("schedule")]
    runtime: Runtime
    loss: CrossEntropy = field(default_factory=CrossEntropy)


add_rules("classification")
