"""The data section of a config of text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from suites.engine.config import Factory, OfRole
from suites.ocr.datasets.base import TextDataset
from suites.vision.augmentation.pipeline import Transform


@dataclass(kw_only=True)
class EvalData:
    """What is evaluated on.

    Args:
        dataset: the pictures with their texts.
        batch_size: pictures a step.
    """

    dataset: Annotated[Factory[TextDataset], OfRole("dataset")]
    batch_size: int = 1


@dataclass(kw_only=True)
class TrainData:
    """What is trained on.

    Args:
        dataset: the pictures with their texts.
        batch_size: pictures a step.
        transforms: sample to sample, in this order.
        pool: of lines; this many neighbouring batches are sorted by the length of their texts and then shuffled, so
            that the lines of a batch are of like width and little of it is empty. 0: as they come.
    """

    dataset: Annotated[Factory[TextDataset], OfRole("dataset")]
    batch_size: int
    transforms: list[Transform] = field(default_factory=list)
    pool: int = 0


@dataclass(kw_only=True)
class Data:
    """The data of a run.

    Args:
        eval: what is evaluated on.
        train: what is trained on; null for networks that are put together from trained ones.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/hmean`.
        root: folder or zip of the data, for `${data.root}` in the data sets.
    """

    eval: EvalData
    train: TrainData | None = None
    root: str | None = None
    more_eval: dict[str, EvalData] = field(default_factory=dict)
