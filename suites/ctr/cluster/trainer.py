"""A trainer as a process: takes a share of the log on, pulls rows, computes, pushes gradients, and asks for the next.

`python -m suites.ctr.cluster.trainer trainer.spec.json`
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import framework
from framework.data import DataLoader
from framework.data.logs import LogFolders, LogReader
from framework.data.world import World
from framework.errors import ConfigError, DataError, PaddockError
from framework.optim import Schedule
from framework.table.remote import Patience, ShardClient, SupersededError, Unique, announced, unique
from framework.table.remote.process import end_with_parent
from framework.table.remote.secure import read_key
from suites.ctr.cluster.control import ControlClient
from suites.ctr.cluster.dense import DenseWeights, Exchange
from suites.ctr.cluster.rows import BatchRows, with_places
from suites.ctr.cluster.step import RemoteStep
from suites.ctr.cluster.work import Lease
from suites.ctr.task.ground import ClickTask
from suites.ctr.train.progressive import Gathered
from suites.engine.config.building import build_runtime, limited, read_config
from suites.engine.config.plugins import import_plugins
from suites.engine.run.folder import RunFolder
from suites.engine.run.reopening import task_of_run
from suites.engine.train.train_step import optimizer_of

_log = logging.getLogger(__name__)
_BEAT_SECONDS = 1.0
_END = object()


@dataclass(frozen=True)
class TrainerSpec:
    """What a trainer is started with; plain data.

    Args:
        name: of the trainer, which its successor does not have.
        run: the run's folder.
        control: address of the head.
        announcements: files in which the shards say where they are.
        model: key of the model, in hexadecimal.
        total_steps: of the schedule.
        ahead, window, dense_every, give_up: see `ClusterSettings`.
        threads: that compute.
        imports: plug-ins.
        key: the file with the job's key; None where it has none.
    """

    name: str
    run: str
    control: str
    announcements: list[str]
    model: str
    total_steps: int
    ahead: int
    window: int
    dense_every: int
    give_up: float
    threads: int | None = None
    imports: list[str] = field(default_factory=list)
    key: str | None = None

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> TrainerSpec:
        """From JSON."""
        return cls(**json.loads(text))


class Item(NamedTuple):
    """A batch whose rows are on their way."""

    number: int
    batch: dict[str, Any]
    signs: Unique
    rows: Callable[[], np.ndarray]


class ClusterTrainer:
    """Trains shares until the head has no more.

    Args:
        spec: see there.
    """

    def __init__(self, spec: TrainerSpec) -> None:
        import_plugins(spec.imports, "cluster")
        if spec.threads is not None:
            framework.set_num_threads(spec.threads)
        self._spec = spec
        run = RunFolder(Path(spec.run))
        config = read_config(run.path)
        self._runtime = build_runtime(config)
        task = task_of_run(run, config)
        assert isinstance(task, ClickTask)
        if spec.threads is not None:
            framework.set_num_threads(spec.threads)
        self._task, self._window_rows = task, config.build("progressive").window
        dim = task.table.dim
        task.model.table = BatchRows(task.table)
        self._step = RemoteStep(task, optimizer_of(task, config.part("optimizer")), self._runtime)
        weights = DenseWeights(task.model)
        self._client = ShardClient(
            lambda i: announced(Path(spec.announcements[i])),
            len(spec.announcements),
            bytes.fromhex(spec.model),
            dim,
            dense=weights.size,
            window=spec.window,
            patience=Patience(give_up=spec.give_up),
            key=read_key(spec.key),
        )
        self._exchange = Exchange(weights, self._client)
        self._control = ControlClient(spec.control, key=read_key(spec.key))
        self._lr = self._schedule(config)
        self._gathered, self._news = Gathered(), _News()
        self._lease: Lease | None = None
        self._batches, self._live, self._together, self._began, self._stop = 0, 1, 1, 0, False
        self._length = 0
        self._folders: LogFolders | None = None  # of a log that keeps coming

    def _schedule(self, config: Any) -> Schedule:
        size = self._loader().batch_size
        schedule: Schedule = config.part("schedule")(total_steps=self._spec.total_steps, batch_size=size)
        return replace(schedule, scaling=schedule.scaling or self._step.lr_scaling)

    def _loader(self) -> DataLoader | LogReader | LogFolders:
        loader = self._task.train_loader(seed=self._runtime.seed, workers=0)
        expect_shares(loader)
        return limited(loader, self._runtime.data, "another")

    def run(self) -> None:
        """Train share after share until the head says that there are no more."""
        threading.Thread(target=self._beat, name="paddock-beat", daemon=True).start()
        while True:
            reply = self._control.ask({"ask": "lease", "trainer": self._spec.name})
            if reply["state"] == "end":
                break
            if reply["state"] == "wait":
                time.sleep(0.2)
                continue
            self._take_on(Lease(**reply["lease"]), reply)
        self._client.close()
        self._control.close()

    def _take_on(self, lease: Lease, reply: dict[str, Any]) -> None:
        self._batches, self._live, self._together = 0, reply["live"], reply["together"]
        self._began, self._stop = reply["step"], False
        self._lease = lease
        try:
            whole = self._train(lease)
        except SupersededError as error:
            _log.warning("share %d of pass %d: %s", lease.share, lease.epoch, error)
            whole = False
        self._lease = None
        if whole:
            self._tell("done", lease)

    def _train(self, lease: Lease) -> bool:
        """Whether the share was trained to its end."""
        first = self._client.hello(lease.worker, lease.incarnation)
        self._exchange.begin()
        _log.info("share %d of pass %d: begins with batch %d", lease.share, lease.epoch, first)
        for item in self._items(lease, first):
            self._one(item)
            if self._stop:
                self._client.settle()
                return False
        self._push_last(self._length + 1, first)
        self._client.settle()
        return True

    def _one(self, item: Item) -> None:
        lr = self._lr(min(self._began + self._batches * self._live, self._spec.total_steps))
        update, grads = self._step.learn(item.batch, item.rows(), lr)
        due = item.number % self._spec.dense_every == 0
        change = self._exchange.change(self._together) if due else None
        factor = self._task.table_settings.lr_factor
        push = self._client.push(item.number, item.signs, grads, lr * factor, change)
        if due:
            self._exchange.sent(push)
        self._exchange.take()
        self._batches += 1
        self._note(update.arrays.get("scores"), item.batch)

    def _push_last(self, number: int, first: int) -> None:
        """The dense weights of the last batches, as a push of their own."""
        self._exchange.take(wait=True)
        if number < first:  # it was there already
            return
        nothing = unique(np.zeros(0, np.int64))
        change = self._exchange.change(self._together)
        grads = np.zeros((0, self._client.dim), np.float32)
        self._exchange.sent(self._client.push(number, nothing, grads, 0.0, change))
        self._exchange.take(wait=True)

    # -- batches
    def _items(self, lease: Lease, first: int) -> Iterator[Item]:
        """The share's batches from number `first` on, with their rows on the way."""
        items = self._asked(lease, first)
        return items if self._spec.ahead == 0 else _in_thread(items, self._spec.ahead)

    def _asked(self, lease: Lease, first: int) -> Iterator[Item]:
        self._length = 0  # batches of the share, once they are read
        for number, batch in enumerate(self._read(lease), 1):
            self._length = number
            if number >= first:
                placed, signs = with_places(self._task.model, batch)
                yield Item(number, placed, signs, self._client.pull(signs))

    def _read(self, lease: Lease) -> Iterator[dict[str, Any]]:
        """All batches of a share, always the same: of a log in memory every so manieth of the pass, else by blocks."""
        with self._reader(lease) as loader:
            if isinstance(loader, LogReader):
                loader.split(World(lease.share, lease.shares))
                loader.epoch = lease.epoch
                yield from loader
                return
            for place in range(lease.share, len(loader), lease.shares):
                loader.seek(lease.epoch, place)
                yield next(loader.stream())

    def _reader(self, lease: Lease) -> DataLoader | LogReader:
        """What reads a pass. That of a part of a log that keeps coming reads its last rows too, in a short batch.

        Raises DataError where the part has other files than the head saw.
        """
        if not lease.part:
            loader = self._loader()
            assert not isinstance(loader, LogFolders)
            return loader
        if self._folders is None:
            made = self._loader()
            assert isinstance(made, LogFolders)
            self._folders = made
        reader = self._folders.open(lease.part, lease.epoch, drop_last=False)
        if reader is None or reader.files_digest != lease.files:
            raise DataError(
                f"{self._folders.root / lease.part}: its files are not those that were there when the pass began; a "
                "done-file promises that they stay as they are"
            )
        return reader

    # -- what the head hears
    def _note(self, scores: np.ndarray | None, batch: dict[str, Any]) -> None:
        if scores is None or not self._window_rows:
            return
        weights = batch["weight"] if "weight" in batch else np.ones(len(scores), np.float32)
        self._gathered.add(np.stack([scores[:, 0], batch["labels"][:, 0], weights]).astype(np.float32))
        if self._gathered.rows >= self._window_rows:
            rows = self._gathered.rows
            self._news.add({"rows": rows, **self._gathered.take()})

    def _beat(self) -> None:
        while True:
            time.sleep(_BEAT_SECONDS)
            lease = self._lease
            if lease is None:
                continue
            try:
                reply = self._tell("beat", lease)
            except PaddockError as error:  # nobody wants what this process does
                _log.error("%s", error)
                os._exit(1)
            if lease is self._lease:
                self._live, self._together = reply.get("live", self._live), reply.get("together", self._together)
                self._stop = not reply.get("go", True)

    def _tell(self, what: str, lease: Lease) -> dict[str, Any]:
        news = self._news.take()
        return self._control.ask(
            {
                "ask": what,
                "trainer": self._spec.name,
                "worker": lease.worker,
                "batches": self._batches,
                "resent": self._client.resent,
                "windows": news,
            }
        )


