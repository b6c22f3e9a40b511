"""The data sections of a recognition config, and the rules across its fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from suites.engine.config import Config, Factory, OfRole, rule
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


def add_rules(suite: str) -> None:
    """Adds the rules of recognition for a suite."""

    @rule("data.train.batch_size", "data.eval.batch_size", suite=suite)
    def batches_hold_samples(config: Config) -> Iterator[tuple[str, str]]:
        """A batch holds at least one sample."""
        for path in ("data.train.batch_size", "data.eval.batch_size"):
            if config[path] < 1:
                yield path, f"is {config[path]}; it must be 1 or more"

    @rule("model.num_classes", "data.num_classes", suite=suite)
    def model_has_the_datas_classes(config: Config) -> Iterator[tuple[str, str]]:
        """The model predicts as many classes as the data have."""
        model, data = config["model.num_classes"], config["data.num_classes"]
        if model != data:
            yield "model.num_classes", f'is {model} but data.num_classes is {data}; write "${{data.num_classes}}"'
