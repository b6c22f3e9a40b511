"""The tools' `--profile`: a few steps in the middle of a run, as a table for people and a trace for a viewer."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from framework.atomic import write_text
from framework.profiler import Profile

if TYPE_CHECKING:
    from suites.engine.predict.items import Predict

STEPS = 10  # recorded by default
WARM_UP = 2  # before: the first step traces and plans, the second meets cold caches
_ROWS_SHOWN = 25
_DETAILS_KEPT = 100


def add_profile_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--profile``, which records `what`, such as "steps"."""
    parser.add_argument(
        "--profile",
        action="store_true",
        help=f"record {STEPS} {what} after {WARM_UP} for warming up: print a table of operators and write profile.txt "
        "and trace.json (for chrome://tracing or ui.perfetto.dev)",
    )


class StepProfile:
    """Records some of the steps it is put around, then reports once.

    Args:
        folder: gets `profile.txt`, the whole tables and the programs with each line's time, and `trace.json`.
        say: shows a text to people.
        steps: how many are recorded.
        warm_up: how many are not, before; when there are no others, they are reported instead.
    """

    def __init__(
        self, folder: Path, *, say: Callable[[str], None] = print, steps: int = STEPS, warm_up: int = WARM_UP
    ) -> None:
        self._folder = folder
        self._say = say
        self._steps = steps
        self._warm_up = warm_up
        self._cold, self._warm = Profile(), Profile()
        self._done = 0
        self._reported = False

    @property
    def length(self) -> int:
        """Steps until the report, those for warming up included."""
        return self._warm_up + self._steps

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Stand around one step; the report comes after the last one that is recorded."""
        if self._reported:
            yield
            return
        with self._warm if self._done >= self._warm_up else self._cold:
            yield
        self._done += 1
        if self._done == self.length:
            self.report()

    def around(self, predict: Predict) -> Predict:
        """Return `predict`, each call of which is a step."""

        def recorded(arrays):  # type: ignore[no-untyped-def]
            with self.step():
                return predict(arrays)

        return recorded

    def report(self) -> None:
        """Show the table and write the files; nothing when there is nothing new to report."""
        if self._reported or not self._done:
            return
        self._reported = True
        warm = self._done > self._warm_up
        profile = self._warm if warm else self._cold
        steps = self._done - self._warm_up if warm else self._done
        cold = "" if warm else ", tracing and planning included: there were no more"
        memory = [str(program.memory_report()) for program in profile.programs]
        head = f"profile of {steps} steps{cold}:"
        write_text(
            self._folder / "profile.txt",
            "\n\n".join([head, profile.table(details=_DETAILS_KEPT), *memory, profile.listing()]) + "\n",
        )
        profile.write_chrome_trace(self._folder / "trace.json")
        self._say(f"{head} {profile.table(rows=_ROWS_SHOWN)}")
        for text in memory:
            self._say(f"memory: {text.splitlines()[0]}")
        self._say(f"by call and line: {self._folder}/profile.txt; for chrome://tracing: {self._folder}/trace.json")
