"""That a host goes on: its process tells its parent, which ends one that hangs while it is alive.

A word on the pipe between them is a number of seconds within which the next word comes; 0 says that none will. So
nobody has to guess how long a step may take: the training process says it, and says it again while it evaluates.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

_WORD = struct.Struct("=d")
_PAUSE = 1.0  # seconds between two words

_pipe: int | None = None  # to the parent, where there is one that listens


def tell_on(pipe: int | None) -> None:
    """Have this process tell its parent on this pipe that it goes on; None for nobody."""
    global _pipe
    _pipe = pipe


class Alive(Hook):
    """Tells the parent of a host's process that training goes on; nothing where no parent listens.

    Args:
        seconds: that may pass between two steps, batches of an evaluation, or checkpoints.
    """

    priority: ClassVar[int] = 0

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told = -_PAUSE

    def before_train(self, loop: TrainingLoop) -> None:
        """See the class."""
        self._tell()

    def before_step(self, loop: TrainingLoop) -> None:
        """See the class."""
        self._tell()

    def after_step(self, loop: TrainingLoop) -> None:
        """See the class."""
        self._tell()

    def before_keeping(self, loop: TrainingLoop) -> None:
        """See the class."""
        self._tell()

    def during_evaluation(self, loop: TrainingLoop, done: int, total: int) -> None:
        """See the class."""
        self._tell()

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """See the class."""
        self._tell()

    def close(self, loop: TrainingLoop) -> None:
        """What follows (the report, an export) may take any time."""
        _say(0.0)

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told >= _PAUSE:
            self._told = now
            _say(self._seconds)


def _say(seconds: float) -> None:
    if _pipe is not None:
        try:
            os.write(_pipe, _WORD.pack(seconds))
        except OSError:  # the parent has ended, which is told in another way
            tell_on(None)


class Listener:
    """The parent's end of the pipe: whether the process has been silent for longer than it said."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._seconds, self._until = 0.0, float("inf")
        threading.Thread(target=self._listen, daemon=True, name="liveness").start()

    @property
    def seconds(self) -> float:
        """What was said last."""
        return self._seconds

    @property
    def overdue(self) -> bool:
        """Whether a word is missing."""
        return time.monotonic() > self._until

    def _listen(self) -> None:
        while data := os.read(self._pipe, 512 * _WORD.size):  # words are written whole
            (self._seconds,) = _WORD.unpack(data[-_WORD.size :])
            self._until = time.monotonic() + self._seconds if self._seconds else float("inf")
        self._until = float("inf")
