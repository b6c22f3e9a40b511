"""The sections of a retrieval config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from suites.engine.config import OfRole
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register
from suites.retrieval.losses import MetricLoss
from suites.retrieval.models.embedding import Embedder
from suites.retrieval.settings import Data


@register("config", "retrieval")
@dataclass(kw_only=True)
class RetrievalConfig(RunConfig):
    """A run of metric learning.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        loss: what is minimised.
    """

    model: Annotated[Embedder, OfRole("embedder")]
    data: Data
    loss: Annotated[MetricLoss, OfRole("loss")]
