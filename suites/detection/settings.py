"""The sections of a detection config, and the rules across them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from framework.optim import Optimizer, Schedule
from suites.detection.metrics import BoxEvaluator
from suites.detection.models.yolov3 import Detector
from suites.detection.transforms import BatchTransform, Transform
from suites.engine.config import Config, Factory, OfRole, Supplied, rule
from suites.engine.registry import register
from suites.engine.settings import Runtime


@dataclass
class TrainData:
    """What is trained on.

    Args:
        dataset: images with boxes.
        transforms: sample to sample, in this order.
        batch_transforms: batch to batch, after all transforms.
        batch_size: images a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_transforms: list[BatchTransform] = field(default_factory=list)
    batch_size: int = 8


@dataclass
class EvalData:
    """What is evaluated on.

    Args:
        dataset: images with boxes.
        transforms: sample to sample, in this order; also applied to images to predict on. None may be random.
        batch_size: images a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_size: int = 8


@dataclass
class Data:
    """The data of a run.

    Args:
        num_classes: classes of the data sets; the head's is `${data.num_classes}`.
        train: what is trained on.
        eval: what is evaluated on.
        root: folder of the data, for `${data.root}` in the data sets.
    """

    num_classes: int
    train: TrainData
    eval: EvalData
    root: str | None = None


@register("config", "detection")
@dataclass
class DetectionConfig:
    """A detection run.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        optimizer: how weights are updated.
        schedule: the learning rate.
        runtime: how long and how the run trains.
        metric: the figures of an evaluation.
        min_score: lowest score that is drawn and written by `tools/infer.py`.
    """

    model: Annotated[Detector, OfRole("detector")]
    data: Data
    optimizer: Annotated[Factory[Optimizer], OfRole("optimizer")]
    schedule: Annotated[Factory[Schedule], OfRole("schedule")]
    runtime: Runtime
    metric: Annotated[Factory[BoxEvaluator], OfRole("metric"), Supplied("truth")]
    min_score: float = 0.3


@rule("data.train.batch_size", "data.eval.batch_size", suite="detection")
def batches_hold_images(config: Config) -> Iterator[tuple[str, str]]:
    """A batch holds at least one image."""
    for path in ("data.train.batch_size", "data.eval.batch_size"):
        if config[path] < 1:
            yield path, f"is {config[path]}; it must be 1 or more"


@rule("model.head.anchors", "model.backbone.out_strides", suite="detection")
def anchors_fit_strides(config: Config) -> Iterator[tuple[str, str]]:
    """Anchors divide evenly into the levels."""
    anchors, strides = config["model.head.anchors"], config["model.backbone.out_strides"]
    if len(anchors) % len(strides):
        yield (
            "model.head.anchors",
            f"{len(anchors)} anchors do not divide into {len(strides)} levels (out_strides {list(strides)})",
        )


@rule("model.head.num_classes", "data.num_classes", suite="detection")
def head_has_the_datas_classes(config: Config) -> Iterator[tuple[str, str]]:
    """The head predicts as many classes as the data have."""
    head, data = config["model.head.num_classes"], config["data.num_classes"]
    if head != data:
        yield "model.head.num_classes", f'is {head} but data.num_classes is {data}; write "${{data.num_classes}}"'


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
