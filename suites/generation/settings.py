"""The sections of a config of generation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import OfRole
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register
from suites.generation.features import Features
from suites.generation.models.base import GenerativeModel
from suites.vision.settings import Data


@register("config", "generation")
@dataclass(kw_only=True)
class GenerationConfig(RunConfig):
    """A run that learns to draw pictures.

    Args:
        model: the networks.
        data: what is learnt from, and what drawn pictures are compared with.
        features: the network on whose features FID and KID are computed.
    """

    model: Annotated[GenerativeModel, OfRole("generative_model")]
    data: Data
    features: Features = field(default_factory=Features)
