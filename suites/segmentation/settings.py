"""The sections of a segmentation config, and the rules across them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import Config, OfRole, rule
from suites.engine.registry import register
from suites.engine.rules import add_rules
from suites.engine.settings import RunConfig
from suites.segmentation.inference import Inference
from suites.segmentation.losses import SegmentationLoss
from suites.segmentation.models.base import Segmenter
from suites.vision.settings import Data


@register("config", "segmentation")
@dataclass(kw_only=True)
class SegmentationConfig(RunConfig):
    """A segmentation run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        losses: what is minimised: the sum of these, each with its weight.
        inference: how a label is found for every pixel.
    """

    model: Annotated[Segmenter, OfRole("segmenter")]
    data: Data
    losses: list[SegmentationLoss]
    inference: Inference = field(default_factory=Inference)


add_rules("segmentation")


@rule("data.train.batch_size", suite="segmentation")
def batch_norm_of_pooled_maps_sees_two_images(config: Config) -> Iterator[tuple[str, str]]:
    """The pyramid's pooled branch has one pixel an image, and batch norm of a single number is always 0."""
    if config.get("model.type") == "DeepLabV3Plus" and config["data.train.batch_size"] < 2:
        yield "data.train.batch_size", "is 1; DeepLabV3Plus pools whole images, so a batch needs 2 or more"


@rule("losses", "data.num_classes", suite="segmentation")
def every_class_has_its_weight(config: Config) -> Iterator[tuple[str, str]]:
    """Class weights are as many as classes."""
    if not config["losses"]:
        yield "losses", "is empty; name at least one loss"
    for i, loss in enumerate(config["losses"]):
        weights = loss.get("class_weights")
        if weights is not None and len(weights) != config["data.num_classes"]:
            yield (
                f"losses[{i}].class_weights",
                f"has {len(weights)} numbers but data.num_classes is {config['data.num_classes']}; give one a class",
            )
