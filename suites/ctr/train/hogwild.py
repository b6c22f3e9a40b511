"""HogwildStep: updates of several threads at the same time, each with a Program and an arena of its own.

What it promises: every update of a row and of the dense weights is made, once and whole, and how old a gradient may be.
What it does not: the order of updates, and so the bits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import Tensor, from_numpy, program
from framework.errors import AttributeValueError, ConfigError
from framework.optim import Optimizer
from framework.table.crew import Crew
from suites.ctr.train.step import CtrStep, RowsTask, refuse_what_rows_lack
from suites.engine.contract.step import Update
from suites.engine.train.train_step import optimizer_of

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.batch import Batch


@dataclass(frozen=True)
class HogwildSettings:
    """Asynchronous training over threads of one process.

    Args:
        threads: batches that are worked on at the same time, each with one thread of the kernels.
        ahead: batches that may begin while one is not done, and so how many updates a gradient may lack at most; null
            for 4 a thread.
    """

    threads: int = 2
    ahead: int | None = None

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise AttributeValueError(f"hogwild: threads is {self.threads}; it must be 1 or more")
        if self.ahead is not None and self.ahead < 0:
            raise AttributeValueError(f"hogwild: ahead is {self.ahead}; it must be 0 or more, or null")


class HogwildStep(CtrStep):
    """A `CtrStep` that hands its batch to a thread and returns; what came of it is known when it is looked at.

    Whoever reads the weights waits for all updates first: evaluation, checkpoints, publications and the end of a pass.

    Args:
        task: gives model, table and losses.
        optimizer: of the dense weights; threads take turns at it.
        settings: see there.
        clip_norm: bound on the joint norm of all gradients of a batch, if there is one.
    """

    def __init__(
        self, task: RowsTask, optimizer: Optimizer, settings: HogwildSettings, *, clip_norm: float | None = None
    ) -> None:
        super().__init__(task, optimizer, clip_norm=clip_norm)
        self._params = list(optimizer.params.values())
        self._apply_dense = program(self._update_dense)
        self._turn = threading.Lock()
        self._model_name = type(task.model.body).__name__
        self._crew: Crew[Update] = Crew([self._worker() for _ in range(settings.threads)], settings.ahead)
        self.ahead = self._crew.ahead
        self._threads_before: int | None = None  # of the kernels, while updates are on their way

    @classmethod
    def of(cls, task: Any, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> HogwildStep:
        """The step that the settings of a run describe; ConfigError for what threads cannot do."""
        assert task.hogwild is not None
        refuse_what_rows_lack(runtime)
        if runtime.eager:
            raise ConfigError("runtime.eager: is on, but `hogwild` runs Programs; turn one of them off")
        if runtime.device != "cpu":
            raise ConfigError(
                f"runtime.device: is {runtime.device}, but `hogwild` trains on threads of the CPU; set hogwild to null"
            )
        return cls(task, optimizer_of(task, make_optimizer), task.hogwild, clip_norm=runtime.clip_norm)

    def _worker(self) -> Callable[[dict[str, Tensor], Tensor], Update]:
        """What one thread does with a batch; a Program, its plans and its arena are this thread's."""
        learn = program(self._learn)
        checked = False

        def work(inputs: dict[str, Tensor], lr: Tensor) -> Update:
            nonlocal checked
            if not checked:
                refuse_states(learn.program_for(inputs, lr).program, self._model_name)
                checked = True
            terms, grads, factor = learn(inputs, lr)
            with self._turn:
                self._apply_dense(grads, lr, factor)
            losses, scalars, kept = self._parts(terms)
            as_numbers = [{name: float(t) for name, t in part.items()} for part in (losses, scalars)]
            return Update(as_numbers[0], as_numbers[1], kept)

        return work

    def _learn(
        self, inputs: dict[str, Tensor], lr: Tensor
    ) -> tuple[dict[str, Tensor], list[Tensor | None], Tensor | None]:
        """Losses and dense gradients of a batch, and the update of its rows; what each thread traces."""
        losses = self._backward(inputs, {})
        factor = self._clipping()
        self._rows.step(lr if self._factor == 1.0 else lr * self._factor, factor)
        grads = [p.grad for p in self._params]
        for p in self._params:
            p.grad = None
        return losses, grads, factor

    def _update_dense(self, grads: list[Tensor | None], lr: Tensor, factor: Tensor | None) -> Tensor:
        for p, grad in zip(self._params, grads, strict=True):
            p.grad = grad
        self._optimizer.step(lr, factor)
        for p in self._params:
            p.grad = None
        return lr

    def update(self, batches: Sequence[Batch], lr: float) -> Update:
        """Hand a batch over; raises what went wrong with one before it."""
        if self._threads_before is None:
            self._threads_before = framework.num_threads()
            framework.set_num_threads(1)
        return Later(self._crew.submit(self._inputs(batches[0]), from_numpy(np.array(lr, np.float32))), self._crew)

    def settle(self) -> None:
        """Wait until all updates that were handed over are made; raises what went wrong with one."""
        if self._threads_before is None:
            return
        try:
            self._crew.wait()
        finally:
            framework.set_num_threads(self._threads_before)
            self._threads_before = None

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Inside, the weights stand still, with all updates made."""
        self.settle()
        yield

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the run goes on but the order of updates."""
        self.settle()
        return super().state_dict()


class Later(Update):
    """What an update will have come to; who looks at it waits.

    Args:
        future: gets it.
        crew: that is at it.
    """

    def __init__(self, future: Future[Update], crew: Crew[Update]) -> None:
        super().__init__({})
        self._future, self._crew = future, crew

    @property
    def done(self) -> bool:
        """Whether nobody would have to wait."""
        return self._future.done()

    def _made(self) -> Update:
        if not self._future.cancelled():
            return self._future.result()
        self._crew.wait()  # raises the error of the update before it
        raise AssertionError("an update is left out only for an error")

    @property
    def losses(self) -> dict[str, float]:
        """See `Update`."""
        return self._made().losses

    @property
    def scalars(self) -> dict[str, float]:
        """See `Update`."""
        return self._made().scalars

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """See `Update`."""
        return self._made().arrays


def refuse_states(traced: Any, model: str) -> None:
    """Raise ConfigError for a step that sets a state, of which each thread would undo the others'."""
    names = sorted(t.name or "a state" for value, t in traced.states.items() if value in traced.updates)
    if names:
        raise ConfigError(
            f"hogwild: a step of {model} sets {', '.join(names[:3])}, such as dropout and "
            "batch norm do; set dropout to 0 and use layers without running statistics, or leave `hogwild` out"
        )
