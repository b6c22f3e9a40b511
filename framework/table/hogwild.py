"""Asynchronous training over threads: each has a Program of its own, and none waits for another's step.

What it promises: every update of a row and of the dense weights is made, once and whole, and how old a gradient may be.
What it does not: the order of steps, and so the bits, which differ from run to run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from framework.errors import AttributeValueError
from framework.graph import program
from framework.optim import Optimizer
from framework.table.optimizer import RowOptimizer
from framework.tensor import Tensor

_END = object()


class Hogwild:
    """Steps of several threads on one model (Niu et al. 2011, for the rows; the dense weights are updated in turns).

    Each thread traces `loss` for itself, so it has plans and an arena of its own. In a step it computes gradients,
    updates its batch's rows, then takes its turn at the dense optimizer. Run it with `framework.set_num_threads(1)`:
    the threads are the parallelism.

    >>> hogwild = Hogwild(loss, dense, rows, threads=2)
    >>> losses = hogwild.run(batches)

    Args:
        loss: of a batch's arrays, float32 []; it must not set states (no batch norm in training mode, no dropout).
        dense: of the dense weights.
        rows: of the tables.
        threads: how many batches are worked on at the same time.
        ahead: while a batch is at work, so many of those behind it may begin; 4 a thread by default. So the weights
            that a gradient comes from lack at most the updates of `ahead` later batches and of the other threads.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor],
        dense: Optimizer,
        rows: RowOptimizer,
        *,
        threads: int = 2,
        ahead: int | None = None,
    ) -> None:
        if threads < 1:
            raise AttributeValueError(f"Hogwild: threads is {threads}; it must be 1 or more")
        if ahead is not None and ahead < 0:
            raise AttributeValueError(f"Hogwild: ahead is {ahead}; it must be 0 or more")
        self._ahead = 4 * threads if ahead is None else ahead
        self._params = list(dense.params.values())
        self._workers = [program(self._worker(loss, rows)) for _ in range(threads)]
        self._dense, self._apply = dense, program(self._update)
        self._turn = threading.Lock()
        self._changed = threading.Condition()  # of the batches at work
        self._at_work: set[int] = set()

    def _worker(self, loss: Callable[..., Tensor], rows: RowOptimizer) -> Callable[..., Any]:
        def step(*batch: Tensor) -> tuple[Tensor, list[Tensor | None]]:
            for p in self._params:
                p.grad = None
            rows.zero_grad()
            value = loss(*batch)
            value.backward()
            rows.step()
            grads = [p.grad for p in self._params]
            for p in self._params:
                p.grad = None
            return value, grads

        return step

    def _update(self, *grads: Tensor | None) -> None:
        for p, g in zip(self._params, grads, strict=True):
            p.grad = g
        self._dense.step()
        for p in self._params:
            p.grad = None

    def run(self, batches: Iterable[Sequence[Any]]) -> list[float]:
        """Takes one step for each batch and returns their losses, in the order of the batches.

        An error in a step, or in the source of batches, ends all threads after the steps they are at and is raised.
        """
        work: queue.Queue[Any] = queue.Queue(2 * len(self._workers))
        losses: dict[int, float] = {}
        errors: list[BaseException] = []
        threads = [threading.Thread(target=self._loop, args=(w, work, losses, errors)) for w in self._workers]
        for t in threads:
            t.start()
        try:
            for item in _until(errors, enumerate(batches)):
                work.put(item)
        finally:
            for _ in threads:
                work.put(_END)
            for t in threads:
                t.join()
        if errors:
            raise errors[0]
        return [losses[i] for i in sorted(losses)]

    def _loop(self, worker: Any, work: queue.Queue[Any], losses: dict[int, float], errors: list[BaseException]) -> None:
        while (item := work.get()) is not _END:
            if errors:  # what waits is taken out, so that nobody waits for room
                continue
            number, batch = item
            self._begin(number)
            try:
                value, grads = worker(*batch)
                with self._turn:
                    self._apply(*grads)
                losses[number] = float(value)
            except BaseException as e:
                errors.append(e)
            finally:
                with self._changed:
                    self._at_work.discard(number)
                    self._changed.notify_all()

    def _begin(self, number: int) -> None:
        """Waits until the oldest batch at work is near enough."""
        with self._changed:
            self._at_work.add(number)
            self._changed.wait_for(lambda: number - min(self._at_work) <= self._ahead)


def _until(errors: Sequence[BaseException], items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if errors:
            return
        yield item
