"""What the demo does, where its files are, and the configs of its two runs."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from framework.errors import AttributeValueError

BATCH = 512
_FIRST = {"drawn": 64, "criteo": 14, "avazu": 16}  # batches before the export; about one pass over a real piece


@dataclass(frozen=True)
class Plan:
    """The demo's settings; child processes read them from the folder.

    Args:
        folder: of all files.
        log: kind of the source, see `sources`.
        data: folder of the real pieces.
        rows: of a span of the log, a multiple of the batch size.
        every: seconds of a span.
        publish: seconds between two publications.
        requests: a second, to the server.
        items: rows of a request.

    Raises AttributeValueError for numbers that do not fit.
    """

    folder: str
    log: str = "drawn"
    data: str = "../shared/data/ctr"
    rows: int = 8192
    every: float = 1.0
    publish: float = 3.0
    requests: float = 20.0
    items: int = 20

    def __post_init__(self) -> None:
        if self.rows < BATCH or self.rows % BATCH:
            raise AttributeValueError(f"ctr-demo: rows is {self.rows}; it must be a multiple of {BATCH}")
        if not min(self.every, self.publish, self.requests, self.items) > 0:
            raise AttributeValueError("ctr-demo: every, publish, requests and items must be above 0")

    def path(self, *parts: str) -> Path:
        """A path in the folder."""
        return Path(self.folder, *parts)

    @property
    def first_rows(self) -> int:
        """Rows trained on before the export."""
        return _FIRST[self.log] * BATCH

    @property
    def export(self) -> Path:
        """The folder that is served."""
        return self.path("exported")

    @property
    def runs(self) -> Path:
        """The folder of the runs `first` and `stream`."""
        return self.path("runs")

    def span(self, number: int) -> Path:
        """The folder of a span: a minute of the log's time each."""
        when = datetime.datetime(2026, 1, 1) + datetime.timedelta(minutes=number)
        return self.path("log", when.strftime("%Y%m%d/%H%M"))

    def save(self) -> None:
        """Write it into the folder."""
        write_state(self.path("plan.json"), asdict(self))

    @classmethod
    def of(cls, folder: str) -> Plan:
        """That of a folder."""
        return cls(**json.loads(Path(folder, "plan.json").read_text()))

    def config(self, schema: dict[str, Any], *, first: bool) -> dict[str, Any]:
        """The config of the run before the export, or of that on the stream."""
        root = str(self.path().resolve())
        once = {"type": "LogStream", "root": root, "files": ["first.txt"]}
        stream = {"type": "LogPasses", "root": f"{root}/log", "files": "rows.txt", "wait_seconds": 60.0}
        runtime: dict[str, Any] = {"workers": 0, "log_every": 20, "checkpoint": {"every": 10**9, "keep": 1}}
        runtime["steps"] = self.first_rows // BATCH if first else 10**9
        runtime |= {} if first else {"weights": str(self.runs / "first" / "weights" / "last.safetensors")}
        publish = {"publish": {"to": str(self.export), "every": self.publish}}
        return {
            "suite": "ctr",
            "model": {"type": "DeepFM", "dim": 8, "hidden": [32, 16]},
            "table": {"lr_factor": 5.0, "eviction": {"most_unseen": 240}},  # four hours of the log's time
            "data": {
                "schema": schema,
                "train": {"dataset": once if first else stream, "batch_size": BATCH},
                "eval": {"dataset": {"type": "LogStream", "root": root, "files": ["held.txt"]}},
            },
            "optimizer": {"type": "Adam"},
            "schedule": {"type": "Constant", "base_lr": 1e-3},
            "progressive": {"window": self.rows},
            "runtime": runtime,
            **({} if first else publish),
        }


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace a small JSON file whole; it need not survive a power cut."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(state))
    os.replace(part, path)


def read_state(path: Path) -> dict[str, Any]:
    """What `write_state` wrote; empty before that."""
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}
