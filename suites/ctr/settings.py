"""The sections of a CTR config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from suites.ctr.cluster.settings import ClusterSettings
from suites.ctr.losses import ClickLoss, LogLoss
from suites.ctr.models.base import CtrModel
from suites.ctr.schema import Schema
from suites.ctr.serving import PublishSettings
from suites.ctr.tables import TableSettings
from suites.ctr.train.hogwild import HogwildSettings
from suites.ctr.train.progressive import ProgressiveSettings
from suites.engine.config import Config, Factory, OfRole, rule
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register


@dataclass(kw_only=True)
class EvalData:
    """What is evaluated on.

    Args:
        dataset: the log.
        batch_size: rows a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    batch_size: int = 4096


@dataclass(kw_only=True)
class TrainData:
    """What is trained on.

    Args:
        dataset: the log.
        batch_size: rows a step.
        shuffle: draw the order of each pass from the seed; else rows come as they stand in the log.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    batch_size: int = 512
    shuffle: bool = True


@dataclass(kw_only=True)
class Data:
    """The data of a run.

    Args:
        schema: which columns are what; or a YAML file that says so, as `paddock data schema` writes it; or
            "auto" for what that command guesses from the training file.
        train: what is trained on.
        eval: what is evaluated on.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/auc`.
        root: folder, zip or file of the data, for `${data.root}` in the data sets.
    """

    schema: Schema | str
    train: TrainData
    eval: EvalData
    root: str | None = None
    more_eval: dict[str, EvalData] = field(default_factory=dict)


@register("config", "ctr")
@dataclass(kw_only=True)
class CtrConfig(RunConfig):
    """A run on a click log.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        table: the rows of the signs.
        loss: what is minimised.
        progressive: figures of predictions that are made before training on their rows.
        publish: rows that the run publishes for a server while it trains; null for none.
        hogwild: threads that train without waiting for each other; null for one batch after the other.
        cluster: how the run is spread over processes with --cluster.
    """

    model: Annotated[Factory[CtrModel], OfRole("ctr_model")]
    data: Data
    table: TableSettings = field(default_factory=TableSettings)
    loss: ClickLoss = field(default_factory=LogLoss)
    progressive: ProgressiveSettings = field(default_factory=ProgressiveSettings)
    publish: PublishSettings | None = None
    hogwild: HogwildSettings | None = None
    cluster: ClusterSettings = field(default_factory=ClusterSettings)


@rule("data.train.batch_size", "data.eval.batch_size", suite="ctr")
def batches_hold_rows(config: Config) -> Iterator[tuple[str, str]]:
    """A batch holds at least one row."""
    for path in ("data.train.batch_size", "data.eval.batch_size"):
        if config[path] < 1:
            yield path, f"is {config[path]}; it must be 1 or more"
