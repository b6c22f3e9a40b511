"""Table: rows of numbers by 64-bit keys, made when a key is first seen, kept in the native core.

A table is a *resource* of a Program: a look-up and a step are operations of it, but the rows are no state. They grow,
they have their own files, and a run that fails does not put them back. docs/explanation/tables.md says what follows
from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framework import _core
from framework.autograd import tape
from framework.context import context
from framework.errors import CheckpointError, DTypeError
from framework.ops import registry
from framework.table import files, snapshot
from framework.table.gradient import LookUpGradient, LookupNode, refuse_block
from framework.table.state import TableState
from framework.tensors import Tensor, from_numpy, tensor

Keys = Tensor | np.ndarray | Sequence[int]


@dataclass(frozen=True)
class TableStats:
    """What a table holds and what happened to it.

    Attributes:
        rows: keys with a row.
        candidates: keys that wait for their admission.
        row_bytes: memory of blocks of rows.
        index_bytes: memory of the index.
        admitted: rows made since the start.
        rejected: keys of steps that had no row and got none.
        evicted: rows removed by `shrink` or by the limit.
        missed: keys looked up that had no row.
        steps: updates of the table.
        slots: rows by the top 12 bits of their keys, for slots that have some.
    """

    rows: int
    candidates: int
    row_bytes: int
    index_bytes: int
    admitted: int
    rejected: int
    evicted: int
    missed: int
    steps: int
    slots: dict[int, int]

    @property
    def bytes(self) -> int:
        """Memory of rows and index."""
        return self.row_bytes + self.index_bytes


class Table(TableState):
    """Rows of `dim` numbers by key. Any 64-bit key is valid, as int64 bits: 0, -1 and all between.

    >>> table = Table(17, rule=Adam(lr=1e-3), init=[(1, Zeros()), (16, Normal(1e-2))], name="signs")
    >>> rows = table.lookup(keys)  # float32 [*keys.shape, 17]

    Results do not depend on the number of threads, nor rows on the order in which keys come. Methods may be called from
    several threads; an update of a row is then never lost or torn, and which of two comes first is open.

    Args:
        dim: columns of a row.
        rule: how rows learn; see `framework.table.rules`.
        init: initial values, or (columns, initial values) pairs side by side.
        admission: when a key gets a row; by default in the first step that has it.
        eviction: what `shrink` removes; by default nothing.
        limit: the most it holds; by default no limit.
        show_weight: score = (show - click) * show_weight + click * click_weight.
        click_weight: see there.
        seed: of initial values and of admission by chance.
        name: for messages, files and the optimizer's state.
        buckets: a power of two: parts with a lock each, which threads share out.
    """

    # -- training
    def lookup(self, keys: Keys, clicks: Tensor | np.ndarray | None = None) -> Tensor:
        """Rows by key: float32 [*keys.shape, dim].

        Where gradients are recorded, a key without a row reads as the row that its first step will make (as zeros with
        an `admission`), and `backward()` leaves a gradient for `RowOptimizer.step`. Under `no_grad()` it reads as zeros
        and nothing is left. A look-up itself makes no rows.

        Args:
            keys: int64, any shape.
            clicks: float32, one for each key or for each of equal runs of keys (labels [N] for keys [N, F]); the step
                adds them to the rows' clicks, as it adds an occurrence to their shows.

        Raises:
            DTypeError, ShapeError: keys are no int64, or clicks do not fit them.
            TraceError: in the body of cond, scan or while_loop.
        """
        refuse_block(f"lookup of table '{self.name}'")
        k = self._as_keys(keys)
        train = context.grad_enabled
        trace = context.trace
        y = (
            trace.record(self._gather, [k], (train,))
            if trace is not None
            else Tensor(self._native.lookup(k.array(), train))
        )
        if train:
            tape.attach(LookupNode(self.name, self.leaf, k, _as_floats(clicks)), [y])
        return y

    def update(
        self,
        keys: Keys,
        grads: Tensor | np.ndarray,
        lr: float | Tensor | None = None,
        *,
        clicks: Tensor | np.ndarray | None = None,
    ) -> None:
        """One step of the rule by hand: equal keys are summed in order, rows are made where there are none.

        Args:
            keys: int64, any shape.
            grads: float32 [*keys.shape, dim].
            lr: learning rate; the rule's by default.
            clicks: see `lookup`.

        Raises:
            StateError: the table would pass its limit; no row has changed.
        """
        rate = self.rule.lr if lr is None else lr
        part = LookUpGradient(self._as_keys(keys), _as_floats(grads), _as_floats(clicks))
        self.update_parts([part], rate if isinstance(rate, Tensor) else _as_floats(rate), None)

    def update_parts(self, parts: Sequence[LookUpGradient], lr: Tensor, grad_scale: Tensor | None) -> None:
        """One step for the look-ups' gradients `parts`; `lr`, `grad_scale`: float32 []."""
        refuse_block(f"step of table '{self.name}'")
        self._apply(self._update, [lr, grad_scale, *(t for part in parts for t in part)], ())

    def sum_of_squares(self, parts: Sequence[LookUpGradient]) -> Tensor:
        """Of the look-ups' gradients, those of equal keys summed first: float32 []."""
        y: Tensor = self._apply(self._squares, [t for part in parts for t in part], ())
        return y

    def _apply(self, info: registry.OpInfo, inputs: Sequence[Tensor | None], attrs: tuple[Any, ...]) -> Any:
        trace = context.trace
        if trace is not None:  # also where no input is traced: it runs at each run
            return trace.record(info, inputs, attrs)
        out = _core.call(info.native, tuple([None if x is None else x.array() for x in inputs]), attrs)
        return Tensor(out) if info.outputs else None

    def _as_keys(self, keys: Keys) -> Tensor:
        t = keys if isinstance(keys, Tensor) else from_numpy(np.ascontiguousarray(_signed(keys)))
        if t.dtype != "int64":
            raise DTypeError(f"table '{self.name}': keys are {t.dtype} but must be int64")
        return t

    # -- its life
    def shrink(self) -> int:
        """The end of a pass: shows and clicks decay, `eviction` removes rows; returns how many."""
        self.passes += 1
        return int(self._native.shrink(0, self._native.buckets))

    def forget(self, keys: Keys) -> int:
        """Removes rows, and what is known of keys without one; returns how many rows there were."""
        return int(self._native.forget(self._as_keys(keys).array()))

    def set_shows(self, keys: Keys, shows: np.ndarray, clicks: np.ndarray) -> int:
        """Sets the counters of the keys that have a row; returns how many have."""
        arrays = [_as_floats(np.asarray(a, np.float32)).array() for a in (shows, clicks)]
        return int(self._native.set_counts(self._as_keys(keys).array(), *arrays))

    def counts(self, keys: Keys) -> np.ndarray:
        """show, click, ends of passes since the last update, updates: float32 [n, 4]; -1 for a key without a row."""
        return np.asarray(Tensor(self._native.counts(self._as_keys(keys).array())).numpy())

    # -- files
    def save(self, path: Path | str, *, parts: int | None = None) -> str:
        """Writes everything into a new folder; see `framework.table.files.save`."""
        return files.save(self, path, parts=parts)

    def save_delta(self, path: Path | str, *, parts: int | None = None) -> str:
        """Writes what changed since the last save or load into a new folder; see `framework.table.files.save_delta`."""
        return files.save_delta(self, path, parts=parts)

    def load(self, path: Path | str, deltas: Sequence[Path | str] = ()) -> None:
        """Replaces the rows by those of a base and its deltas; see `framework.table.files.load`."""
        files.load(self, path, deltas)

    def load_delta(self, path: Path | str) -> None:
        """Takes up one more delta; see `framework.table.files.load_delta`."""
        files.load_delta(self, path)

    @classmethod
    def open(cls, path: Path | str, deltas: Sequence[Path | str] = (), **options: Any) -> Table:
        """The table of a base and its deltas, made as the base says.

        Args:
            path: folder of the base.
            deltas: those of the deltas, in order.
            options: arguments of `Table` that files lack or that are to be others, such as `limit`.

        Raises:
            CheckpointError: see `load`.
        """
        arguments = files.arguments_of(path)
        try:
            cls(**arguments)
        except (TypeError, ValueError) as e:
            raise CheckpointError(f"{path}: describes no table ({type(e).__name__}: {e})") from e
        table = cls(**arguments | options)
        table.load(path, deltas)
        return table

    def export_text(self, path: Path | str) -> int:
        """Writes rows as text, one a line; see `framework.table.files.export_text`."""
        return files.export_text(self, path)

    def snapshot(
        self, path: Path | str, dtype: Literal["float32", "float16", "int8"] = "float32", *, delta: bool = False
    ) -> str:
        """Publishes rows for serving, all or those that changed; see `framework.table.snapshot.write`."""
        return snapshot.write(self, path, dtype, delta=delta)

    # -- what is in it
    def __contains__(self, key: int) -> bool:
        return bool(self.counts([key])[0, 0] >= 0)

    def stats(self) -> TableStats:
        """Rows, bytes and counters."""
        slots = Tensor(self._native.rows_by_slot()).numpy()
        return TableStats(**self._native.stats(), slots={int(i): int(slots[i]) for i in np.flatnonzero(slots)})

    def __repr__(self) -> str:
        return f"Table({self.name!r}, dim={self.dim}, {len(self)} rows, {self.rule})"


def _signed(keys: Any) -> np.ndarray:
    """Keys as int64: unsigned ones by their bits."""
    array = np.asarray(keys) if isinstance(keys, np.ndarray) else _from_ints(keys)
    return array.view(np.int64) if array.dtype == np.uint64 else array


def _from_ints(keys: Sequence[int]) -> np.ndarray:
    flat = np.asarray(keys, dtype=object)
    return np.array([((int(k) + 2**63) % 2**64) - 2**63 for k in flat.ravel()], np.int64).reshape(flat.shape)


def _as_floats(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    return tensor(np.zeros(0, np.float32)) if x is None else tensor(np.asarray(x, np.float32))
