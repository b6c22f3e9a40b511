"""Asynchronous training over threads: each has a Program of its own, and none waits for another's step.

What it promises: every update of a row and of the dense weights is made, once and whole, and how old a gradient may be.
What it does not: the order of steps, and so the bits, which differ from run to run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from framework.errors import AttributeValueError
from framework.graph import program
from framework.optim import Optimizer
from framework.table.crew import Crew
from framework.table.optimizer import RowOptimizer
from framework.tensors import Tensor


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
        ahead: while a batch is not done, so many of those behind it may begin; 4 a thread by default. So the weights
            that a gradient comes from lack at most the updates of the `ahead` batches before its own.
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
        self._params = list(dense.params.values())
        self._dense, self._apply = dense, program(self._update)
        self._turn = threading.Lock()
        self._crew = Crew([self._work(program(self._worker(loss, rows))) for _ in range(threads)], ahead)

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
        futures: list[Future[float]] = []
        try:
            for batch in batches:
                futures.append(self._crew.submit(*batch))
        finally:
            self._crew.wait()
        return [future.result() for future in futures]

    def _work(self, step: Callable[..., Any]) -> Callable[..., float]:
        def work(*batch: Any) -> float:
            value, grads = step(*batch)
            with self._turn:
                self._apply(*grads)
            return float(value)

        return work
