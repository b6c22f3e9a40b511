"""RetrievalTask: which items of a catalogue a user takes next, by a vector of the user and one of each item.

Letters: I items, H numbers of a vector.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from framework import no_grad, ops
from framework.errors import ConfigError, DataError
from framework.tensors import Tensor, tensor
from suites.ctr.datasets import ClickDataset, ClickSource
from suites.ctr.datasets.base import SHARES
from suites.ctr.datasets.encoding import raw_bytes
from suites.ctr.models.base import Embedded
from suites.ctr.models.retrieval import RetrievalModel
from suites.ctr.processor import ClickProcessor
from suites.ctr.retrieval.baselines import Baselines
from suites.ctr.retrieval.scores import RetrievalScores
from suites.ctr.schema import Schema
from suites.ctr.schema.signs import signs_of
from suites.ctr.serving import PublishSettings
from suites.ctr.settings import EvalData, TrainData
from suites.ctr.tables import TableSettings
from suites.ctr.task.ground import ClickTask
from suites.ctr.train.hogwild import HogwildSettings
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.neighbours.items import ItemIndex
from suites.engine.registry import register

_log = logging.getLogger(__name__)


@register("task", "retrieval")
class RetrievalTask(ClickTask[RetrievalModel]):
    """A model that retrieves items, with its table and its logs.

    Args:
        model: see `ClickTask`.
        schema: see `ClickTask`.
        train: see `ClickTask`.
        eval: see `ClickTask`.
        table: see `ClickTask`.
        publish: see `ClickTask`.
        hogwild: see `ClickTask`.
        more_eval: see `ClickTask`.
    """

    main_metric = "recall@20"

    def __init__(
        self,
        model: Factory[RetrievalModel],
        schema: Schema | str,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        *,
        table: TableSettings | None = None,
        publish: PublishSettings | None = None,
        hogwild: HogwildSettings | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, schema, train, eval, table=table, publish=publish, hogwild=hogwild, more_eval=more_eval)
        if publish is not None and not publish.dense:
            raise ConfigError("publish.dense: is false; items and users of one version need its network: leave it")
        self._adopted_items: list[str] = []
        self._known: dict[str, Baselines | None] = {}  # shared with the copies of other evaluation sets
        if self.body.logq:
            self.train_inputs = (*self.train_inputs, SHARES)

    def adopt(self, processor: Processor) -> None:
        """Take the schema and the catalogue of a saved run; ConfigError where it declares other features."""
        super().adopt(processor)
        assert isinstance(processor, ClickProcessor)
        self._adopted_items = processor.catalogue

    @cached_property
    def _train_set(self) -> ClickSource:
        found = super()._train_set
        if self.body.logq:
            if not isinstance(found, ClickDataset):
                raise ConfigError("model.logq: the shares of items are those of a log in memory; set it to false")
            found.count_shares(self.body.item)
        return found

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """The loss terms."""
        labels = inputs["labels"]
        x = self.model.embed(inputs, clicks=labels[:, 0])
        terms = self.body.losses(x, labels, inputs.get(SHARES))
        return {name: Loss(mean, weight) for name, (mean, weight) in terms.items()}

    def predicted(self, x: Embedded) -> dict[str, Tensor]:
        """`scores` float32 [N, 1] of the rows' own items, in (0, 1), and `users` [N, H]."""
        return {"scores": ops.sigmoid(self.body(x)), "users": self.body.users(x)}

    def metric(self) -> Metric:
        """A new, empty metric, which ranks by the weights as they are now, beside popularity and item-kNN."""
        return RetrievalScores(*self.item_vectors(), self.body.item, baselines=self._baselines())

    def _baselines(self) -> Baselines | None:
        """Those of the training log; None where the task has none, or it is gone, which the log says once."""
        if "found" not in self._known:
            self._known["found"] = self._made_baselines()
        return self._known["found"]

    def _made_baselines(self) -> Baselines | None:
        if self._train is None:
            return None
        try:
            train = self._train_set
        except (ConfigError, DataError) as error:
            _log.warning("popularity and item-kNN are not told: the training log cannot be read: %s", error)
            return None
        if not isinstance(train, ClickDataset):
            return None
        return Baselines(self._signs(), train.clicks, self.body.item, self.body.history)

    def processor(self) -> ClickProcessor:
        """The schema, with what was learned from the training set, and the catalogue."""
        return ClickProcessor(self.schema, self.catalogue)

    @property
    def catalogue(self) -> list[str]:
        """The items of the training set."""
        if self._adopted_items:
            return self._adopted_items
        compared = getattr(self._train_set, "compared", None) if self._train is not None else None
        if compared is None:
            raise ConfigError(
                f"{type(self.body).__name__}: the items to retrieve are those of a training log in memory, such as "
                "ClickLog"
            )
        return list(compared[self._item])

    @property
    def _item(self) -> str:
        return self.body.fields.fields[self.body.item]

    def _signs(self) -> np.ndarray:
        """Of the catalogue, int64 [I]."""
        return signs_of([raw_bytes(text) for text in self.catalogue], self._schema.slots()[self._item])

    def item_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Signs int64 [I] and vectors float32 [I, H] of the catalogue, by the weights as they are now."""
        signs = self._signs()
        self.model.eval()
        with no_grad():
            return signs, self.body.items(self.model.table.lookup(tensor(signs))).numpy().copy()

    def item_index(self) -> ItemIndex:
        """The items of the catalogue by the weights as they are now.

        The recall of a graph is that for 200 users with drawn histories.
        """
        found = ItemIndex.build(self.catalogue, self.item_vectors()[1], self._drawn_users(200))
        if found.has_graph:
            _log.info("items: the graph finds %.4f of the best 20 of %d", found.recall, len(found.names))
        return found

    def _drawn_users(self, count: int) -> np.ndarray:
        """Vectors of users who saw up to 16 items of the catalogue, drawn alike in each run, float32 [count, H]."""
        processor, rng = self.processor(), np.random.default_rng(0)
        names, column = self.catalogue, self._schema.column_of(self.body.history)
        seen = [[names[i] for i in rng.integers(0, len(names), rng.integers(1, 17))] for _ in range(count)]
        batch = processor.prepare([{column: own} for own in seen])
        self.model.eval()
        with no_grad():
            x = self.model.embed({name: tensor(batch[name]) for name in self.eval_inputs})
            return self.body.users(x).numpy().copy()
