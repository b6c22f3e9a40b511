"""The data sections of a recognition config."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from suites.engine.config import Factory, OfRole
from suites.vision.pipeline import BatchTransform, Transform


@dataclass
class TrainData:
    """What is trained on.

    Args:
        dataset: images or clips with labels.
        transforms: sample to sample, in this order.
        batch_transforms: batch to batch, after all transforms.
        batch_size: samples a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_transforms: list[BatchTransform] = field(default_factory=list)
    batch_size: int = 8


@dataclass
class EvalData:
    """What is evaluated on.

    Args:
        dataset: images or clips with labels.
        transforms: sample to sample, in this order; also applied to inputs to predict on. None may be random.
        batch_size: samples a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    transforms: list[Transform]
    batch_size: int = 8


@dataclass
class Data:
    """The data of a run.

    Args:
        num_classes: classes of the data sets; the model's is `${data.num_classes}`.
        train: what is trained on.
        eval: what is evaluated on.
        root: folder or zip of the data, for `${data.root}` in the data sets.
    """

    num_classes: int
    train: TrainData
    eval: EvalData
    root: str | None = None
