"""ClickTask: what ranking and retrieval share: the log and its schema, the network with its table, what is served."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from framework.errors import ConfigError
from framework.graph.ir import Program
from framework.optim import Optimizer
from framework.table.chained import Chained
from framework.tensors import Tensor
from suites.ctr.datasets import ClickDataset, ClickSource
from suites.ctr.inspection.leakage import leaks
from suites.ctr.models.base import CtrModel, Embedded
from suites.ctr.network import TableNetwork
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import Schema, read_schema
from suites.ctr.serving import Publish, PublishSettings, publish
from suites.ctr.settings import EvalData, TrainData
from suites.ctr.tables import TableSettings
from suites.ctr.train.hogwild import HogwildSettings, HogwildStep
from suites.ctr.train.passes import PassEnd
from suites.ctr.train.step import CtrStep, RowsTask
from suites.engine.config import Config, Factory
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch
from suites.engine.contract.capabilities import Kept
from suites.engine.contract.data_task import DataTask
from suites.engine.contract.processor import Processor
from suites.engine.contract.resources import load_deployed
from suites.engine.contract.step import Step
from suites.engine.neighbours.items import ItemIndex
from suites.engine.predict.deploying import deployed_program
from suites.engine.registry import REGISTRY
from suites.engine.reporting import Tally
from suites.engine.train.hooks import Hook

_log = logging.getLogger(__name__)

Body = TypeVar("Body", bound=CtrModel)


def _class_for(model: Any) -> Any:
    """The task that trains models of a class: the one that is registered under the name that the class gives."""
    return REGISTRY.seen_by("ctr").get("task", getattr(model, "task", CtrModel.task))


class ClickTask(DataTask[TrainData, EvalData], RowsTask, Generic[Body]):
    """Base of the tasks on click logs; logs are opened when they are first needed.

    Args:
        model: makes the network of `fields`.
        schema: which columns are what; or a YAML file that says so.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        table: the rows of the signs.
        publish: what the run publishes for a server while it trains; null for none.
        hogwild: threads that train without waiting for each other; null for one batch after the other.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/auc`.

    Attributes:
        body: the network without its table.
    """

    processor_class = ClickProcessor
    model: TableNetwork

    def __init__(
        self,
        model: Factory[Body],
        schema: Schema | str,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        *,
        table: TableSettings | None = None,
        publish: PublishSettings | None = None,
        hogwild: HogwildSettings | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(train, eval, more_eval)
        self._publish, self.hogwild = publish, hogwild
        self._schema = read_schema(schema) if isinstance(schema, str) else schema
        self._adopted: Schema | None = None
        self.table_settings = table or TableSettings()
        self.body: Body = model(fields=self._schema.fields())
        wanted = _class_for(type(self.body))
        if not isinstance(self, wanted):
            raise ConfigError(f"{type(self).__name__}: a {type(self.body).__name__} is trained by {wanted.__name__}")
        self.table = self.table_settings.table(self.body)
        self.model = TableNetwork(self.body, self.table)
        self._chained: Chained | None = None
        self.eval_inputs = self.model.inputs
        self.train_inputs = (*self.eval_inputs, "labels", *(("weight",) if self._schema.weight else ()))

    @classmethod
    def from_config(cls, config: Config, **made: Any) -> Self:
        """The task that a config describes, which its model chooses."""
        chosen = _class_for(config.part("model").target)
        found: Any = super(ClickTask, chosen).from_config(config, **made)
        return found

    @classmethod
    def from_kept(cls, config: Config, kept: Kept) -> Self:
        """The task of a run, with the schema that it keeps."""
        assert isinstance(kept.processor, ClickProcessor)
        return cls.from_config(config, **({"schema": kept.processor.schema} if kept.holds("data.schema") else {}))

    @property
    def schema(self) -> Schema:
        """With the centers and scales that were learned from the training set, which this reads where it must."""
        if self._adopted is not None:
            return self._adopted
        return self._train_set.schema if self._train is not None else self._schema

    def adopt(self, processor: Processor) -> None:
        """Take the schema of a saved run; ConfigError where it declares other features."""
        assert isinstance(processor, ClickProcessor)
        if processor.schema.slots() != self._schema.slots() or processor.schema.fields() != self._schema.fields():
            raise ConfigError(
                "data.schema: it declares other features, slots or labels than the run was trained with; train anew"
            )
        self._adopted = processor.schema

    @cached_property
    def _train_set(self) -> ClickSource:
        found: ClickSource = _opened(self.train_data.dataset, self._schema)
        if self._adopted is None:
            found.learn()
        else:
            found.follow(self._adopted)
        return found

    @cached_property
    def _eval_set(self) -> ClickSource:
        found: ClickSource = _opened(self.eval_data.dataset, self._schema)
        found.follow(self.schema)
        if self._train is not None and self._adopted is None and isinstance(found, ClickDataset):
            for text in self._leaks(found):  # the training set was opened for the schema
                _log.info("note: %s: %s", found.name, text)
        return found

    def _leaks(self, held: ClickDataset) -> list[str]:
        """What the training set, if it is open and in memory, knows of an evaluation set."""
        train = vars(self).get("_train_set")
        return leaks(train.clicks, held.clicks) if isinstance(train, ClickDataset) else []

    def train_loader(self, *, seed: int, workers: int) -> Any:
        """The log in batches; in a drawn order the last of a pass is left out where it is short."""
        data = self.train_data
        return self._train_set.loader(data.batch_size, shuffle=data.shuffle, seed=seed, workers=workers)

    def eval_loader(self, *, workers: int) -> Any:
        """The evaluation log in order."""
        return self._eval_set.loader(self.eval_data.batch_size, workers=workers)

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """One batch: dense weights by the optimizer, rows by the table's rule."""
        if self.hogwild is not None:
            return HogwildStep.of(self, make_optimizer, runtime)
        return CtrStep.of(self, make_optimizer, runtime)

    @abstractmethod
    def predicted(self, x: Embedded) -> dict[str, Tensor]:
        """The outputs of the network by name, of a batch whose signs have become rows."""

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """See `predicted`."""
        return self.predicted(self.model.embed(inputs))

    def export_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`eval_step` on rows in place of signs, which serving looks up; see `suites.ctr.serving`."""
        return self.predicted(self.model.joined({name: inputs[name] for name in self.model.signs}, inputs))

    def publish(self, export: Path) -> None:
        """Write the rows beside an export."""
        items, network = self.item_index(), type(self.body).__name__
        publish(self.table, self._schema, export, dense="export", items=items, network=network)

    def served_program(self) -> Program:
        """The network with the weights of now as what an export runs, from rows in place of signs to scores."""
        processor = self.processor()
        batch = processor.prepare([processor.from_json(processor.example())])
        signs, dim = self.model.signs, self.table.dim
        rows = {name: np.zeros((*batch[name].shape, dim), np.float32) for name in signs}
        return deployed_program(self, {**batch, **rows})

    def item_index(self) -> ItemIndex | None:
        """The items that the model retrieves by the weights as they are now; None where it retrieves none."""
        return None

    def resources(self) -> dict[str, Chained]:
        """The table, which is saved beside the weights."""
        if self._chained is None:
            self._chained = Chained(self.table, self.table_settings.most_deltas)
        return {self.table.name: self._chained}

    def start_from(self, path: Path) -> list[str]:
        """Take weights and rows of another run of this model; CheckpointError where one of them does not fit."""
        load_deployed(self, path)
        return [f"with {len(self.table):,} rows of the table '{self.table.name}'"]

    def hooks(self) -> Sequence[Hook]:
        """What leaves the table at the end of a pass, and publishing."""
        publishing = [Publish(self._publish)] if self._publish is not None else []
        return [PassEnd(), *publishing]

    def processor(self) -> ClickProcessor:
        """The schema, with what was learned from the training set."""
        return ClickProcessor(self.schema)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Rows and positive labels of a log in memory, and the rows that are wrong."""
        source = self._train_set if training else self._eval_set
        if isinstance(source, ClickDataset):
            self._count_labels(tally, source.clicks.labels, whole=True)
            tally.merge(source.left_out.state())
            for text in () if training else self._leaks(source):
                tally.note(text)

    def count_batch(self, tally: Tally, batch: Batch, *, training: bool) -> None:
        """Rows and positive labels of a log that is streamed."""
        if not isinstance(self._train_set if training else self._eval_set, ClickDataset):
            self._count_labels(tally, batch["labels"], whole=False)

    def _count_labels(self, tally: Tally, labels: np.ndarray | None, *, whole: bool) -> None:
        assert labels is not None  # rows to train or evaluate on have some
        positive = (labels > 0.5).sum(axis=0).tolist()
        counts = {f"{name} 1": count for name, count in zip(self._schema.labels, positive, strict=True)}
        tally.add("rows", {"rows": len(labels), **counts}, len(labels), whole=whole)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first rows of the evaluation set, as texts by column."""
        return [(self._eval_set.name_of(i), row) for i, row in enumerate(self._eval_set.examples[:count])]


def _opened(dataset: Any, schema: Schema) -> Any:
    return dataset(schema=schema) if isinstance(dataset, Factory) else dataset
