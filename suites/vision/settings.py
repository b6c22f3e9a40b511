"""The data section of a config of images or clips, the same in all suites that have some."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from suites.engine.config import Factory, OfRole
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.ordering import Order


@dataclass(kw_only=True)
class EvalData:
    """What is evaluated on.

    Args:
        dataset: the samples with their truth.
        transforms: sample to sample, in this order; also applied to inputs to predict on. None may be random.
        batch_size: samples a step; 1 where the transforms leave them different in size.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_size: int


@dataclass(kw_only=True)
class TrainData:
    """What is trained on.

    Args:
        dataset: the samples with their truth.
        transforms: sample to sample, in this order; those of a batch must end in one size.
        batch_size: samples a step.
        batch_transforms: batch to batch, after all transforms.
        order: which samples an epoch has; null for each once.
        like_shapes: batches of pictures that are all wide or all high, for networks that take padded batches.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_size: int
    batch_transforms: list[BatchTransform] = field(default_factory=list)
    order: Order | None = None
    like_shapes: bool = False


@dataclass(kw_only=True)
class Data:
    """The data of a run.

    Args:
        eval: what is evaluated on.
        train: what is trained on; null for networks that run on published weights alone.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
        num_classes: classes of the data sets; the model's is `${data.num_classes}`. Null for as many as the model has.
        root: folder or zip of the data, for `${data.root}` in the data sets.
    """

    eval: EvalData
    train: TrainData | None = None
    num_classes: int | None = None
    root: str | None = None
    more_eval: dict[str, EvalData] = field(default_factory=dict)
