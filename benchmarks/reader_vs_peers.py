#!/usr/bin/env python3
"""Claim: click logs are read 14 times as fast as in plain Python, and 1.5 times as fast as by pyarrow.csv or polars.

    python benchmarks/reader_vs_peers.py [--rows 1000000] [--threads 2] [--text FILE]

The log has Criteo's form: a label, 13 numbers (signed logs), 26 values (64-bit signs), in batches of 4096 rows. It is
the real piece again and again, each time with other letters in its values; without the piece the values are drawn.
Plain Python is the csv module with the xxhash package. pyarrow and polars parse with all threads into columns, which
are then hashed by our own native code, in a pool of as many threads; NumPy takes the logs. All give the same signs:
their sums are compared. Each runs in a fresh process, the file in the page cache.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, Claim, Competitor, compare, data_path, finish, has_modules, in_turns, lacks, table

sys.path.insert(0, str(ROOT))

NUMBERS, VALUES, BATCH = 13, 26, 4096
COLUMNS = ["label", *(f"i{i}" for i in range(1, 14)), *(f"c{i}" for i in range(1, 27))]
SPARSE: list[dict[str, Any]] = [{"name": f"c{i}", "column": NUMBERS + i, "slot": i} for i in range(1, VALUES + 1)]
SCHEMA = {
    "delimiter": "\t",
    "columns": COLUMNS,
    "sparse": SPARSE,
    "dense": [{"name": f"i{i}", "column": i, "transform": "log"} for i in range(1, 14)],
    "labels": [{"name": "label", "column": 0}],
}
OURS, PYTHON, PYARROW, POLARS = "paddock", "plain Python", "pyarrow.csv", "polars"
CLAIMS = {PYTHON: Claim("reader_vs_python", 14, 20), PYARROW: Claim("reader_vs_csv_libraries", 1.5, 2)}
Batches = Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]  # sparse [N, 26], dense [N, 13], labels [N]


def make_log(path: Path, rows: int) -> None:
    """Write a log of `rows` rows."""
    piece = data_path("ctr/criteo_small/criteo_small.zip")
    if piece.exists():
        with zipfile.ZipFile(piece) as archive:
            name = next(n for n in archive.namelist() if n.endswith("train.tsv"))
            lines = archive.read(name).splitlines()
    else:
        print(f"rows are drawn: {lacks(piece)}", file=sys.stderr)
        lines = [_drawn(np.random.default_rng(i)) for i in range(7200)]
    cells = [line.split(b"\t") for line in lines]
    heads = [b"\t".join(c[: 1 + NUMBERS]) for c in cells]
    tails = b"\n".join(b"\t".join(c[1 + NUMBERS :]) for c in cells)
    rng, digits = np.random.default_rng(0), b"0123456789abcdef"
    with open(path, "wb") as file:
        for begin in range(0, rows, len(lines)):
            letters = bytes(rng.permutation(np.frombuffer(digits, np.uint8)))
            values = tails.translate(bytes.maketrans(digits, letters)).split(b"\n")
            count = min(len(lines), rows - begin)
            file.writelines(b"%s\t%s\n" % pair for pair in zip(heads[:count], values[:count], strict=True))


def _drawn(rng: np.random.Generator) -> bytes:
    numbers = [b"%d" % x if x else b"" for x in rng.zipf(1.5, NUMBERS) % 5000]
    return b"\t".join(
        [b"%d" % (rng.random() < 0.22), *numbers, *(b"%08x" % int(rng.integers(1 << 32)) for _ in range(VALUES))]
    )


def ours(path: Path, threads: int, rows: int) -> Batches:
    """Batches of a LogReader."""
    from framework.data.logs import LogReader

    with LogReader(path, SCHEMA, BATCH, threads=threads) as log:
        for batch in log:
            yield batch["sparse"], batch["dense"], batch["labels"][:, 0]


def plain_python(path: Path, threads: int, rows: int) -> Batches:
    """The same with the csv module and xxhash, over the first `rows` rows."""
    import xxhash

    mask = (1 << 52) - 1
    digest, log1p, copysign = xxhash.xxh64_intdigest, math.log1p, math.copysign
    slots = [(1 + NUMBERS + i, (i + 1) << 52) for i in range(VALUES)]
    with open(path, newline="", encoding="utf-8") as file:
        reader = islice(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), rows)
        while chunk := list(islice(reader, BATCH)):
            sparse, dense, labels = [], [], []
            for cells in chunk:
                labels.append(float(cells[0]))
                numbers = [float(cell) if cell else 0.0 for cell in cells[1 : 1 + NUMBERS]]
                dense.append([copysign(log1p(abs(x)), x) for x in numbers])
                sparse.append(
                    [slot | ((digest(cells[c].encode()) & mask) or 1) if cells[c] else slot for c, slot in slots]
                )
            yield np.array(sparse, np.int64), np.array(dense, np.float32), np.array(labels, np.float32)


def hashed_in_a_pool(parts: list[Any], threads: int) -> Batches:
    """Arrow record batches to batches: native hashes of the values, NumPy's logs of the numbers."""
    import pyarrow

    from framework import _core
    from framework.data.logs import LogSchema

    native = LogSchema(
        {"kind": "parquet", "columns": COLUMNS[14:], "sparse": [s | {"column": s["column"] - 14} for s in SPARSE]}
    )

    def texts(array: Any) -> tuple[np.ndarray, np.ndarray, None, None]:
        array = array.cast(pyarrow.large_string()) if array.type != pyarrow.large_string() else array
        _, offsets, data = array.buffers()
        begins = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        return np.frombuffer(data, np.uint8), begins, None, None

    def hashed(part: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = [texts(part.column(i)) for i in range(1 + NUMBERS, part.num_columns)]
        sparse = _core.log_arrays(_core.parse_log_columns(native.native(native.columns), columns, part.num_rows))[0]
        dense = np.empty((part.num_rows, NUMBERS), np.float32)
        for i in range(NUMBERS):
            x = np.nan_to_num(part.column(1 + i).to_numpy(zero_copy_only=False))
            np.copysign(np.log1p(np.abs(x)), x, out=dense[:, i])
        return sparse, dense, part.column(0).to_numpy(zero_copy_only=False)

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(hashed, parts)


def by_pyarrow(path: Path, threads: int, rows: int) -> Batches:
    """pyarrow.csv's parser, types and threads given."""
    import pyarrow
    import pyarrow.csv

    pyarrow.set_cpu_count(threads)
    types = {name: pyarrow.float32() for name in COLUMNS[: 1 + NUMBERS]}
    types |= {name: pyarrow.large_string() for name in COLUMNS[1 + NUMBERS :]}
    found = pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=COLUMNS, use_threads=threads > 1),
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    yield from hashed_in_a_pool(found.to_batches(max_chunksize=BATCH), threads)


