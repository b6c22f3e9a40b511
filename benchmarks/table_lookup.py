#!/usr/bin/env python3
"""Claim: look-ups of 100 keys are 5 times as fast as Redis's MGET over a Unix socket, and as a Python dict of rows.

    python benchmarks/table_lookup.py [CASE ...] [--rows 1000000]

A case is a million rows of 16 numbers under random 64-bit keys, read in batches of 100 drawn at random: of a `Table`,
of a mapped `TableSnapshot` with float32 or int8 rows; by one thread of Python, or (`_by2`) by two that share it. Redis
(Debian's package, in memory only) holds values of 64 bytes and is driven by its own redis-benchmark, with as many
connections as serve it best, on a core of its own.
The floor is what a key cannot do without: one line of the index and those of its row from memory, at the rate at which
this machine copies.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import OURS, ROOT, Claim, Competitor, add_rows, run_claims, spread

BATCH, DIM, LINE = 100, 16, 64
KINDS = ("table_b100", "snapshot_b100", "snapshot_int8_b100")
CLAIMS = [Claim(kind + callers, 5.0, 10.0) for callers in ("", "_by2") for kind in KINDS]
CONNECTIONS = (2, 8, 50)


def keys_of(rows: int) -> np.ndarray:
    """The keys, int64 [rows]."""
    return np.random.default_rng(0).integers(-(2**63), 2**63 - 1, rows)


def batches_of(rows: int) -> list[np.ndarray]:
    """Batches of keys that are there, int64 [BATCH] each."""
    return list(np.random.default_rng(1).choice(keys_of(rows), (2000, BATCH)))


def ours(case: str, rows: int) -> Callable[[np.ndarray], object]:
    """A look-up of one batch."""
    sys.path.insert(0, str(ROOT))
    import framework
    from framework.table import SGD, Normal, Table, TableSnapshot

    made = Table(DIM, rule=SGD(), init=Normal(0.1))
    made.update(keys_of(rows), np.zeros((rows, DIM), np.float32))
    if case.startswith("table"):

        def lookup(keys: np.ndarray) -> object:
            with framework.no_grad():
                return made.lookup(keys)

        return lookup
    folder = tempfile.mkdtemp()
    made.snapshot(Path(folder) / "rows", "int8" if "int8" in case else "float32")
    served = TableSnapshot.open(Path(folder) / "rows")
    shutil.rmtree(folder)  # the file is mapped
    return served.lookup


def dictionary(rows: int) -> Callable[[np.ndarray], object]:
    """A look-up in a Python dict of arrays."""
    values = np.random.default_rng(2).standard_normal((rows, DIM), np.float32)
    held = dict(zip(keys_of(rows).tolist(), values, strict=True))
    return lambda keys: np.stack([held[k] for k in keys.tolist()])


def time_calls(
    call: Callable[[np.ndarray], object], rows: int, seconds: float, callers: int = 1
) -> tuple[float, float]:
    """Keys a second, and a second of this process's CPU time, which other processes on the machine disturb less."""
    batches = batches_of(rows)
    for batch in batches[:200]:
        call(batch)
    begin, done = threading.Barrier(callers + 1), [0] * callers

    def work(number: int) -> None:
        begin.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for batch in batches[number * 100 : number * 100 + 100]:
                call(batch)
            done[number] += 100 * BATCH

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for each in threads:
        each.start()
    begin.wait()
    start, cpu = time.perf_counter(), time.process_time()
    for each in threads:
        each.join()
    return sum(done) / (time.perf_counter() - start), sum(done) / (time.process_time() - cpu)


def redis(rows: int, seconds: float) -> float:
    """Keys a second of MGET, by redis-benchmark on a Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/socket"
        options = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        try:
            while not Path(socket).exists():
                time.sleep(0.05)
            # -r draws numbers below it: nearly all keys are there after three times as many SETs.
            fill = ["redis-benchmark", "-s", socket, "-q", "-P", "200", "-n", str(3 * rows), "-r", str(rows)]
            subprocess.run([*fill, "SET", "key:__rand_int__", "x" * 4 * DIM], check=True, capture_output=True)
            return max(mget(socket, rows, seconds / len(CONNECTIONS), c) for c in CONNECTIONS)
        finally:
            server.terminate()
            server.wait()


def mget(socket: str, rows: int, seconds: float, connections: int) -> float:
    """Keys a second with so many connections."""
    words = ["MGET", *["key:__rand_int__"] * BATCH]
    command = ["redis-benchmark", "-s", socket, "--csv", "-r", str(rows), "-c", str(connections)]
    requests = 2000
    while True:
        start = time.perf_counter()
        out = subprocess.run([*command, "-n", str(requests), *words], check=True, capture_output=True, text=True)
        took = time.perf_counter() - start
        if took > seconds / 2:
            return float(out.stdout.strip().splitlines()[-1].split(",")[1].strip('"')) * BATCH
        requests = int(requests * max(2, seconds / took))


def copy_rate() -> float:
    """Bytes a second that one core copies, both ways counted."""
    a, b = np.ones(1 << 26, np.uint8), np.ones(1 << 26, np.uint8)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(b, a)
        times.append(time.perf_counter() - start)
    return 2 * a.nbytes / min(times)


def floor(case: str) -> float:
    """Keys a second at which memory alone would answer."""
    row = 8 + DIM if "int8" in case else 4 * DIM
    return callers_of(case) * copy_rate() / (LINE + -(-row // LINE) * LINE)


def callers_of(case: str) -> int:
    """Threads that look up."""
    return 2 if case.endswith("_by2") else 1


def run(a: argparse.Namespace) -> None:
    """Time one side and print the JSON line that `common.measure` reads."""
    side, case, rows, seconds = a.side, a.cases[0], a.rows, a.seconds
    fields: dict[str, object] = {}
    if side == "redis":
        rate = redis(rows, seconds)
    elif side == "dict":
        rate, _ = time_calls(dictionary(rows), rows, seconds)
    else:
        rate, of_cpu = time_calls(ours(case, rows), rows, seconds, callers_of(case))
        fields["of_cpu"] = round(of_cpu / 1e6, 1)
        fields["floor"] = round(floor(case) / 1e6, 1)
    who = resource.RUSAGE_CHILDREN if side == "redis" else resource.RUSAGE_SELF
    memory = round(resource.getrusage(who).ru_maxrss / 1024)
    print(json.dumps({"rate": round(rate / 1e6, 3), "unit": "M keys/s", "peak_rss_mb": memory, "step_ms": 0, **fields}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, a dict, and Redis where it is installed."""

    def command(side: str) -> list[str]:
        words = ["--side", side, "--seconds", str(a.seconds), "--rows", str(a.rows), case]
        return [sys.executable, __file__, *words]

    found = [Competitor(OURS, command(OURS)), Competitor("dict", command("dict"))]
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        found.append(Competitor("redis", command("redis")))
    else:
        print("Redis is left out: apt-get install redis-server", file=sys.stderr)
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims(
        "table_lookup",
        __doc__,
        CLAIMS,
        competitors,
        run,
        words,
        options=add_rows(1_000_000),
        figures=lambda found: {key: [m[key] for m in found[OURS]] for key in ("of_cpu", "floor")},
        told=lambda r: (
            f"{r['case']}: {spread(r['of_cpu'], 1)} a second of CPU; memory alone would allow {spread(r['floor'], 0)}"
        ),
    )


if __name__ == "__main__":
    main()
