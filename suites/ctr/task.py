"""The CTR task: what the engine calls to build, train and evaluate a model of click-through rates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from framework import no_grad, ops
from framework.errors import ConfigError
from framework.graph.ir import Program
from framework.optim import Optimizer
from framework.table.chained import Chained
from framework.tensor import Tensor, tensor
from suites.ctr.datasets import ClickDataset, ClickSource
from suites.ctr.datasets.base import SHARES
from suites.ctr.datasets.encoding import raw_bytes
from suites.ctr.inspection.leakage import leaks
from suites.ctr.losses import ClickLoss, LogLoss
from suites.ctr.metrics import ClickScores
from suites.ctr.models.base import CtrModel, Embedded
from suites.ctr.models.retrieval import RetrievalModel
from suites.ctr.network import TableNetwork
from suites.ctr.processor import ClickProcessor
from suites.ctr.retrieval.items import ItemIndex
from suites.ctr.retrieval.scores import RetrievalScores
from suites.ctr.schema import Schema, read_schema
from suites.ctr.schema.signs import signs_of
from suites.ctr.serving import Publish, PublishSettings, publish
from suites.ctr.settings import EvalData, TrainData
from suites.ctr.tables import TableSettings
from suites.ctr.train.hogwild import HogwildSettings, HogwildStep
from suites.ctr.train.progressive import Progressive, ProgressiveSettings, progressive_plots
from suites.ctr.train.step import CtrStep, RowsTask
from suites.engine.config import Factory
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch
from suites.engine.contract.data_task import DataTask
from suites.engine.contract.losses import Kept, Loss
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.contract.resources import load_deployed
from suites.engine.contract.step import Step
from suites.engine.predict.deploying import deployed_program
from suites.engine.registry import register
from suites.engine.reporting import Plot, Tally
from suites.engine.train.hooks import Hook

_log = logging.getLogger(__name__)


@register("task", "ctr")
class CtrTask(DataTask[TrainData, EvalData], RowsTask):
    """A model of click-through rates with its table and its logs; logs are opened when they are first needed.

    Args:
        model: makes the network of `fields`.
        schema: which columns are what; or a YAML file that says so.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        table: the rows of the signs.
        loss: what is minimised.
        progressive: figures of predictions that are made before training on their rows.
        publish: what the run publishes for a server while it trains; null for none.
        hogwild: threads that train without waiting for each other; null for one batch after the other.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/auc`.
    """

    main_metric = "auc"
    processor_class = ClickProcessor
    model: TableNetwork

    def __init__(
        self,
        model: Factory[CtrModel],
        schema: Schema | str,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        *,
        table: TableSettings | None = None,
        loss: ClickLoss | None = None,
        progressive: ProgressiveSettings | None = None,
        publish: PublishSettings | None = None,
        hogwild: HogwildSettings | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(train, eval, more_eval)
        self._publish, self.hogwild = publish, hogwild
        self._schema = read_schema(schema) if isinstance(schema, str) else schema
        self._adopted: Schema | None = None
        self._adopted_items: list[str] = []
        self.table_settings = table or TableSettings()
        self._loss, self._progressive = loss or LogLoss(), progressive or ProgressiveSettings()
        fields = self._schema.fields()
        body = model(fields=fields)
        if isinstance(body, RetrievalModel):
            self.main_metric = "recall@20"
            if publish is not None and not publish.dense:
                raise ConfigError("publish.dense: is false; items and users of one version need its network: leave it")
        self.model = TableNetwork(body, self.table_settings.table(body))
        self._chained: Chained | None = None
        self.eval_inputs = self.model.inputs
        self._corrects = isinstance(body, RetrievalModel) and body.logq
        weight = (*(("weight",) if self._schema.weight else ()), *((SHARES,) if self._corrects else ()))
        self.train_inputs = (*self.eval_inputs, "labels", *weight)

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
        self._adopted, self._adopted_items = processor.schema, processor.catalogue

    @cached_property
    def _train_set(self) -> ClickSource:
        found: ClickSource = _opened(self.train_data.dataset, self._schema)
        if self._adopted is None:
            found.learn()
        else:
            found.follow(self._adopted)
        if self._corrects:
            if not isinstance(found, ClickDataset):
                raise ConfigError("model.logq: the shares of items are those of a log in memory; set it to false")
            body = self.model.body
            assert isinstance(body, RetrievalModel)
            found.count_shares(body.item)
        return found

    @cached_property
    def _eval_set(self) -> ClickSource:
        found: ClickSource = _opened(self.eval_data.dataset, self._schema)
        found.follow(self.schema)
        if self._train is not None and self._adopted is None:
            self._say_leaks(found)
        return found

    def _say_leaks(self, held: ClickSource) -> None:
        """Notes what the training set, which was opened for the schema, knows of an evaluation set in memory."""
        if isinstance(held, ClickDataset):
            for text in self._leaks(held):
                _log.info("note: %s: %s", held.name, text)

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

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss | Kept]:
        """The loss terms, and `scores` [N, L] as they were before the update."""
        labels = inputs["labels"]
        x = self.model.embed(inputs, clicks=labels[:, 0])
        body = self.model.body
        if isinstance(body, RetrievalModel):
            return {
                name: Loss(mean, weight) for name, (mean, weight) in body.losses(x, labels, inputs.get(SHARES)).items()
            }
        logits = body(x)
        terms: dict[str, Loss | Kept] = dict(
            self._loss(self.model.body.fields.labels, logits, labels, inputs.get("weight"))
        )
        for name, (mean, weight) in self.model.body.extra_losses(x, labels).items():
            terms[name] = Loss(mean, weight)
        return terms | {"scores": Kept(ops.sigmoid(logits))}

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """One batch: dense weights by the optimizer, rows by the table's rule."""
        if self.hogwild is not None:
            return HogwildStep.of(self, make_optimizer, runtime)
        return CtrStep.of(self, make_optimizer, runtime)

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`scores` float32 [N, L], the probability of each label; of models that retrieve items `users` [N, H] too."""
        return self._predicted(self.model.embed(inputs))

    def export_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`eval_step` on rows in place of signs, which serving looks up; see `suites.ctr.serving`."""
        return self._predicted(self.model.joined({name: inputs[name] for name in self.model.signs}, inputs))

    def publish(self, export: Path) -> None:
        """Write the rows beside an export."""
        items, network = self.item_index(), type(self.model.body).__name__
        publish(self.model.table, self._schema, export, dense="export", items=items, network=network)

    def served_program(self) -> Program:
        """The network with the weights of now as what an export runs, from rows in place of signs to scores."""
        processor = self.processor()
        batch = processor.prepare([processor.from_json(processor.example())])
        signs, dim = self.model.signs, self.model.table.dim
        rows = {name: np.zeros((*batch[name].shape, dim), np.float32) for name in signs}
        return deployed_program(self, {**batch, **rows})

    def _predicted(self, x: Embedded) -> dict[str, Tensor]:
        body = self.model.body
        more = {"users": body.users(x)} if isinstance(body, RetrievalModel) else {}
        return {"scores": ops.sigmoid(body(x)), **more}

    @property
    def catalogue(self) -> list[str]:
        """The items of the training set, of models that retrieve some; else nothing."""
        body = self.model.body
        if not isinstance(body, RetrievalModel):
            return []
        if self._adopted_items:
            return self._adopted_items
        compared = getattr(self._train_set, "compared", None) if self._train is not None else None
        if compared is None:
            raise ConfigError(
                f"{type(body).__name__}: the items to retrieve are those of a training log in memory, such as ClickLog"
            )
        return list(compared[self._item])

    @property
    def _item(self) -> str:
        body = self.model.body
        assert isinstance(body, RetrievalModel)
        return body.fields.fields[body.item]

    def item_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Signs int64 [I] and vectors float32 [I, H] of the catalogue, by the weights as they are now."""
        body = self.model.body
        assert isinstance(body, RetrievalModel)
        signs = signs_of([raw_bytes(text) for text in self.catalogue], self._schema.slots()[self._item])
        self.model.eval()
        with no_grad():
            return signs, body.items(self.model.table.lookup(signs)).numpy().copy()

    def item_index(self) -> ItemIndex | None:
        """The items of the catalogue by the weights as they are now, of models that retrieve some.

        The recall of a graph is that for 200 users with drawn histories.
        """
        if not isinstance(self.model.body, RetrievalModel):
            return None
        found = ItemIndex.build(self.catalogue, self.item_vectors()[1], self._drawn_users(200))
        if found.has_graph:
            _log.info("items: the graph finds %.4f of the best 20 of %d", found.recall, len(found.names))
        return found

    def _drawn_users(self, count: int) -> np.ndarray:
        """Vectors of users who saw up to 16 items of the catalogue, drawn alike in each run, float32 [count, H]."""
        body, processor, rng = self.model.body, self.processor(), np.random.default_rng(0)
        assert isinstance(body, RetrievalModel)
        names, column = self.catalogue, self._schema.column_of(body.history)
        seen = [[names[i] for i in rng.integers(0, len(names), rng.integers(1, 17))] for _ in range(count)]
        batch = processor.prepare([{column: own} for own in seen])
        self.model.eval()
        with no_grad():
            x = self.model.embed({name: tensor(batch[name]) for name in self.eval_inputs})
            return body.users(x).numpy().copy()

    def resources(self) -> dict[str, Chained]:
        """The table, which is saved beside the weights."""
        if self._chained is None:
            self._chained = Chained(self.model.table, self.table_settings.most_deltas)
        return {self.model.table.name: self._chained}

    def start_from(self, path: Path) -> list[str]:
        """Take weights and rows of another run of this model; CheckpointError where one of them does not fit."""
        load_deployed(self, path)
        return [f"with {len(self.model.table):,} rows of the table '{self.model.table.name}'"]

    def hooks(self) -> Sequence[Hook]:
        """Progressive figures, and what leaves the table at the end of a pass."""
        publishing = [Publish(self._publish)] if self._publish is not None else []
        return [Progressive(self._progressive), PassEnd(), *publishing]

    @classmethod
    def run_plots(cls, run: Path) -> Sequence[Plot]:
        """The progressive figures."""
        return progressive_plots(run)

    def metric(self) -> Metric:
        """A new, empty metric; that of a model that retrieves items ranks by the weights as they are now."""
        if isinstance(self.model.body, RetrievalModel):
            return RetrievalScores(*self.item_vectors(), self.model.body.item)
        return ClickScores(self.model.body.fields.labels)

    def processor(self) -> ClickProcessor:
        """The schema, with what was learned from the training set."""
        return ClickProcessor(self.schema, self.catalogue)

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


class PassEnd(Hook):
    """Tells the table that a pass is over, where something leaves it then."""

    priority = 20

    def after_step(self, loop: Any) -> None:
        """See the class."""
        if loop.pass_ended and loop.task.table_settings.eviction is not None:
            with loop.evaluation_weights():  # no update is on its way
                gone = loop.task.model.table.shrink()
            loop.log.say(f"end of pass {loop.passes}: {gone} rows left the table, {len(loop.task.model.table)} stay")


def _opened(dataset: Any, schema: Schema) -> Any:
    return dataset(schema=schema) if isinstance(dataset, Factory) else dataset