def by_polars(path: Path, threads: int, rows: int) -> Batches:
    """polars' parser, types given; threads by its environment variable."""
    import polars

    types = dict.fromkeys(COLUMNS[: 1 + NUMBERS], polars.Float32) | dict.fromkeys(COLUMNS[14:], polars.String)
    frame = polars.read_csv(path, separator="\t", has_header=False, new_columns=COLUMNS, schema=types, quote_char=None)
    frame = frame.with_columns(polars.col(polars.String).fill_null(""))
    arrow = frame.to_arrow(compat_level=polars.CompatLevel.oldest())
    yield from hashed_in_a_pool(arrow.to_batches(max_chunksize=BATCH), threads)


READERS: dict[str, Callable[[Path, int, int], Batches]] = {
    OURS: ours,
    PYTHON: plain_python,
    PYARROW: by_pyarrow,
    POLARS: by_polars,
}


def run(name: str, path: Path, threads: int, rows: int) -> dict[str, Any]:
    """Read the first rows untimed, so that modules are there and threads have started, and then the log."""
    with tempfile.NamedTemporaryFile(suffix=".tsv") as head, open(path, "rb") as log:
        head.writelines(islice(log, BATCH))
        head.flush()
        for _ in READERS[name](Path(head.name), threads, rows):
            pass
    seen, signs, numbers = 0, 0, 0.0
    started = time.perf_counter()
    for sparse, dense, labels in READERS[name](path, threads, rows):
        seen += len(labels)
        signs += int(sparse[:, ::5].sum(dtype=np.uint64))  # some columns: the same work for all, and little
        numbers += float(dense[:, 0].sum())
    seconds = time.perf_counter() - started
    return {
        "rate": round(seen / seconds / 1000, 2),
        "unit": "k rows/s",
        "step_ms": round(1000 * seconds * BATCH / seen, 3),
        "mb_per_s": round(path.stat().st_size * min(1, rows / seen) / seconds / 1e6, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "rows": seen,
        "sum": [signs % 2**64, round(numbers, 1)],
    }


def floors() -> dict[str, float]:
    """What bounds the reader: memory, and hashing alone, in a row of very many values."""
    from framework import _core
    from framework.data.logs import LogSchema

    block = np.ones(1 << 27, np.uint8)
    copy = np.ones_like(block)
    data = np.random.default_rng(0).integers(97, 103, 8 << 20, np.uint8)
    offsets = np.arange(0, len(data) + 1, 8, dtype=np.int64)
    schema = LogSchema({"kind": "parquet", "columns": ["a"], "ragged": [{"name": "a", "column": 0, "slot": 1}]})
    column = (data, offsets, None, np.array([0, len(offsets) - 1]))

    def best(work: Callable[[], Any]) -> float:
        times = []
        for _ in range(7):
            started = time.perf_counter()
            work()
            times.append(time.perf_counter() - started)
        return min(times)

    copied = best(lambda: np.copyto(copy, block))
    hashed = best(lambda: _core.parse_log_columns(schema.native(schema.columns), [column], 1))
    return {"copy_gb_s": round(2 * len(block) / copied / 1e9, 2), "hash_ns": round(hashed * 1e9 / len(offsets), 2)}


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the tables and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--python-rows", type=int, default=20_000, help="that plain Python reads")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--text", type=Path, help="a log in Criteo's form, instead of one that is made")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--run", choices=list(READERS), help=argparse.SUPPRESS)
    a = parser.parse_args(words)
    if a.run:
        print(json.dumps(run(a.run, a.text, a.threads, a.python_rows)))
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = a.text or Path(folder) / "log.tsv"
        if a.text is None:
            make_log(path, a.rows)
        return measured(a, path)


