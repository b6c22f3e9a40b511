"""The demo's processes: `python -m suites.ctr.demo.children log|training|serving FOLDER`.

Each writes what it is at into a JSON file of its name, and ends when its standard input does: with the command that
started it, however that died.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from framework import set_num_threads
from suites.ctr.demo.plan import Plan, read_state, write_state
from suites.ctr.demo.sources import source_of
from suites.ctr.serving import ServedRows
from suites.ctr.train.step import RowsTask
from suites.engine.command_line import INTERRUPTED, run
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

_TELL = 0.2  # seconds between two states
_KEPT = 64  # versions whose times are known
_AHEAD = 20  # spans that may wait for the training
_HELD = 1000  # rows of the small evaluation set, and rows to ask about of each span


def write_log(plan: Plan) -> int:
    """Write the log at a steady rate, span by span, and what is asked about; remove what was trained on."""
    source = source_of(asdict(plan))
    begin = time.monotonic()
    for number in count(1):
        part = source.part(number, plan.rows, _HELD)
        folder = plan.span(number)
        folder.mkdir(parents=True)
        (folder / "rows.txt").write_bytes(part.text)
        write_state(plan.path("asked.json"), {"number": number, "items": part.asked, "labels": part.labels})
        (folder / "_SUCCESS").touch()
        write_state(plan.path("log.json"), {"rows": number * plan.rows})
        time.sleep(max(0.0, begin + number * plan.every - time.monotonic()))
        while number - _trained(plan) > _AHEAD:
            time.sleep(_TELL)
        for old in range(max(1, _trained(plan) - 2 * _AHEAD), _trained(plan) - 2):
            shutil.rmtree(plan.span(old), ignore_errors=True)
    return 0


def _trained(plan: Plan) -> int:
    """Spans that were trained on."""
    return int(read_state(plan.path("training.json")).get("rows", 0)) // plan.rows


class Watch(Hook):
    """Writes `training.json`: where the run is, and when and at which step each version was published.

    Args:
        plan: of the demo.
    """

    priority: ClassVar[int] = 70  # behind the publication of the same step

    def __init__(self, plan: Plan) -> None:
        self._path, self._rows = plan.path("training.json"), 0
        self._versions: dict[str, tuple[float, int]] = {}
        self._state: dict[str, Any] = {}
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True)

    def before_train(self, loop: TrainingLoop) -> None:
        """Begin to tell, in a thread of its own: the run may wait for the log."""
        self._teller.start()

    def after_step(self, loop: TrainingLoop) -> None:
        """See the class."""
        assert isinstance(loop.task, RowsTask)
        table = loop.task.table
        self._rows += sum(len(batch["labels"]) for batch in loop.batches)
        published = table.published
        if published is not None and published.id not in self._versions:
            known = [*self._versions.items(), (published.id, (time.monotonic(), loop.step))]
            self._versions = dict(known[-_KEPT:])  # a new one: the other thread may be writing the old
        self._state = {"step": loop.step, "rows": self._rows, "table": len(table), "versions": self._versions}

    def close(self, loop: TrainingLoop) -> None:
        """Tell the end."""
        self._ended.set()
        if self._teller.ident is not None:
            self._teller.join()

    def _tell(self) -> None:
        told: dict[str, Any] = {}
        while not self._ended.wait(_TELL) or told is not self._state:
            if told is not self._state:
                told = self._state
                write_state(self._path, told)


def train_stream(plan: Plan) -> int:
    """Train on the log's beginning, export, and go on with the stream until told to end."""
    source = source_of(asdict(plan))
    first = source.part(0, plan.first_rows, 0).text
    plan.path("first.txt").write_bytes(first)
    plan.path("held.txt").write_bytes(b"".join(first.splitlines(keepends=True)[:_HELD]))
    for name in ("first", "stream"):
        config = plan.path(f"{name}.yml")
        config.write_text(yaml.safe_dump(plan.config(source.schema, first=name == "first"), sort_keys=False))
        hooks = [] if name == "first" else [Watch(plan)]
        done = train(config, runs=plan.runs, name=name, overwrite=True, hooks=hooks)
        if done.interrupted:
            return INTERRUPTED
        if name == "first":
            export_run(plan.runs / name, plan.export, plan.runs / name / "weights" / "last.safetensors")
            write_state(plan.path("exported.json"), {"at": time.monotonic()})
    return 0


def serve(plan: Plan) -> int:
    """Serve the export on a free port."""
    from suites.engine.serving.service import Settings
    from suites.engine.serving.web.server import Place, Server

    set_num_threads(1)
    model = open_model(plan.export)
    server = Server(model, Settings(name="ctr-demo"), Place(port=0, drain=3.0))
    assert isinstance(model.feed, ServedRows)
    threading.Thread(target=_tell_serving, args=(plan, server.url, model.feed), daemon=True).start()
    return server.run()


def _tell_serving(plan: Plan, url: str, feed: ServedRows) -> None:
    while True:
        rows = feed.rows
        state = {"url": url, "version": feed.version, "looked_up": rows.looked_up, "missed": rows.missed}
        write_state(plan.path("serving.json"), state)
        time.sleep(_TELL)


def _end_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    os._exit(1)


CHILDREN = {"log": write_log, "training": train_stream, "serving": serve}


def main(name: str, folder: str) -> int:
    """Run a child of a demo's folder and return its exit status."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return run(lambda: CHILDREN[name](Plan.of(folder)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
