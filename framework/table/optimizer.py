"""The step of tables: applies each table's rule to the rows that were looked up since the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError, CheckpointError
from framework.table.table import Table
from framework.tensors import Tensor, tensor


class RowOptimizer:
    """Updates rows of tables, eagerly or in a traced Program, beside the optimizer of the dense parameters.

    >>> rows = RowOptimizer([table])
    >>> loss.backward()
    >>> dense.step()
    >>> rows.step()

    Args:
        tables: whose rows it updates, each by its own rule.
        lr: learning rate for all of them; by default each table's rule has its own.

    Attributes:
        lr_scaling: how the learning rate follows the batch where a schedule does not say.
    """

    lr_scaling: ClassVar[Literal["linear", "sqrt", "none"]] = "none"

    def __init__(self, tables: Iterable[Table], lr: float | None = None) -> None:
        self.tables = list(tables)
        if not self.tables:
            raise AttributeValueError("RowOptimizer: there are no tables to train")
        self._lr = {t.name: _rate(t.rule.lr if lr is None else lr, t.name) for t in self.tables}
        if len(self._lr) != len(self.tables):
            raise AttributeValueError(
                f"RowOptimizer: two tables have one name; names are {[t.name for t in self.tables]}"
            )

    def set_lr(self, lr: float) -> None:
        """Changes the learning rate of the coming steps, of all tables."""
        for rate in self._lr.values():
            rate.set(tensor(np.array(lr, np.float32)))

    def zero_grad(self) -> None:
        """Forgets what `backward()` left."""
        for table in self.tables:
            table.leaf.grad = None

    def step(self, lr: Tensor | None = None, grad_scale: Tensor | None = None) -> None:
        """One step of each table that has a gradient, which is used up: the next `backward()` begins from nothing.

        Args:
            lr: float32 [], in place of the tables' own.
            grad_scale: float32 [], factor on all gradients; where it is NaN or infinite nothing is updated.
        """
        with no_grad():
            for table in self.tables:
                gradient = table.leaf.grad
                if gradient is not None:
                    table.update_parts(gradient.parts, self._lr[table.name] if lr is None else lr, grad_scale)
                    table.leaf.grad = None

    def sum_of_squares(self) -> Tensor | None:
        """The sum of the squares of what the next step is given, [], for clipping by a joint norm; None for nothing.

        Gradients of one key are summed first. The root of this and the dense gradients' sum is their joint norm, and
        the factor that bounds it is the step's `grad_scale`.
        """
        total = None
        with no_grad():
            for table in self.tables:
                if table.leaf.grad is not None:
                    squares = table.sum_of_squares(table.leaf.grad.parts)
                    total = squares if total is None else total + squares
        return total

    def state_dict(self) -> dict[str, Tensor]:
        """The learning rates by table; rows and their state are in the tables' own files."""
        return {f"lr/{name}": rate for name, rate in self._lr.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes learning rates up.

        Raises:
            CheckpointError: they are of other tables.
        """
        own = self.state_dict()
        if own.keys() != state.keys():
            raise CheckpointError(
                f"RowOptimizer: this state is of tables {sorted(n[3:] for n in state)}; it has {sorted(self._lr)}"
            )
        for name, rate in own.items():
            value = state[name]
            rate.set(value if isinstance(value, Tensor) else tensor(np.asarray(value, np.float32)))


def _rate(lr: float, name: str) -> Tensor:
    t = tensor(np.array(lr, np.float32))
    t.persistable, t.name = True, f"rows/{name}/lr"
    return t