def measured(a: argparse.Namespace, path: Path) -> list[dict]:
    """All comparisons on a log."""

    def command(name: str, threads: int) -> list[str]:
        options = ["--run", name, "--text", path, "--threads", threads, "--python-rows", a.python_rows]
        prefix = ["env", f"POLARS_MAX_THREADS={threads}"] if name == POLARS else []
        return [*prefix, sys.executable, __file__, *map(str, options)]

    modules = {PYTHON: "xxhash", PYARROW: "pyarrow", POLARS: "polars"}
    names = [OURS, *(name for name, module in modules.items() if has_modules(sys.executable, module, "pyarrow"))]
    found = in_turns([Competitor(name, command(name, a.threads)) for name in names], a.rounds)
    sums = {tuple(m["sum"]) for name, rounds in found.items() if name != PYTHON for m in rounds}
    if len({signs for signs, _ in sums}) != 1 or max(n for _, n in sums) - min(n for _, n in sums) > 1:
        raise RuntimeError(f"the readers give different signs or numbers: {sums}")
    results = []
    for least, claim in CLAIMS.items():
        peers = {name: found[name] for name in found if name == OURS or (name == PYTHON) == (least == PYTHON)}
        if len(peers) > 1:
            results.append(compare(claim, peers))
    one = in_turns([Competitor(OURS, command(OURS, 1)), Competitor("threads", command(OURS, a.threads))], a.rounds)
    scaling = [b["rate"] / x["rate"] for x, b in zip(one[OURS], one["threads"], strict=True)]
    print(table(results))
    print(f"{a.threads} threads against one: {[round(s, 2) for s in scaling]}; floors: {floors()}")
    print(f"load {os.getloadavg()[0]:.1f}")
    finish("reader_vs_peers", {"cases": results, "scaling": scaling, "floors": floors()}, a.json)
    return results


if __name__ == "__main__":
    main()
