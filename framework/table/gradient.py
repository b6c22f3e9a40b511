"""The gradient of look-ups: rows and values, from the tape to the table's step, eagerly and in a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from framework.autograd import saved, tape
from framework.context import context
from framework.errors import GradientError, TraceError
from framework.graph.trace import user_line
from framework.tensors import Tensor


class LookUpGradient(NamedTuple):
    """Of one look-up: keys int64 [...], gradient float32 [..., dim], clicks float32 [m] (m divides the keys; or 0)."""

    keys: Tensor
    values: Tensor
    clicks: Tensor


class RowGradient:
    """The gradient of a table: a `LookUpGradient` each look-up. Adding two joins these; the step sums equal keys."""

    _data = None  # it is no memory that a tensor could share

    def __init__(self, parts: Sequence[LookUpGradient]) -> None:
        self.parts = tuple(parts)

    def __add__(self, other: RowGradient) -> RowGradient:
        return RowGradient(self.parts + other.parts)


class RowsLeaf(Tensor):
    """Stands for all rows of a table on the tape: a leaf whose `grad` is a `RowGradient`.

    While a function is traced its gradient belongs to that trace, and has to be used up by a step there.
    """

    __slots__ = ("_table",)  # its name

    def __init__(self, table: str) -> None:
        super().__init__(None, requires_grad=True)
        self._table = table

    @property
    def grad(self) -> Any:
        """What `backward()` left of the table's look-ups; None where there is nothing."""
        trace = context.trace
        return self._grad if trace is None else trace.row_gradients.get(self)

    @grad.setter
    def grad(self, value: Any) -> None:
        trace = context.trace
        if trace is None:
            self._grad = value
        elif value is None:
            trace.row_gradients.pop(self, None)
        else:
            trace.row_gradients[self] = value

    def left_over(self) -> str:
        """The message for a gradient that nobody used when its trace ended."""
        return (
            f"program: backward() gave table '{self._table}' a gradient of its rows, and no step used it; call "
            "step() of its RowOptimizer in the same function: it cannot leave the Program"
        )


class LookupNode(tape.Node):
    """A look-up on the tape."""

    __slots__ = ("_clicks", "_keys", "_name")

    def __init__(self, name: str, leaf: RowsLeaf, keys: Tensor, clicks: Tensor) -> None:
        self.start([leaf], [None])
        self._name, self._keys, self._clicks = name, saved.keep(keys), saved.keep(clicks)

    @property
    def name(self) -> str:
        """For messages."""
        return f"lookup of table {self._name}"

    def gradients(self, dys: Sequence[Tensor | None]) -> Sequence[Any]:
        """The rows' gradient: what reached the values, beside their keys."""
        (dy,) = dys
        if dy is None:
            return [None]
        if self._keys is None:
            raise GradientError(f"backward: the history of the {self.name} was freed")
        return [RowGradient([LookUpGradient(saved.kept(self._keys), dy, saved.kept(self._clicks))])]

    def free(self) -> None:
        """Lets go of the keys after they have been used."""
        super().free()
        self._keys = self._clicks = None


def refuse_block(who: str) -> None:
    """Raises TraceError in the body of cond, scan or while_loop."""
    trace = context.trace
    if trace is not None and not trace.takes_resources:
        raise TraceError(
            f"{who}: a table cannot be used in the body of cond, while_loop or scan, at {user_line()}; look its rows "
            "up before it and pass them in"
        )
