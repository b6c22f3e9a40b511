"""The sections of a config of anomalies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.anomaly.fitting import Threshold
from suites.anomaly.models.base import AnomalyModel
from suites.engine.config import OfRole
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register
from suites.vision.settings import Data


@register("config", "anomaly")
@dataclass(kw_only=True)
class AnomalyConfig(RunConfig):
    """A run that fits a model of good pictures.

    Args:
        model: the model.
        data: good pictures, and what is evaluated on.
        threshold: above which score a picture is a defect.
    """

    model: Annotated[AnomalyModel, OfRole("anomaly_model")]
    data: Data
    threshold: Threshold = field(default_factory=Threshold)
