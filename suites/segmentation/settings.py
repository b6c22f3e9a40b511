"""The sections of a segmentation config, and the rules across them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import Config, OfRole, rule
from suites.engine.config.class_rules import add_rules
from suites.engine.config.sections import DistilledConfig
from suites.engine.registry import register
from suites.segmentation.labelling import Labelling
from suites.segmentation.losses import SegmentationLoss
from suites.segmentation.models.base import Segmenter
from suites.segmentation.task import Figures
from suites.vision.settings import Data


@register("config", "segmentation")
@dataclass(kw_only=True)
class SegmentationConfig(DistilledConfig):
    """A segmentation run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        losses: what is minimised: the sum of these, each with its weight.
        inference: how a label is found for every pixel.
        figures: what evaluation measures beside the confusion matrix.
    """

    model: Annotated[Segmenter, OfRole("segmenter")]
    data: Data
    losses: list[SegmentationLoss]
    inference: Labelling = field(default_factory=Labelling)
    figures: Figures = field(default_factory=Figures)


add_rules("segmentation")


@rule("inference.soft", "data.num_classes", suite="segmentation")
def soft_maps_are_of_two_classes(config: Config) -> Iterator[tuple[str, str]]:
    """A soft map says one number a pixel."""
    classes = config["data.num_classes"]
    if config["inference.soft"] and classes is not None and classes != 2:
        yield "inference.soft", f"gives the probability of the second of 2 classes, and data.num_classes is {classes}"


@rule("losses", suite="segmentation")
def there_is_a_loss(config: Config) -> Iterator[tuple[str, str]]:
    """Something is minimised."""
    if not config["losses"]:
        yield "losses", "is empty; name at least one loss"
