"""TrainingLoop: the training loop, and nothing else; everything around it is a Hook.

Everything that decides the next step is in `state_dict`, so a run continued from a checkpoint gives the same
weights, bit for bit, as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from framework.data import Source
from framework.data.world import ALONE, World
from framework.errors import CheckpointError, NumericsError, PaddockError, WorkerError
from framework.system.signals import ENDING, HANGUP
from suites.engine.contract.resources import FOLDER, load_resources, resources_of
from suites.engine.data.identity import data_digest
from suites.engine.run.log import RunLog

if TYPE_CHECKING:
    from framework import Tensor
    from framework.optim import LossScaler
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.step import Step, Update
    from suites.engine.contract.task import Task
    from suites.engine.hosts.agreement import Agreement

LAST_WORDS = 1.0  # seconds in which a signal is waited for where a worker ended first
_ECHO = 3.0  # seconds in which one signal comes twice: of a batch system, and handed on by the parent


class Hook:
    """Base of all hooks; does nothing at every point.

    At each point hooks run by `priority`, the lowest first, and in the order they were given among equals.
    `name` keys the hook's state in a checkpoint. The loop calls them so:

        before_train
        after_resume                    # only if the run continues from a checkpoint
        while steps are left and nothing ends the run:
            read the update's batches
            before_step
            forward, backward, update   # loop.step counts it
            after_step                  # in it, at times, by the hooks that evaluate and save:
                before_keeping
                during_evaluation       # after each batch of an evaluation
                after_evaluation
        after_train                     # after_failure in its place, after an error between two steps
        close
    """

    priority: ClassVar[int] = 50

    @property
    def name(self) -> str:
        """The class's name."""
        return type(self).__name__

    def before_train(self, loop: TrainingLoop) -> None:
        """Before the first step, after a checkpoint was loaded."""

    def after_resume(self, loop: TrainingLoop) -> None:
        """After `before_train` of all hooks, if the run continues from a checkpoint."""

    def before_step(self, loop: TrainingLoop) -> None:
        """After the update's batches were read into `loop.batches`."""

    def after_step(self, loop: TrainingLoop) -> None:
        """After the update; `loop.step` counts it and `loop.update` has its numbers, which are read if looked at."""

    def before_keeping(self, loop: TrainingLoop) -> None:
        """Before an evaluation or a checkpoint; an error here keeps the step from being evaluated or saved."""

    def during_evaluation(self, loop: TrainingLoop, done: int, total: int) -> None:
        """After each batch of an evaluation: `done` of `total`, which is 0 where nobody counted."""

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """After an evaluation, with its figures."""

    def after_train(self, loop: TrainingLoop) -> None:
        """After the last step, also when stopped early or by Ctrl-C; not after an error."""

    def after_failure(self, loop: TrainingLoop) -> None:
        """After an error between two steps, in place of `after_train`: the weights are those of `loop.step`."""

    def close(self, loop: TrainingLoop) -> None:
        """At the very end, also after an error."""

    def state_dict(self) -> dict[str, Any]:
        """Return what must be saved to continue exactly: numbers, strings, arrays, and dicts and lists of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned."""


class _BrokenOff(BaseException):
    """The run was told to end while it waited for data."""