class _News:
    """Figures on their way to the head."""

    def __init__(self) -> None:
        self._lock, self._lines = threading.Lock(), list[dict[str, Any]]()

    def add(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._lines.append(line)

    def take(self) -> list[dict[str, Any]]:
        with self._lock:
            taken, self._lines = self._lines, []
            return taken


def expect_shares(loader: Any) -> None:
    """Raise ConfigError for a log that has no passes of its own, which cannot be dealt out in shares."""
    if not isinstance(loader, (DataLoader, LogReader, LogFolders)):
        raise ConfigError(
            f"data.train.dataset: {type(loader).__name__} has no passes that could be dealt out in shares; a cluster "
            "trains on ClickLog, LogStream or LogPasses"
        )


def _in_thread(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """The items, so many of them made ahead in another thread."""
    made: queue.Queue[Any] = queue.Queue(ahead)
    ended = threading.Event()

    def put(item: Any) -> bool:
        while not ended.is_set():
            try:
                made.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(_END)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, name="paddock-ahead", daemon=True)
    thread.start()
    try:
        while (item := made.get()) is not _END:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        ended.set()
        thread.join()


def main(words: list[str]) -> int:
    """Run the trainer that a file describes; the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    spec = TrainerSpec.of(Path(words[-1]).read_text(encoding="utf-8"))
    if "--with-parent" in words:
        end_with_parent(lambda: os._exit(1))
    try:
        ClusterTrainer(spec).run()
    except PaddockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
