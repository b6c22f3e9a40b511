"""Head: the process that a user starts.

It starts shards and trainers, deals the log out, and ends passes and the run.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from framework.atomic import make_folder, remove_file, remove_folder, write_text
from framework.confined import confine
from framework.data.logs import LogFolders
from framework.errors import ConfigError, DataError, PaddockError, WorkerError
from framework.optim import Constant, Schedule
from framework.system.signals import ENDING
from framework.table.remote import Patience, ShardClient, ShardSpec, announced, described, shares
from framework.table.remote.join import join
from framework.table.remote.secure import make_key, read_key
from suites.ctr.cluster.coming import ComingPasses
from suites.ctr.cluster.control import ControlServer
from suites.ctr.cluster.dense import DenseWeights
from suites.ctr.cluster.layout import Layout
from suites.ctr.cluster.places import Places
from suites.ctr.cluster.publishing import Publisher
from suites.ctr.cluster.settings import ClusterSettings
from suites.ctr.cluster.trainer import TrainerSpec, expect_shares
from suites.ctr.cluster.watch import Watch
from suites.ctr.cluster.work import Lease, Work, lease_text
from suites.ctr.serving import PublishSettings
from suites.ctr.serving.published import model_key
from suites.ctr.task.ground import ClickTask
from suites.ctr.train.progressive import FILE as PROGRESSIVE
from suites.ctr.train.step import refuse_what_rows_lack
from suites.engine.config import Config
from suites.engine.config.settings import Runtime
from suites.engine.contract.resources import save_deployed
from suites.engine.reporting.lines import append
from suites.engine.run.folder import RunFolder
from suites.engine.run.log import RunLog
from suites.engine.run.reopening import task_of_run

_MANY = 1 << 40  # batches of a run that nobody counted
_SILENT = 60.0  # seconds after which a trainer that says nothing is taken for dead
_LOOK_SECONDS = 0.5  # between two looks at how many trainers are wanted
_MOST_TRAINERS = 1000
_START_SECONDS = 600.0  # that shards may take to read what they hold


class Head:
    """Runs one run to its end, or until it is interrupted.

    Args:
        run: the run's folder, which this process owns.
        config: of the run.
        task: of the config.
        settings: how it is spread; where the run continues they may be others than the config's.
        places: where processes are started.
        log: for people.

    Attributes:
        interrupted: Ctrl-C was pressed, or SIGTERM or SIGHUP came; the run can be continued.
    """

    def __init__(
        self, run: RunFolder, config: Config, task: ClickTask, settings: ClusterSettings, places: Places, log: RunLog
    ) -> None:
        self._run, self._config, self._task, self._log = run, config, task, log
        self._settings, self._places = settings, places
        self._runtime: Runtime = config.build("runtime")
        refuse(config, self._runtime)
        self._folder = Path(settings.folder) / run.path.name if settings.folder else run.path / "cluster"
        confine(self._folder)
        make_folder(self._folder)
        self._key: str | None = None
        if settings.secure is not False:
            self._key = str((self._folder / "key.json").absolute())
            make_key(Path(self._key), settings.encrypted(places.host))
        self._weights = DenseWeights(task.model)
        self._tag = model_key(task.schema)
        self._layout = Layout.choose(self._folder, settings.shards)
        loader = task.train_loader(seed=self._runtime.seed, workers=0)
        expect_shares(loader)
        coming = isinstance(loader, LogFolders)
        counts = (settings.parts, self._runtime.epochs, self._runtime.steps)
        self._work = Work(self._folder / "work.json", *counts, parts=coming, trainers=settings.trainers)
        self._coming = ComingPasses(loader, self._work, log.say) if coming else None
        self._watch = Watch(places, log.say, self._work.release, settings.most_restarts)
        self._total = self._total_steps(loader)
        self._publisher: Publisher | None = None
        self.interrupted = False
        self._starved: DataError | None = None  # why a log that keeps coming does not go on
        self._added = 0
        self._wish = ""  # what stood in the file `trainers` when it was read last
        self._failure: PaddockError | None = None

    # -- the run
    def train(self) -> None:
        """Train to the end, or until Ctrl-C, SIGTERM or SIGHUP."""
        before = {n: signal.getsignal(n) for n in ENDING}
        before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}  # nohup stays
        if threading.current_thread() is threading.main_thread():
            for number in before:
                signal.signal(number, self._on_signal)
        control = ControlServer(self._answer, self._places.host, read_key(self._key))
        client = self._client()
        try:
            self._watch.begin(lambda error: self._fail(client, error))
            self._publisher = self._make_publisher(client)
            self._start_shards(client)
            for _ in range(self._settings.trainers):
                self.add_trainer(control.address)
            self._wish = f"{self._settings.trainers}\n"
            write_text(self._folder / "trainers", self._wish)
            if self._publisher is not None:
                self._publisher.begin()
            self._until_over(client, control.address)
            self._end(client)
            if self._starved is not None:
                raise self._starved
        finally:
            self._watch.end()
            client.close()  # ends a publication that waits for a shard
            if self._publisher is not None:
                self._publisher.end()
            control.close()
            self._places.close()
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)

    def add_trainer(self, control: str) -> str:
        """Let one more trainer join; returns its name."""
        name = f"trainer-{self._added}"
        self._added += 1
        self._watch.add("trainer", name, lambda full: self._trainer_spec(full, control).text())
        return name

    def _follow_wish(self, control: str) -> None:
        """Let trainers join or leave until there are as many as the file `trainers` of the cluster's folder says."""
        path = self._folder / "trainers"
        try:
            wish = path.read_text()
        except (OSError, UnicodeDecodeError):
            return
        if wish == self._wish:
            return
        self._wish = wish
        if not (wish.strip().isascii() and wish.strip().isdigit() and 0 < int(wish) <= _MOST_TRAINERS):
            self._log.say(f"{path}: is {wish.strip()[:40]!r}; write a number from 1 to {_MOST_TRAINERS}")
            return
        self._work.trainers = int(wish)
        names = self._watch.names("trainer")
        for name in names[int(wish) :]:
            self._watch.retire(name)
            self._log.say(f"{name} leaves; another one does what it had begun")
        for _ in range(int(wish) - len(names)):
            self._log.say(f"{self.add_trainer(control)} joins")

    def _start_shards(self, client: ShardClient) -> None:
        self._layout.prepare()
        if self._layout.sources:
            self._log.say(f"dealing the buckets of {len(self._layout.sources)} shards out to {self._layout.shards}")
        for i in range(self._layout.shards):
            self._watch.add("shard", f"shard-{i}", lambda _, i=i: self._shard_spec(i).text())  # type: ignore[misc]
        end = time.monotonic() + _START_SECONDS
        while not all(announced(self._layout.announcement(i)) for i in range(self._layout.shards)):
            self._raise_failure()
            if time.monotonic() > end or self.interrupted:
                raise WorkerError("cluster: not all shards came up; look into their logs, then continue with --resume")
            time.sleep(0.05)
        self._layout.confirm()
        self._weights.set(client.start(self._weights.get()))
        rows = sum(each["rows"] for each in client.stats())
        self._log.say(f"{self._layout.shards} shards hold {rows:,} rows; {self._work.batches} batches are done")

    def _until_over(self, client: ShardClient, control: str) -> None:
        told = looked = time.monotonic()
        batches = self._work.batches
        while not self.interrupted:
            self._raise_failure()
            for silent in self._work.silent(_SILENT):
                self._log.say(f"{silent} says nothing; another takes its place")
                self._watch.kill(silent)
            if self._work.pass_done:
                self._end_pass(client)
            if not self._next_part():
                return
            if self._work.over and self._work.idle:
                return
            if time.monotonic() - looked >= _LOOK_SECONDS:
                self._follow_wish(control)
                looked = time.monotonic()
            if time.monotonic() - told >= 10.0:
                rate = (self._work.batches - batches) / (time.monotonic() - told)
                self._say_where(rate)
                told, batches = time.monotonic(), self._work.batches
            time.sleep(0.1)

    def _next_part(self) -> bool:
        """Look for the next part of a log that keeps coming; False where it failed to come, which ends the run."""
        try:
            if self._coming is not None:
                self._coming.look()
        except DataError as error:
            self._starved = error
        return self._starved is None

    def _end_pass(self, client: ShardClient) -> None:
        number = self._work.epoch + 1
        gone = client.end_pass(number, number * self._work.shares)
        self._work.next_pass()
        rows = sum(each["rows"] for each in client.stats())
        self._log.say(f"end of pass {number - 1}: {gone} rows left the table, {rows:,} stay")

    def _end(self, client: ShardClient) -> None:
        """Stop the trainers, keep what was learned, stop the shards."""
        for name in self._watch.names("trainer"):
            self._watch.retire(name)
        self._work.keep()
        client.checkpoint()
        if not self.interrupted and self._starved is None:
            self.save(client)
        if self._publisher is not None:
            self._publisher.end()
            self._publisher.publish()
        self._watch.end()
        client.stop()

    def _make_publisher(self, client: ShardClient) -> Publisher | None:
        if not (self._config.has("publish") and self._config["publish"] is not None):
            return None
        task = task_of_run(self._run, self._config)
        assert isinstance(task, ClickTask)
        settings: PublishSettings = self._config.build("publish")
        return Publisher(settings, task, client, lambda: (self._work.epoch, self._work.batches), self._log.say)

    def _fail(self, client: ShardClient, error: PaddockError) -> None:
        """What the watch calls when a process dies too often."""
        self._failure = error
        client.abort(error)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def save(self, client: ShardClient) -> None:
        """Write weights and rows as a run in one process does, for evaluation, export and serving."""
        self._weights.set(client.dense())
        rows = _SavedRows(client, self._folder / "saved", self._layout.shards)
        state = {name: t.detach() for name, t in self._task.model.state_dict().items()}
        save_deployed(self._run.weights / "last.safetensors", state, {self._task.table.name: rows})

    # -- what trainers ask
    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        trainer, what = str(question["trainer"]), question["ask"]
        for line in question.get("windows", ()):
            self._keep_window(trainer, line)
        if what == "lease":
            return self._lease(trainer)
        worker = int(question["worker"])
        going = self._work.beat(trainer, worker, int(question["batches"]))
        if what == "done":
            self._work.done(trainer, worker)
        return {"go": going and not self.interrupted, "live": self._work.live, "together": self._work.together}

    def _lease(self, trainer: str) -> dict[str, Any]:
        if self._work.over:
            return {"state": "end"}
        lease: Lease | None = None if self.interrupted else self._work.lease(trainer)
        if lease is None:
            return {"state": "wait"}
        many = {"live": self._work.live, "together": self._work.together, "step": self._work.batches}
        return {"state": "work", "lease": lease_text(lease), **many}

    def _keep_window(self, trainer: str, figures: dict[str, Any]) -> None:
        step, epoch = self._work.batches, self._work.epoch
        line = {"kind": "window", "trainer": trainer, "step": step, "pass": epoch, **figures}
        append(self._run.path / PROGRESSIVE, line)
        self._log.say(
            f"{trainer}: {figures['rows']} rows before training on them: AUC {figures['auc']:.4f}, "
            f"log loss {figures['log_loss']:.4f}, COPC {figures['copc']:.3f}"
        )

    # -- inside
    def _say_where(self, rate: float) -> None:
        self._log.say(
            f"pass {self._work.epoch}, {self._work.batches} batches done, {rate:.1f} a second, "
            f"{self._work.live} trainers at work"
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        signal.signal(number, signal.SIG_DFL)

    def _total_steps(self, loader: Any) -> int:
        loader.close()
        length, uncounted = loader.length, self._runtime.steps is None and loader.length is None
        total = _MANY if uncounted else self._runtime.total_steps(length)
        schedule: Schedule = self._config.part("schedule")(total_steps=total, batch_size=loader.batch_size)
        if uncounted and not isinstance(schedule, Constant):
            raise ConfigError(
                f"runtime.epochs: nobody counted the batches of a pass, which {type(schedule).__name__} has to know; "
                "give runtime.steps, or the schedule Constant"
            )
        much = f"{self._runtime.epochs} passes" if uncounted else f"{total} batches"
        self._log.say(f"{much}, {loader.batch_size} rows a batch, learning rate {schedule.base_lr:g}")
        return total

    def _client(self) -> ShardClient:
        return ShardClient(
            lambda i: announced(self._layout.announcement(i)),
            self._layout.shards,
            self._model,
            self._task.table.dim,
            dense=self._weights.size,
            patience=Patience(give_up=self._settings.give_up),
            key=read_key(self._key),
        )

    @property
    def _model(self) -> bytes:
        return described(self._task.table, self._weights.size, self._tag)

    def _shard_spec(self, number: int) -> ShardSpec:
        settings, table = self._settings, self._task.table
        remove_file(self._layout.announcement(number))
        return ShardSpec(
            folder=str(self._layout.folder(number).absolute()),
            share=shares(self._layout.shards)[number],
            table=table.config(),
            announce=str(self._layout.announcement(number).absolute()),
            dense=self._weights.size,
            tag=self._tag,
            limit=None if table.limit is None else asdict(table.limit),
            sources=[str(path.absolute()) for path in self._layout.sources],
            host=self._places.shard_host(),
            durability=asdict(settings.log),
            checkpoint_bytes=settings.checkpoint_bytes,
            checkpoint_seconds=settings.checkpoint_seconds,
            threads=settings.shard_threads,
            key=self._key,
        )

    def _trainer_spec(self, name: str, control: str) -> TrainerSpec:
        settings = self._settings
        return TrainerSpec(
            name=name,
            run=str(self._run.path.absolute()),
            control=control,
            announcements=[str(self._layout.announcement(i).absolute()) for i in range(self._layout.shards)],
            model=self._model.hex(),
            total_steps=self._total,
            ahead=settings.ahead,
            window=settings.window,
            dense_every=settings.dense_every,
            give_up=settings.give_up,
            threads=settings.trainer_threads,
            imports=self._config.imports(),
            key=self._key,
        )


class _SavedRows:
    """The rows of all shards as a resource that is saved."""

    def __init__(self, client: ShardClient, folder: Path, count: int) -> None:
        self._client, self._folder, self._count = client, folder, count

    def save(self, path: Path, /) -> object:
        """See `suites.engine.contract.resources.Resource`."""
        if self._folder.is_dir():
            remove_folder(self._folder)
        parts = [self._folder / f"shard-{i}" for i in range(self._count)]
        self._client.save([str(part.absolute()) for part in parts])
        saved = join(parts, path)
        remove_folder(self._folder)
        return saved

    def placed(self, path: Path, /) -> None:
        """Each save stands alone."""

    def load(self, path: Path, /) -> None:
        """Shards are filled by themselves."""
        raise NotImplementedError


def refuse(config: Config, runtime: Runtime) -> None:
    """Raise ConfigError for what a cluster does not do."""
    refuse_what_rows_lack(runtime)
    if runtime.device != "cpu":
        raise ConfigError(
            f"runtime.device: is {runtime.device}, but the trainers of --cluster compute on CPUs; set it to cpu"
        )
    threads = config.has("hogwild") and config["hogwild"] is not None
    for path, wrong, why in (
        ("runtime.weights", runtime.weights is not None, "shards begin empty; train on in one process"),
        ("runtime.minutes", runtime.minutes is not None, "a cluster trains to the end of its passes or steps"),
        ("runtime.early_stop", runtime.early_stop is not None, "a cluster evaluates at the end"),
        ("hogwild", threads, "its trainers are the parallelism"),
    ):
        if wrong:
            raise ConfigError(f"{path}: is not for --cluster: {why}; set it to null")
