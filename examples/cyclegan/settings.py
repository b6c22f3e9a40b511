"""The config of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import suites.engine.parts  # noqa: F401  (optimizers and schedules)
from suites.engine.config import Factory, OfRole
from suites.engine.config.settings import RunConfig
from suites.engine.registry import register

from .data import Style
from .models import Discriminator, Generator


@dataclass(kw_only=True)
class Model:
    """The networks; there are two of each.

    Args:
        generator: redraws a picture.
        discriminator: tells real pictures from made ones.
    """

    generator: Annotated[Factory[Generator], OfRole("generator")]
    discriminator: Annotated[Factory[Discriminator], OfRole("discriminator")]


@dataclass(kw_only=True)
class Data:
    """Pictures of two styles; no picture of one needs to have a partner in the other.

    Args:
        a: pictures of the first style.
        b: pictures of the second.
        eval: pictures of the first style that are evaluated on and drawn.
        batch_size: pictures of each style a step; 1 in the paper.
        size: side of pictures to predict on, in pixels.
    """

    a: Annotated[Style, OfRole("style")]
    b: Annotated[Style, OfRole("style")]
    eval: Annotated[Style, OfRole("style")]
    batch_size: int = 1
    size: int = 16


@dataclass(frozen=True)
class LossSettings:
    """What is minimised.

    Args:
        cycle: weight of coming back to the same picture.
        identity: weight of leaving alone what is in the right style, as a share of `cycle`; 0 for none.
        buffer: made pictures of each style that the discriminators are shown again.
    """

    cycle: float = 10.0
    identity: float = 0.5
    buffer: int = 50


@register("config", "cyclegan", suite="cyclegan")
@dataclass(kw_only=True)
class CycleConfig(RunConfig):
    """A run of CycleGAN.

    Args:
        model: the networks.
        data: what it is trained and evaluated on.
        loss: what is minimised.
    """

    model: Model
    data: Data
    loss: LossSettings = field(default_factory=LossSettings)
