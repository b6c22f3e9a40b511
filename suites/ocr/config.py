"""The sections of a config of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import Config, OfRole, rule
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register
from suites.ocr.finding import Finding
from suites.ocr.losses import MapLoss
from suites.ocr.models.base import TextModel
from suites.ocr.page import Reading
from suites.ocr.settings import Data


@register("config", "ocr")
@dataclass(kw_only=True)
class OcrConfig(RunConfig):
    """A run of a network of text.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        finding: how text is found in a detector's map; null for the defaults. Not for a network that reads lines.
        reading: how pictures and lines are shown to the networks.
        loss: what a detector minimises; null for the published weights of its terms. For a detector alone.
    """

    model: Annotated[TextModel, OfRole("text_model")]
    data: Data
    finding: Finding | None = None
    reading: Reading = field(default_factory=Reading)
    loss: MapLoss | None = None


@rule("data.eval.batch_size", suite="ocr")
def batches_hold_samples(config: Config) -> Iterator[tuple[str, str]]:
    """A batch holds at least one sample."""
    for path in ("data.eval.batch_size", "data.train.batch_size"):
        if config.has(path) and config[path] < 1:
            yield path, f"is {config[path]}; it must be 1 or more"
