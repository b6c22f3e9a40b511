"""Whole runs over processes of this machine: killed, continued with other shards, and served as any other run."""

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from framework.errors import ConfigError, NotSupportedError
from framework.table import Table
from suites import engine
from suites.ctr.cluster.run import begin_anew
from suites.ctr.cluster.settings import ClusterSettings
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.cluster import check_address, cluster_of
from suites.engine.predict.inference import export_run
from suites.engine.run.folder import RunFolder
from suites.engine.train.training import train_on_cluster
from tests.suites.ctr.helpers import SCHEMA, columns, write_csv
from tests.suites.engine.signals import handled
from tests.waiting import until

pytestmark = pytest.mark.pages

ROWS, BATCH, EPOCHS = 12000, 64, 2


def children():
    """Process id and specification of this process's children, by what they are."""
    found = {"shard": [], "trainer": []}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().decode()
        except (OSError, ValueError):
            continue
        if parent == os.getpid():
            for kind, part in (("shard", "framework.table.remote"), ("trainer", "suites.ctr.cluster.trainer")):
                if part in words:
                    found[kind].append((int(entry.name), Path(words.rstrip("\0").split("\0")[-1])))
    return found


def at_work(spec):
    """Whether a process has come to its work."""
    log = spec.with_name(spec.name.replace(".spec.json", ".log"))
    return "begins with" in log.read_text() or "shard" in spec.name


class Killer:
    """Kills one of each as soon as a trainer is at work; then a shard, a trainer or both, a few times, at random."""

    def __init__(self, seed=0, pause=(0.2, 0.6), most=4):
        self._random, self._pause, self._most = random.Random(seed), pause, most
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.killed = {"shard": 0, "trainer": 0}

    def _run(self):
        while min(self.killed.values()) < self._most and not self._stop.wait(self._wait()):
            there = {kind: [pid for pid, spec in found if at_work(spec)] for kind, found in children().items()}
            both = ["shard", "trainer"]
            for kind in self._random.choice([["shard"], ["trainer"], both]) if any(self.killed.values()) else both:
                if there[kind] and there["trainer"] and self.killed[kind] < self._most:
                    os.kill(self._random.choice(there[kind]), signal.SIGKILL)
                    self.killed[kind] += 1

    def _wait(self):
        return self._random.uniform(*self._pause) if any(self.killed.values()) else 0.02

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def overrides(folder, **more):
    given = {
        "data.root": folder / "log.csv",
        "data.schema": folder / "schema.json",
        "data.train.batch_size": BATCH,
        "model.dim": 4,
        "model.hidden": [8],
        "runtime.epochs": EPOCHS,
        "runtime.threads": 1,
        "progressive.window": 1000,
        "cluster.shares": 3,
        "cluster.checkpoint_seconds": 0.5,
        "cluster.most_restarts": 100,
        "cluster.give_up": 60.0,
    } | more
    return [f"{key}={value}" for key, value in given.items()]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    write_csv(folder / "log.csv", columns(ROWS))
    (folder / "schema.json").write_text(json.dumps({"format": {"delimiter": ",", "header": True}, **SCHEMA}))
    return folder


def trained(log, runs, killer=None, **options):
    more = options.pop("more", {})
    return train_on_cluster(
        Path("ctr/deepfm_csv"), overrides(log, **more), address="processes", runs=runs, name="run", **options
    )


def rows_of(run):
    folder = next(p for p in (run / "weights").glob("last.????????") if p.is_dir())
    return Table.open(folder / "signs")


def expected_shows(run, epochs=EPOCHS):
    """How often each sign stands in the batches of all passes."""
    task = build_task(read_config(run))
    loader = task.train_loader(seed=0, workers=0)
    signs = []
    for batch, _ in zip(loader.stream(), range(epochs * len(loader)), strict=False):
        signs += [batch[name].ravel() for name in task.model.signs]
    return np.unique(np.concatenate(signs), return_counts=True)


def predictions(run):
    found = columns(50, seed=9)
    loaded = engine.load(run)
    rows = [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]
    return np.array([p.value["click"] for p in loaded(rows)])


def test_killed_at_random_every_batch_counts_once_and_the_run_can_be_served_and_dealt_out_anew(log, tmp_path):
    with Killer() as killer:
        assert trained(log, tmp_path)
    run = tmp_path / "run"
    assert min(killer.killed.values()) > 0, killer.killed
    keys, shows = expected_shows(run)
    table = rows_of(run)
    np.testing.assert_array_equal(table.counts(keys)[:, 0], shows)
    assert len(table) == len(keys)
    assert json.loads((run / "metrics.json").read_text())["auc"] > 0.6
    assert (run / "progressive.jsonl").read_text().count('"window"') > 0
    held = json.loads((run / "data.json").read_text())
    samples, whole, counts = held["train"]["names"]["rows"]
    assert whole and counts["rows"] == samples == ROWS * 8 // 10  # of one file, 8 rows of 10 are trained on
    assert "rows" in held["eval"]["names"] and "<h2>Data</h2>" in (run / "report.html").read_text()

    before = predictions(run)
    done = export_run(run, tmp_path / "exported")
    assert done.largest_difference < 1e-5 and (tmp_path / "exported" / "rows" / "rows.json").is_file()

    for count in (3, 1):  # the run is over: its buckets are only dealt out, and kept again
        assert trained(log, tmp_path, resume=True, more={"cluster.shards": count})
        np.testing.assert_array_equal(predictions(run), before)
        np.testing.assert_array_equal(rows_of(run).counts(keys)[:, 0], shows)
        assert len(list((run / "cluster").glob("layout-*/shard-?/shard.json"))) == count
    assert not any(children().values())


