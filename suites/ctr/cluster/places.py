"""Places: where the processes of a run live. `Processes` starts them on this machine; Ray's places are beside it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from framework import programs
from framework.atomic import open_to_append, write_text
from framework.system.signals import KILL

Kind = Literal["shard", "trainer"]
MODULES = {"shard": "framework.table.remote", "trainer": "suites.ctr.cluster.trainer"}


class Running(ABC):
    """A process that was started."""

    @abstractmethod
    def status(self) -> int | None:
        """None while it runs, then its exit status; what is not 0 was no end on purpose."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""

    @abstractmethod
    def about(self) -> str:
        """Where it is, and the end of what it said, for a message."""


class Places(ABC):
    """Starts the processes of a run.

    Attributes:
        host: at which processes elsewhere find this one.
    """

    host: str = "127.0.0.1"

    @abstractmethod
    def start(self, kind: Kind, name: str, spec: str) -> Running:
        """Start a shard or trainer with its specification in JSON, and return at once."""

    def shard_host(self) -> str:
        """Where a shard that is started next is to listen; "" for the address of the machine it comes to."""
        return self.host

    @abstractmethod
    def close(self) -> None:
        """End what is still there."""


@dataclass
class _Process(Running):
    process: programs.Process
    log: Path

    def status(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(KILL)
        self.process.wait()

    def about(self) -> str:
        return f"process {self.process.pid}; the end of {self.log}:\n{tail(self.log)}"


class Processes(Places):
    """Processes of this machine; they end with this one.

    Args:
        folder: of their specifications and logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[_Process] = []

    def start(self, kind: Kind, name: str, spec: str) -> Running:
        """See `Places`."""
        path = self._folder / f"{name}.spec.json"
        write_text(path, spec)
        log = self._folder / f"{name}.log"
        with open_to_append(log) as out:
            process = programs.start(
                programs.PYTHON,
                (*programs.module(MODULES[kind]), "--with-parent"),
                [str(path.absolute())],
                stdin=programs.PIPE,
                stdout=out,
                stderr=out,
                env=programs.module_paths(),
                start_new_session=True,  # Ctrl-C is for the head
            )
        self._started.append(_Process(process, log))
        return self._started[-1]

    def close(self) -> None:
        """See `Places`."""
        for each in self._started:
            if each.process.stdin is not None:
                each.process.stdin.close()
        end = time.monotonic() + 20
        for each in self._started:
            try:
                each.process.wait(max(0.1, end - time.monotonic()))
            except programs.TimeoutExpired:
                each.kill()


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(there is none)"
