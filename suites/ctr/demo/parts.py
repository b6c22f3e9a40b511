"""The child processes of the demo: started, watched, ended together."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from types import TracebackType

from framework import programs
from framework.errors import PaddockError
from suites.ctr.demo.plan import Plan

_GRACE = 6.0  # seconds for a clean end
_TOLD = 5  # lines of its log


class PartEnded(PaddockError):
    """A process of the demo ended before it was told to."""


class Parts:
    """Processes by name; all of them are ended when the block is left.

    Each has a log in the folder and a session of its own, so that Ctrl-C reaches the command only, which ends them in
    order.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.running: dict[str, programs.Process] = {}

    def __enter__(self) -> Parts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, name: str) -> None:
        """Start a child, see `children`."""
        with self._log(name).open("wb") as log:
            self.running[name] = programs.start(
                programs.PYTHON,
                programs.module("suites.ctr.demo.children"),
                [name, str(Path(self._plan.folder).absolute())],
                stdin=programs.PIPE,  # its end tells the child that we are gone
                stdout=log,
                stderr=programs.TO_STDOUT,
                env=programs.module_paths(),
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise PartEnded for a child that is not running any more; it says which and why."""
        for name, process in self.running.items():
            if (status := process.poll()) is not None:
                how = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
                said = self._log(name).read_text(errors="replace").strip().splitlines()[-_TOLD:]
                told = "".join(f"\n  {line}" for line in said)
                raise PartEnded(f"ctr-demo: {name} ended with {how}; the end of {self._log(name)}:{told}")

    def end(self) -> None:
        """End all, those that read first; one that does not end in time is killed."""
        for name in ("serving", "training", "log"):
            process = self.running.pop(name, None)
            if process is None:
                continue
            for ending in (process.terminate, process.terminate, process.kill):  # the second ends it at once
                if process.poll() is None:
                    ending()
                    with contextlib.suppress(programs.TimeoutExpired):
                        process.wait(_GRACE)
            assert process.stdin is not None
            process.stdin.close()

    def _log(self, name: str) -> Path:
        return self._plan.path(f"{name}.log")
