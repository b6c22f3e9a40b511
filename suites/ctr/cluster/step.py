"""RemoteStep: one update of a trainer's dense weights, and the gradient of the rows that its batch touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from framework import Tensor, from_numpy, ops, program
from framework.optim import Optimizer
from suites.ctr.cluster.rows import BatchRows
from suites.ctr.train.step import clipping_factor, refuse_what_rows_lack
from suites.engine.contract.step import Update
from suites.engine.train.train_step import TrainStep

if TYPE_CHECKING:
    from suites.ctr.task.ground import ClickTask
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.batch import Batch


class RemoteStep(TrainStep):
    """A `TrainStep` that is given its rows and gives their gradient back.

    Args:
        task: whose model has `BatchRows` for a table.
        optimizer: of the dense weights.
        runtime: settings of the run.
    """

    def __init__(self, task: ClickTask, optimizer: Optimizer, runtime: Runtime) -> None:
        refuse_what_rows_lack(runtime)
        super().__init__(task, optimizer, eager=runtime.eager)
        table = task.model.table
        assert isinstance(table, BatchRows)
        self._rows, self._most = table, runtime.clip_norm
        self._learn = self._compute_all if runtime.eager else program(self._compute_all)

    def learn(self, batch: Batch, rows: np.ndarray, lr: float) -> tuple[Update, np.ndarray]:
        """Make one update; returns what it came to and the gradient of `rows`, both float32 [U, R]."""
        self._task.model.train()
        inputs = {name: from_numpy(batch[name]) for name in self.inputs}
        given = from_numpy(rows)
        given.requires_grad = True
        terms, grads = self._learn(inputs, given, from_numpy(np.array(lr, np.float32)))
        self.updates += 1
        return Update(*self._parts(terms)), grads.numpy()

    def _compute_all(self, inputs: Mapping[str, Tensor], rows: Tensor, lr: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """What is traced."""
        self._rows.hold(rows)
        losses = self._backward(dict(inputs), {})
        grads = ops.full_like(rows.detach(), value=0.0) if rows.grad is None else rows.grad
        factor = None
        if self._most is not None:
            dense = [p.grad for p in self._optimizer.params.values() if p.grad is not None]
            factor = clipping_factor(self._most, [*dense, grads])
            grads = grads * factor
        self._optimizer.step(lr, factor)
        return losses, grads
