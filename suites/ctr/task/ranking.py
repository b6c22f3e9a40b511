"""CtrTask: rows are ranked by the probability of each label, such as a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from framework import ops
from framework.tensors import Tensor
from suites.ctr.losses import ClickLoss, LogLoss
from suites.ctr.metrics import ClickScores
from suites.ctr.models.base import CtrModel, Embedded
from suites.ctr.schema import Schema
from suites.ctr.serving import PublishSettings
from suites.ctr.settings import EvalData, TrainData
from suites.ctr.tables import TableSettings
from suites.ctr.task.ground import ClickTask
from suites.ctr.train.hogwild import HogwildSettings
from suites.ctr.train.progressive import Progressive, ProgressiveSettings, progressive_plots
from suites.engine.config import Factory
from suites.engine.contract.losses import Kept, Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Plot
from suites.engine.train.hooks import Hook


@register("task", "ctr")
class CtrTask(ClickTask[CtrModel]):
    """A model of click-through rates with its table and its logs.

    Args:
        model: see `ClickTask`.
        schema: see `ClickTask`.
        train: see `ClickTask`.
        eval: see `ClickTask`.
        table: see `ClickTask`.
        loss: what is minimised.
        progressive: figures of predictions that are made before training on their rows.
        publish: see `ClickTask`.
        hogwild: see `ClickTask`.
        more_eval: see `ClickTask`.
    """

    main_metric = "auc"

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
        super().__init__(model, schema, train, eval, table=table, publish=publish, hogwild=hogwild, more_eval=more_eval)
        self._loss, self._progressive = loss or LogLoss(), progressive or ProgressiveSettings()

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss | Kept]:
        """The loss terms, and `scores` [N, L] as they were before the update."""
        labels = inputs["labels"]
        x = self.model.embed(inputs, clicks=labels[:, 0])
        logits = self.body(x)
        terms: dict[str, Loss | Kept] = dict(self._loss(self.body.fields.labels, logits, labels, inputs.get("weight")))
        for name, (mean, weight) in self.body.extra_losses(x, labels).items():
            terms[name] = Loss(mean, weight)
        return terms | {"scores": Kept(ops.sigmoid(logits))}

    def predicted(self, x: Embedded) -> dict[str, Tensor]:
        """`scores` float32 [N, L], the probability of each label."""
        return {"scores": ops.sigmoid(self.body(x))}

    def hooks(self) -> Sequence[Hook]:
        """Progressive figures, what leaves the table at the end of a pass, and publishing."""
        return [Progressive(self._progressive), *super().hooks()]

    @classmethod
    def run_plots(cls, run: Path) -> Sequence[Plot]:
        """The progressive figures."""
        return progressive_plots(run)

    def metric(self) -> Metric:
        """A new, empty metric."""
        return ClickScores(self.body.fields.labels)
