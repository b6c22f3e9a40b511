"""The sections of a detection config, and the rules across them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from suites.detection.metrics import Evaluator
from suites.detection.models.base import Detector
from suites.engine.config import Config, Factory, OfRole, rule
from suites.engine.registry import register
from suites.engine.rules import add_rules
from suites.engine.settings import RunConfig
from suites.vision.settings import Data


@register("config", "detection")
@dataclass(kw_only=True)
class DetectionConfig(RunConfig):
    """A detection run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        metric: the figures of an evaluation.
        min_score: lowest score that is drawn and written by `tools/infer.py`.
    """

    model: Annotated[Detector, OfRole("detector")]
    data: Data
    metric: Factory[Evaluator]
    min_score: float = 0.3


add_rules("detection", classes="model.head.num_classes")


@rule("model.head.anchors", "model.backbone.out_strides", suite="detection")
def anchors_fit_strides(config: Config) -> Iterator[tuple[str, str]]:
    """Anchors divide evenly into the levels."""
    anchors, strides = config["model.head.anchors"], config["model.backbone.out_strides"]
    if len(anchors) % len(strides):
        yield (
            "model.head.anchors",
            f"{len(anchors)} anchors do not divide into {len(strides)} levels (out_strides {list(strides)})",
        )


@rule("model.backbone.out_strides", suite="detection")
def sizes_are_multiples_of_the_largest_stride(config: Config) -> Iterator[tuple[str, str]]:
    """Image sides are multiples of the largest stride, so that levels fit onto each other."""
    stride = max(config["model.backbone.out_strides"])
    for path, key in _SIZES:
        for i, step in enumerate(config.get(path) or []):
            sizes = step.get(key) if isinstance(step, dict) and step.get("type") in _SIZED[key] else None
            flat = sizes if isinstance(sizes, list) else [sizes] if sizes is not None else []
            for size in flat:
                if isinstance(size, int) and size % stride:
                    yield f"{path}[{i}].{key}", f"{size} is no multiple of {stride}, the network's largest stride"


_SIZES = (
    ("data.train.transforms", "size"),
    ("data.eval.transforms", "size"),
    ("data.train.batch_transforms", "sizes"),
)
_SIZED = {"size": ("Resize", "Letterbox"), "sizes": ("RandomShape",)}