class TrainingLoop:
    """Draws batches, runs the step, calls the hooks.

    Attributes:
        task: model, losses and metric.
        step: updates done so far.
        total_steps: updates of the whole run.
        batches: the batches at hand, whose gradients are averaged: one, unless `accumulate` is above 1.
        update: what the last step came to; its numbers are read when somebody looks.
        lr: learning rate of the last step.
        step_seconds: time of the last step, waiting for its batch included.
        wait_seconds: time the last step waited for its batch.
        interrupted: Ctrl-C was pressed, or SIGTERM or SIGHUP came; the run ends after this step.
        outcome: what the evaluations came to, in words for the run's last line.
        log: where lines for people go.
        folder: that of the run, for files that hooks keep; None where there is none.
        world: which of how many processes this is; what hooks write, the first alone writes.
    """

    def __init__(
        self,
        task: Task,
        step: Step,
        loader: Source,
        *,
        total_steps: int,
        learning_rate: Callable[[int], float],
        log: RunLog,
        hooks: Sequence[Hook] = (),
        accumulate: int = 1,
        folder: Path | None = None,
        world: World = ALONE,
        agreement: Agreement | None = None,
    ) -> None:
        self.task = task
        self.total_steps = total_steps
        self.log = log
        self.folder = folder
        self.world = world
        self.step = 0
        self.batches: list[Batch] = []
        self.update: Update | None = None
        self.lr = 0.0
        self.step_seconds = 0.0
        self.wait_seconds = 0.0
        self.interrupted = False
        self.outcome = ""
        self._step = step
        self._loader = loader
        self._accumulate = accumulate
        self._learning_rate = learning_rate
        self._hooks = sorted(hooks, key=lambda hook: hook.priority)
        self._stopped = False
        self._agreement = agreement  # of several hosts, which have to end at the same step
        self._told_to_end: float | None = None  # when
        self._data = data_digest(loader.dataset)
        self._failure: PaddockError | None = None  # that ends the run after this step
        self._whole = True  # else weights, optimizer, hooks or the loader may be in the middle of a step
        self._terminal_gone = False
        self._may_break_off = False  # it waits for data, which a signal may end
        self._pass, self._pass_ended = 0, False  # of a stream

    @property
    def loader(self) -> Source:
        """What gives the batches."""
        return self._loader

    @property
    def counted(self) -> bool:
        """Whether somebody counted the batches of an epoch; of a stream nobody did."""
        return self._loader.length is not None

    @property
    def steps_per_epoch(self) -> int:
        """Updates an epoch has, whose last may average over fewer batches; without a length the run is one epoch."""
        length = self._loader.length
        return self.total_steps if length is None else -(-length // self._accumulate)

    @property
    def epoch(self) -> int:
        """The epoch of the last step, from 0."""
        return max(self.step - 1, 0) // self.steps_per_epoch

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step ended an epoch."""
        return self.step > 0 and self.step % self.steps_per_epoch == 0

    @property
    def pass_ended(self) -> bool:
        """Whether the last step saw the last batch of a pass over the data: of an epoch, or of what a stream says."""
        return self.epoch_ended if self.counted else self._pass_ended

    @property
    def passes(self) -> int:
        """The pass of the last step, from 0."""
        return self.epoch if self.counted else self._pass

    @property
    def losses(self) -> dict[str, float]:
        """Loss terms of the last step by name; read now."""
        return {} if self.update is None else self.update.losses

    @property
    def scaler(self) -> LossScaler | None:
        """The loss scale and its counts of skipped updates, where the loss is scaled."""
        return self._step.scaler

    @property
    def ending(self) -> bool:
        """Whether no step follows, other than for Ctrl-C."""
        return self.step >= self.total_steps or self._stopped

    def train(self) -> None:
        """Train to the end, or until a hook calls `stop` or Ctrl-C, SIGTERM or SIGHUP comes; a second stops at once."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._loader.close)
            stack.callback(self.call, "close")
            stack.enter_context(self._catch_signals())
            self.call("before_train")
            try:
                self._steps()
            except Exception as error:
                self._keep_what_there_is(error)
                raise
            self.call("after_train")

    def told_to_end(self, patience: float = 0.0) -> bool:
        """Whether Ctrl-C, SIGTERM or SIGHUP came, or comes within `patience` seconds.

        A batch system tells all processes of a job to end, and any of them may be the first to do so.
        """
        until = time.monotonic() + patience
        while self._told_to_end is None and time.monotonic() < until:
            time.sleep(0.02)
        return self._told_to_end is not None

    def fail(self, error: PaddockError) -> None:
        """End the run with this error once all hooks have seen this step; what was trained is saved before."""
        self._failure = self._failure or error

    def stop(self, reason: str, after: int | None = None) -> None:
        """End the run after this step, or the one that is named."""
        self.log.say(f"stopped early at step {self.step if after is None else after}: {reason}")
        self._stopped = True

    def call(self, point: str, *args: Any) -> None:
        """Call all hooks at `point`."""
        for hook in self._hooks:
            getattr(hook, point)(self, *args)

    @property
    def averages_later(self) -> bool:
        """Whether the step keeps an average that has not begun."""
        return self._step.averages_later

    def average_from_now(self) -> None:
        """Let the step's average begin with the next update."""
        self._step.average_from_now()

    def evaluation_weights(self) -> contextlib.AbstractContextManager[None]:
        """Inside, the model has the weights that are evaluated: the moving average where there is one."""
        return self._step.averaged_weights()

    def deploy_weights(self) -> dict[str, Tensor]:
        """Return the weights that are evaluated and exported, by name; they are valid until the next step."""
        with self._step.averaged_weights():
            return {name: tensor.detach() for name, tensor in self.task.model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run continues."""
        return {
            **self._step.state_dict(),
            "trainer": {
                "step": self.step,
                "stopped": self._stopped,
                "loader": self._loader.state_dict(),
                "data": self._data,
            },
            "hooks": {hook.name: state for hook in self._hooks if (state := hook.state_dict())},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if it does not belong to this run."""
        saved = state["trainer"].get("data", "")
        if saved and self._data and saved != self._data:
            raise CheckpointError(
                "the training set is another one than this run began with: names, order, sizes or labels of its "
                "samples differ; put back the data that it had, or start anew under another --name, with "
                "runtime.weights for its weights"
            )
        self._step.load_state_dict(state)
        load_resources(state.get(FOLDER), resources_of(self.task), "checkpoint")
        self._loader.load_state_dict(state["trainer"]["loader"])
        self.step = state["trainer"]["step"]
        self._stopped = state["trainer"]["stopped"]
        for hook in self._hooks:
            if hook.name in state["hooks"]:
                hook.load_state_dict(state["hooks"][hook.name])

    def _one_step(self, batches: Iterator[Batch]) -> None:
        started, waited = time.perf_counter(), self._loader.wait_seconds
        if self._terminal_gone:
            self._terminal_gone = False
            self.log.keep("the terminal is gone; the run goes on without it")
        count, length = self._accumulate, self._loader.length
        if length is not None:
            count = min(count, length - self.step % self.steps_per_epoch * count)
        if not self.counted:
            self._pass = self._loader.passes_over
        if not self._read(batches, count):
            return
        if not self.counted:
            self._pass_ended = self._loader.passes_over > self._pass
            if self._loader.ended:  # before the hooks, for which this is the last step
                self.stop("the log has ended", after=self.step + 1)
        self.wait_seconds = self._loader.wait_seconds - waited
        if self._agreement is not None:
            self.interrupted |= self._agreement.meet(self.step, self.batches, self._told_to_end is not None)
        self.call("before_step")
        self.lr = self._learning_rate(self.step)
        self._whole = False
        self.update = self._step(self.batches, self.lr)
        self.step += 1
        self.step_seconds = time.perf_counter() - started
        self.call("after_step")
        self.batches = []
        self._whole = True
        self._raise_failure()

    def _read(self, batches: Iterator[Batch], count: int) -> bool:
        """Read the batches of an update; False where the run was told to end, the loader as it was before."""
        place = self._loader.mark()
        try:
            self._may_break_off = place is not None and self._agreement is None
            self.batches = [next(batches) for _ in range(count)]
            self._may_break_off = False
            return True
        except (_BrokenOff, Exception) as error:
            self._may_break_off = False
            self._whole = place is not None
            if place is not None:
                self._loader.rewind(place)
            # Several hosts end at the same step, so none of them ends by itself.
            died = isinstance(error, WorkerError) and self._agreement is None and self.told_to_end(LAST_WORDS)
            if not (died or isinstance(error, _BrokenOff)):
                raise
            self.interrupted = True
            return False
        finally:
            self._may_break_off = False

    def _steps(self) -> None:
        if self.step:
            self.call("after_resume")
            self._raise_failure()
        batches = self._loader.stream()
        while not (self.ending or self.interrupted):
            self._one_step(batches)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _keep_what_there_is(self, error: Exception) -> None:
        """Save what was trained before an error that came between two steps: of the data, or of an evaluation."""
        if isinstance(error, NumericsError) or not self._whole or self._agreement is not None:
            return
        try:
            self.call("after_failure")
        except Exception as second:
            self.log.keep(f"not saved after the error: {second}")

    @contextlib.contextmanager
    def _catch_signals(self) -> Iterator[None]:
        """Turn the first Ctrl-C, SIGTERM or SIGHUP into a clean end; the second one acts as always."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        terminal = _has_terminal()
        before = {number: signal.getsignal(number) for number in ENDING}
        # One that is ignored stays so: that is what `nohup` is for.
        before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}

        def put_back() -> None:
            for each, handler in before.items():
                signal.signal(each, handler)

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self._told_to_end is not None:  # of several hosts: else the handlers before are back
                if time.monotonic() - self._told_to_end > _ECHO:
                    put_back()
                    signal.raise_signal(number)
                return
            if number == HANGUP and terminal and not _has_terminal():
                # Like nohup; what is shown from now on goes nowhere, which the log tells.
                self._terminal_gone = True
                return
            self._told_to_end = time.monotonic()
            if self._agreement is None:
                self.interrupted = True
                put_back()
            with contextlib.suppress(OSError):  # the terminal may be gone
                # Straight to it: the log may be in the middle of a line.
                os.write(2, b"\ninterrupted: finishing this step and saving; Ctrl-C again stops at once\n")
            if self._may_break_off:
                raise _BrokenOff

        for number in before:
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            put_back()


def _has_terminal() -> bool:
    """Whether the process has a terminal, which is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


@runtime_checkable
class BringsHooks(Protocol):
    """Offered by tasks that need hooks of their own."""

    def hooks(self) -> Sequence[Hook]:
        """Return hooks of the training loop that the task needs besides the usual ones."""


def hooks_of(task: Task) -> Sequence[Hook]:
    """Return the hooks that a task brings."""
    return task.hooks() if isinstance(task, BringsHooks) else ()