@pytest.mark.slow
def test_trainers_join_and_leave_in_the_middle_of_a_run(log, tmp_path):
    epochs, seen = 24, []
    wish = tmp_path / "run" / "cluster" / "trainers"

    def working():
        return [pid for pid, spec in children()["trainer"] if at_work(spec)]

    def ask():
        until(lambda: wish.is_file() and working())
        for text, count in (("3\n", 3), ("many\n", 3), ("1\n", 1)):
            wish.write_text(text)
            end = time.monotonic() + 60
            while len(working()) != count and time.monotonic() < end:
                time.sleep(0.02)
            seen.append(len(working()))
            time.sleep(0.6)  # the head has looked

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert trained(log, tmp_path, more={"cluster.trainers": 1, "runtime.epochs": epochs})
    asking.join(timeout=60)
    said = (tmp_path / "run" / "log.txt").read_text()
    assert seen == [3, 3, 1], said
    assert "trainer-1 joins" in said and "trainer-2 joins" in said and said.count("leaves; another one does") == 2
    assert "trainers: is 'many'; write a number from 1 to 1000" in said
    keys, shows = expected_shows(tmp_path / "run", epochs)
    np.testing.assert_array_equal(rows_of(tmp_path / "run").counts(keys)[:, 0], shows)


@pytest.mark.slow  # the other whole run stays in the quick tests
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_run_that_was_stopped_is_continued_where_it_was(log, tmp_path, number):
    def stop_soon():
        until((tmp_path / "run" / "progressive.jsonl").is_file)
        os.kill(os.getpid(), number)

    stopping = threading.Thread(target=stop_soon)
    stopping.start()
    with handled(number, signal.default_int_handler):
        assert trained(log, tmp_path, more={"runtime.epochs": EPOCHS}) is False
    stopping.join()
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert trained(log, tmp_path, resume=True, more={"cluster.shards": 3, "cluster.secure": "true"})
    assert (tmp_path / "run" / "cluster" / "key.json").stat().st_mode & 0o077 == 0
    keys, shows = expected_shows(tmp_path / "run")
    np.testing.assert_array_equal(rows_of(tmp_path / "run").counts(keys)[:, 0], shows)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"runtime.accumulate": 2}, "runtime.accumulate: rows of a table do not have it"),
        ({"runtime.minutes": 5}, "runtime.minutes: is not for --cluster"),
        ({"runtime.weights": "x.safetensors"}, "runtime.weights: is not for --cluster: shards begin empty"),
        ({"runtime.device": "xla-cpu"}, "runtime.device: is xla-cpu, but the trainers of --cluster compute on CPUs"),
        ({"cluster.shards": 0}, "shards is 0; it must be 1 to 256"),
        ({"cluster.trainers": 0}, "trainers is 0; it must be 1 or more"),
        ({"cluster.log": "{fsync: often}"}, "often"),
        ({"cluster.sharts": 2}, "sharts"),
    ],
)
def test_settings_that_a_cluster_does_not_have_are_refused_before_anything_starts(log, tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        trained(log, tmp_path, more=more)
    assert not any(children().values())


def test_rows_of_another_run_of_the_name_are_not_taken_for_ones_own(tmp_path):
    settings, run = ClusterSettings(folder=str(tmp_path / "shared")), RunFolder(tmp_path / "runs" / "mine")
    begin_anew(settings, run, overwrite=False)
    held = tmp_path / "shared" / "mine"
    held.mkdir(parents=True)
    (held / "layout.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"cluster.folder: .*mine is not empty.*--resume, or replace it with --over"):
        begin_anew(settings, run, overwrite=False)
    begin_anew(settings, run, overwrite=True)
    assert not held.exists()
    held.mkdir()
    (held / "thesis.doc").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        begin_anew(settings, run, overwrite=True)


def test_addresses():
    for good in ("local", "auto", "processes", "http://head:8265", "head:8265"):
        assert check_address(good) == good
    with pytest.raises(ConfigError, match=r"Ray's interactive client.*--cluster http://head:8265.*--cluster auto"):
        check_address("ray://head:10001")
    for bad in ("", "head", "head:", ":1", "head:port"):
        with pytest.raises(ConfigError, match="is no address; it is 'local'"):
            check_address(bad)


def test_suites_that_train_in_one_process_say_so():
    with pytest.raises(NotSupportedError, match="only click models"):
        cluster_of(read_config(Path("detection/yolov3_demo")))
