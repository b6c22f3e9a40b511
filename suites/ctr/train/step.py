"""CtrStep: one update of dense weights and of the rows that a batch touched, as one traced Program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from framework import Tensor, ops
from framework.errors import ConfigError
from framework.optim import Optimizer
from framework.table import RowOptimizer, Table
from suites.engine.contract.task import Task
from suites.engine.train.train_step import TrainStep, optimizer_of

if TYPE_CHECKING:
    from suites.ctr.network import TableNetwork
    from suites.ctr.tables import TableSettings
    from suites.engine.config.settings import Runtime

_TINY = 1e-12


class RowsTask(Task):
    """A task whose model looks rows up in a table.

    Attributes:
        table: in which its rows learn. What the network looks up in is this table, but for trainers of a cluster.
        table_settings: how they learn.
    """

    model: TableNetwork
    table: Table
    table_settings: TableSettings


class CtrStep(TrainStep):
    """A `TrainStep` whose rows learn by the rule of their table.

    Args:
        task: gives model, table and losses.
        optimizer: of the dense weights.
        clip_norm: bound on the joint norm of all gradients, if there is one.
        eager: run operator by operator, for debugging.
    """

    def __init__(
        self, task: RowsTask, optimizer: Optimizer, *, clip_norm: float | None = None, eager: bool = False
    ) -> None:
        super().__init__(task, optimizer, eager=eager)
        self._rows, self._factor = RowOptimizer([task.table]), task.table_settings.lr_factor
        self._most = clip_norm

    @classmethod
    def of(cls, task: Any, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> CtrStep:
        """The step that the settings of a run describe; ConfigError for those that rows do not have."""
        refuse_what_rows_lack(runtime)
        return cls(task, optimizer_of(task, make_optimizer), clip_norm=runtime.clip_norm, eager=runtime.eager)

    def _backward(self, inputs: dict[str, Tensor], shares: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self._rows.zero_grad()
        return super()._backward(inputs, shares)

    def _improve(self, lr: Tensor, decay: Tensor) -> None:
        factor = self._clipping()
        self._optimizer.step(lr, factor)
        self._rows.step(lr if self._factor == 1.0 else lr * self._factor, factor)

    def _clipping(self) -> Tensor | None:
        """The factor that brings the joint norm of all gradients down to the bound; None without one."""
        if self._most is None:
            return None
        dense = [p.grad for p in self._optimizer.params.values() if p.grad is not None]
        return clipping_factor(self._most, dense, self._rows.sum_of_squares())


def clipping_factor(most: float, grads: Sequence[Tensor], more: Tensor | None = None) -> Tensor:
    """The factor [] that brings the joint norm of gradients down to `most`; `more`: a further sum of squares []."""
    squares = [*([ops.sum_of_squares(grads)] if grads else []), *([] if more is None else [more])]
    norm = ops.sqrt(squares[0] + squares[1] if len(squares) > 1 else squares[0])
    return ops.minimum(most / (norm + _TINY), 1.0)


def refuse_what_rows_lack(runtime: Runtime) -> None:
    """Raise ConfigError for settings of a run that rows of a table do not have."""
    for name, wrong in (
        ("accumulate", runtime.accumulate != 1),
        ("ema", runtime.ema is not None),
        ("asgd", runtime.asgd is not None),
        ("precision", runtime.precision != "float32"),
    ):
        if wrong:
            raise ConfigError(f"runtime.{name}: rows of a table do not have it; leave it at its default")
