"""The data section of a config of retrieval."""

from __future__ import annotations

from dataclasses import dataclass, field

from suites.vision.settings import EvalData, TrainData

__all__ = ["Data", "EvalData", "TrainData"]


@dataclass(kw_only=True)
class Data:
    """The data of a run.

    Args:
        train: what is trained on.
        eval: what is evaluated on: other classes than those of training.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `lfw/accuracy`.
        root: folder or zip of the data, for `${data.root}` in the data sets.
    """

    train: TrainData
    eval: EvalData
    root: str | None = None
    more_eval: dict[str, EvalData] = field(default_factory=dict)
