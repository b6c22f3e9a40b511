"""Small tables, shards and pushes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from framework.table import SGD, Adam, Eviction, Normal, Table
from framework.table.remote import Patience, ShardClient, ShardSpec, announced, described, shares, unique
from framework.table.remote.shard import Shard

ROOT = Path(__file__).resolve().parents[4]
DIM, DENSE = 3, 500
QUICK = Patience(retry=0.3, longest=1.0, give_up=30.0)


def new_table(rule=None, **options):
    return Table(DIM, rule=rule or Adam(lr=0.1), init=Normal(0.1), name="signs", seed=7, **options)


def new_shard(folder, number=0, count=1, dense=DENSE, table=None, **options):
    return Shard(folder, new_table() if table is None else table, shares(count)[number], dense=dense, **options)


def batches(count, rows=40, seed=0, keys=60):
    """Keys int64 [rows, 2] with clicks float32 [rows], drawn so that many come again."""
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(0, keys, (rows, 2)) * 1_000_003 - 9, (rng.random(rows) < 0.3).astype(np.float32))
        for _ in range(count)
    ]


def gradient(rows, number):
    """Some gradient that depends on the rows, float32 like them."""
    return (rows * np.float32(0.5) + np.float32(np.sin(number))).astype(np.float32)


def table_state(table):
    """All rows by key: values, states, counters."""
    keys, values, states, counts, numbers = (np.asarray(a.numpy()) for a in table._native.read_rows(0, 256, 0, False))
    order = np.argsort(keys)
    return [part[order] for part in (keys, values, states, counts, numbers)]


def assert_same_rows(a, b):
    for one, other in zip(table_state(a), table_state(b), strict=True):
        np.testing.assert_array_equal(one, other)


def evicting_table():
    return new_table(rule=SGD(lr=0.1), eviction=Eviction(decay=0.5, least_score=0.0, most_unseen=1))


class Processes:
    """Shards as processes of their own, which may be killed and started again."""

    def __init__(self, folder, count=2, dense=DENSE, table=None, **options):
        self.folder, self.count, self.dense = Path(folder), count, dense
        self.table = new_table() if table is None else table
        self.folder.mkdir(parents=True, exist_ok=True)
        self.running = {}
        self.options = {"threads": 1, "checkpoint_seconds": 0.5, **options}
        for i in range(count):
            self.start(i)

    def spec(self, i):
        return ShardSpec(
            folder=str(self.folder / f"shard-{i}"),
            share=shares(self.count)[i],
            table=self.table.config(),
            announce=str(self.folder / f"shard-{i}.json"),
            dense=self.dense,
            **self.options,
        )

    def start(self, i):
        (self.folder / f"shard-{i}.json").unlink(missing_ok=True)
        path = self.folder / f"shard-{i}.spec.json"
        path.write_text(self.spec(i).text())
        words = [sys.executable, "-m", "framework.table.remote", "--with-parent", str(path)]
        log = (self.folder / f"shard-{i}.log").open("ab")
        self.running[i] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT)

    def where(self, i):
        return announced(self.folder / f"shard-{i}.json")

    def kill(self, i):
        self.running[i].send_signal(signal.SIGKILL)
        self.running[i].wait()

    def ready(self, seconds=60):
        end = time.monotonic() + seconds
        while not all(self.where(i) for i in range(self.count)):
            assert time.monotonic() < end, self.logs()
            assert all(p.poll() is None for p in self.running.values()), self.logs()
            time.sleep(0.05)
        return self

    def logs(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def client(self, **options):
        options = {"patience": QUICK, "window": 3, **options}
        model = described(self.table, self.dense)
        return ShardClient(self.where, self.count, model, options.pop("dim", DIM), dense=self.dense, **options)

    def close(self):
        for process in self.running.values():
            process.stdin.close()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def pid_of(folder, i):
    return json.loads((Path(folder) / f"shard-{i}.json").read_text())["pid"]


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def step(client, sequence, keys, clicks, change=None):
    """Pull, make a gradient, push."""
    found = unique(keys, clicks)
    rows = client.pull(found)()
    return client.push(sequence, found, gradient(rows, sequence), 0.1, change)
