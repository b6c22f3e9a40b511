"""What a run folder holds, as far as a page shows it. A file that is damaged or huge costs its part and says so."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from framework.errors import CheckpointError
from suites.engine.reporting.journal import FILE as LINES
from suites.engine.reporting.lines import LAST
from suites.engine.reporting.plots import Plot, from_plain
from suites.engine.reporting.tally import FILE as TALLIES
from suites.engine.reporting.tally import Tally

_MOST_BYTES = 16 << 20  # of a file that is read whole
_MOST_LINES = 20_000  # of the figures of steps, and of evaluations; of more, every second one is left out, and so on
_LONGEST_LINE = 1 << 20  # characters
_LOG_BYTES, _LOG_LINES = 1 << 16, 400  # of the log's end
_MOST_PLOTS = 40  # of an evaluation set
Made = TypeVar("Made")


@dataclass
class Run:
    """A run folder.

    Attributes:
        path: the folder.
        config, environment: as text.
        figures: of the best weights.
        last: of the last evaluation, where that is another one.
        steps: lines of training steps.
        evaluations: lines of evaluations.
        plots: with the name of the evaluation set, "" for the main one.
        tallies: what each set held, by name.
        log: its last lines.
        notes: what could not be shown, and why.
    """

    path: Path
    config: str = ""
    environment: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    plots: list[tuple[str, Plot]] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Run:
        """A run folder; CheckpointError where it is none."""
        if not (path / "config.yml").is_file():
            raise CheckpointError(f"{path}: is no run (config.yml); name folders that `paddock train` made")
        run = cls(path)
        run.config = run._text("config.yml")
        run.environment = run._text("environment.json")
        run.figures = run.json("metrics.json")
        last = run.figures.pop(LAST, {})
        run.last = last if isinstance(last, dict) else {}
        run._read_lines()
        for name, plots in run.json("plots.json").items():
            for plot in plots[:_MOST_PLOTS] if isinstance(plots, list) else [None]:
                made = run._made(f"plots.json: '{name}'", from_plain, plot)
                run.plots += [] if made is None else [(name, made)]
        for name, state in run.json(TALLIES).items():
            tally = run._made(f"{TALLIES}: '{name}'", _tally, state)
            run.tallies |= {} if tally is None else {name: tally}
        run.log = run._tail("log.txt")
        return run

    @property
    def name(self) -> str:
        """Of the folder."""
        return self.path.resolve().name

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object of the folder; an empty one where there is no file, or, with a note, where it is damaged."""
        text = self._text(name)
        if not text:
            return {}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.note(f"{name} is damaged ({error}) and not shown; `paddock eval` writes it anew")
            return {}
        if not isinstance(found, dict):
            self.note(f"{name} holds no JSON object and is not shown; `paddock eval` writes it anew")
            return {}
        return found

    def note(self, text: str) -> None:
        """Say on the page, once, what is not shown."""
        if text not in self.notes:
            self.notes.append(text)

    def _made(self, what: str, make: Callable[[Any], Made], value: Any) -> Made | None:
        try:
            return make(value)
        except CheckpointError as error:
            self.note(f"{what} is not shown ({error}); `paddock eval` writes it anew")
            return None

    def _text(self, name: str) -> str:
        """A text file; nothing where there is none, or, with a note, where it is huge."""
        path = self.path / name
        try:
            if not path.is_file():
                return ""
            if (size := path.stat().st_size) > _MOST_BYTES:
                self.note(f"{name} has {size >> 20} MiB and is not shown; {_MOST_BYTES >> 20} are read at most")
                return ""
            return path.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            self.note(f"{name} cannot be read and is not shown ({error})")
            return ""

    def _tail(self, name: str) -> list[str]:
        path = self.path / name
        if not path.is_file():
            return []
        with path.open("rb") as file:
            start = max(0, path.stat().st_size - _LOG_BYTES)
            file.seek(start)
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
        return lines[1 if start else 0 :][-_LOG_LINES:]

    def _read_lines(self) -> None:
        path = self.path / LINES
        if not path.is_file():
            return
        steps, evaluations, wrong = _Thinned(), _Thinned(), 0
        with path.open("rb") as file:
            for text in iter(lambda: file.readline(_LONGEST_LINE), b""):
                line = _line(text)
                if line is None:
                    wrong += bool(text.strip())
                elif "figures" in line:
                    evaluations.add(line)
                else:
                    steps.add(line)
        self.steps, self.evaluations = steps.kept, evaluations.kept
        if wrong:
            self.note(f"{LINES}: {wrong} lines are damaged and not shown")


class _Thinned:
    """Keeps all of some things, or every second one, or every fourth, so that there are not too many."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self._seen, self._stride = 0, 1

    def add(self, one: dict[str, Any]) -> None:
        """Take in one more."""
        if self._seen % self._stride == 0:
            self.kept.append(one)
        self._seen += 1
        if len(self.kept) > _MOST_LINES:
            self.kept, self._stride = self.kept[::2], self._stride * 2


def _line(text: bytes) -> dict[str, Any] | None:
    """A line of figures with numbers and nothing else; None for one that is damaged."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not isinstance(line.get("step"), int):
        return None
    if isinstance(line.get("figures"), dict):
        return {"step": line["step"], "figures": _numbers(line["figures"].items())}
    if "loss" not in line:
        return None
    terms = line.get("losses")
    own = _numbers((name, line.get(name)) for name in ("loss", "lr", "seconds", "wait"))
    return {"step": line["step"], **own, "losses": _numbers(terms.items() if isinstance(terms, dict) else ())}


def _numbers(pairs: Iterable[tuple[Any, Any]]) -> dict[str, float | None]:
    """Values by name, None for what is no finite number."""
    return {
        str(name): float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
        for name, value in pairs
    }


def _tally(state: Any) -> Tally:
    tally = Tally()
    tally.merge(state)
    return tally
