"""Bad logs: rows are counted and told with file and line up to a limit, or refused with one clear error."""

import gzip
import json
import os
import random
import sys

import numpy as np
import pytest

from framework import limits
from framework.data import FaultPolicy
from framework.data.logs import LogReader
from framework.errors import DataError, NotSupportedError, PaddockError
from tests.framework.data.logs.reference import CRITEO, assert_same, batch_of, csv_rows, joined
from tests.mutations import mutated

SCHEMA = {
    "columns": ["label", "id", "number", "when", "weight"],
    "quote": '"',
    "sparse": [{"name": "id", "column": 1, "slot": 1}],
    "ragged": [{"name": "ids", "column": 1, "slot": 1, "separator": "|"}],
    "dense": [{"name": "number", "column": 2, "transform": "log"}],
    "labels": [{"name": "label", "column": 0}],
    "time": 3,
    "weight": 4,
}
GOOD = b"1,a,0.5,100,1\n"
ALL = FaultPolicy(skipped=1.0)

BAD = [
    (b"1,a,0.5,100\n", "columns", "has 4 columns but there are 5"),
    (b"1,a,0.5,100,1,7\n", "columns", "has 6 columns but there are 5"),
    (b"1,a,half,100,1\n", "number", "'number' is 'half', which is no finite number"),
    (b"1,a,nan,100,1\n", "number", "'number' is 'nan'"),
    (b"1,a,1e999,100,1\n", "number", "'number' is '1e999'"),
    (b"1,a,0x10,100,1\n", "number", "'number' is '0x10'"),
    (b"2,a,0.5,100,1\n", "label", "the label 'label' is '2'; it must be 0 or 1"),
    (b",a,0.5,100,1\n", "label", "the label 'label' is missing"),
    (b"1,a,0.5,1.5,1\n", "time", "the time 'when' is '1.5'; it must be whole seconds"),
    (b"1,a,0.5,9223372036854775808,1\n", "time", "the time 'when' is '9223372036854775808'"),
    (b"1,a,0.5,100,-1\n", "weight", "the weight 'weight' is '-1'"),
    (b"1,a,0.5,100,\n", "weight", "the weight 'weight' is ''"),
    (b'1,"a,0.5,100,1\n', "quote", "'id': its quote does not end"),
    (b'1,"a"b,0.5,100,1\n', "quote", "'id': its quote does not end"),
    (b"1,a\0b,0.5,100,1\n", "nul", "holds a NUL byte"),
    (b"1,\xff\xfe,0.5,100,1\n", "text", "is not UTF-8"),
    (b"1," + b"x" * 500 + b",0.5,100,1\n", "line", "over limits.line_bytes"),
]


def read(path, data, schema=SCHEMA, **options):
    path.write_bytes(data)
    with limits.allow(line_bytes=400), LogReader(path, schema, 100, faults=ALL, **options) as log:
        return list(log), log.skipped


@pytest.mark.parametrize(("line", "kind", "said"), BAD, ids=[f"{kind}{i}" for i, (_, kind, _) in enumerate(BAD)])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("block_bytes", [10, 1 << 20])
def test_a_bad_row_is_left_out_and_told_with_its_line(tmp_path, line, kind, said, name, block_bytes):
    path = tmp_path / name
    data = GOOD * 3 + line + GOOD * 2 + line + GOOD
    found, faults = read(path, gzip.compress(data) if name.endswith(".gz") else data, block_bytes=block_bytes)
    assert len(joined(found)["labels"]) == 6
    assert faults.kinds == {kind: 2} and len(faults) == 2
    assert [m.split(": ")[0] for m in faults.messages] == [f"{path}:4", f"{path}:7"]
    assert said in faults.messages[0] and f"2 of 8 rows could not be used (2 {kind})" in faults.report()


@pytest.mark.parametrize(("line", "kind", "said"), BAD[:2])
def test_the_first_bad_row_is_an_error_unless_allowed(tmp_path, line, kind, said):
    path = tmp_path / "log.csv"
    path.write_bytes(GOOD * 9 + line)
    with LogReader(path, SCHEMA, 4) as log, pytest.raises(DataError, match=rf"log\.csv:10: {said}.*at most 0 of"):
        list(log)
    with LogReader(path, SCHEMA, 4, faults=FaultPolicy(skipped=0.1)) as log:
        assert len(list(log)) == 3
    with (
        LogReader(path, SCHEMA, 4, faults=FaultPolicy(skipped=0.09)) as log,
        pytest.raises(DataError, match=r"0\.09 of"),
    ):
        list(log)


def test_only_the_first_messages_are_kept(tmp_path):
    _, faults = read(tmp_path / "log.csv", (GOOD + b"bad\n") * 100, shown=3, block_bytes=50)
    assert faults.kinds == {"columns": 100} and len(faults.messages) == 3


def test_lines_are_counted_in_a_shuffled_log_too(tmp_path):
    data = GOOD * 500 + b"bad\n" + GOOD * 500
    _, faults = read(tmp_path / "log.csv", data, block_bytes=100, shuffle=True)
    assert faults.messages[0].startswith(f"{tmp_path}/log.csv:501: ")


def test_faults_survive_a_restart_without_being_counted_twice(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes((GOOD * 5 + b"bad\n") * 40)
    log = LogReader(path, SCHEMA, 30, faults=ALL, block_bytes=90)
    with log:
        batches = iter(log)
        next(batches), next(batches)
        state = json.loads(json.dumps(log.state_dict()))
    with LogReader(path, SCHEMA, 30, faults=ALL, block_bytes=90) as again:
        again.load_state_dict(state)
        assert sum(len(batch["labels"]) for batch in again) == 140
        assert again.skipped.kinds == {"columns": 40} and again.skipped.rows == 200


def test_times_that_run_backwards_are_counted_and_kept(tmp_path):
    data = b"".join(b"1,a,1,%d,1\n" % t for t in (5, 6, 4, 5, 7))
    found, faults = read(tmp_path / "log.csv", data)
    assert found[0]["time"].tolist() == [5, 6, 4, 5, 7]
    where = tmp_path / "log.csv"
    assert faults.report() == f"the time of 2 rows is before an earlier row's, first at {where}:3" and len(faults) == 0


def test_bytes_that_are_no_utf8_can_be_allowed(tmp_path):
    found, faults = read(tmp_path / "log.csv", b"1,\xff\xfe,1,1,1\n", SCHEMA | {"encoding": "bytes"})
    assert len(found[0]["labels"]) == 1 and not faults


SLOT_LOG = {
    "kind": "slot",
    "head": ["label"],
    "columns": ["label", "7", "8"],
    "sparse": [{"name": "a", "column": 1, "slot": 1}],
    "ragged": [{"name": "b", "column": 2, "slot": 2}],
    "labels": [{"name": "label", "column": 0}],
}


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        (b"1 7:18446744073709551616", "sign", "'7' is '18446744073709551616'"),
        (b"1 7:-1", "sign", "'7' is '-1', which is no whole number below 2^64"),
        (b"1 8:1 8:x", "sign", "'8' is 'x'"),
        (b"1 7", "sign", "'7' is no pair; expected slot:sign"),
        (b"1 7:", "sign", "'7:' is no pair"),
        (b"1 7:1 7:2", "values", "'7' has 2 values, and the schema takes 1"),
        (b"7:1", "label", "the label 'label' is '7:1'"),
        (b"  ", "columns", "has 0 columns"),
    ],
)
def test_bad_rows_of_slot_logs(tmp_path, line, kind, said):
    found, faults = read(tmp_path / "log.txt", b"1 7:5\n" + line + b"\n0 8:1\n", SLOT_LOG)
    assert faults.kinds == {kind: 1} and said in faults.messages[0] and f"{tmp_path}/log.txt:2: " in faults.messages[0]
    assert found[0]["b.offsets"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_compressed_file_gives_its_whole_rows_and_one_clear_error(tmp_path, damage):
    rng = random.Random(0)
    data = gzip.compress(b"".join(b"1,%d,1,1,1\n" % rng.randrange(10**9) for _ in range(3000)))
    middle = len(data) // 2
    flipped = data[:middle] + b"\xff" * 9 + data[middle + 9 :]
    data = {"cut": data[:middle], "flipped": flipped, "empty": b"", "text": GOOD}[damage]
    path = tmp_path / "log.csv.gz"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"log\.csv\.gz: it"), LogReader(path, SCHEMA, 100, faults=ALL) as log:
        list(log)
    with LogReader(path, SCHEMA, 100, block_bytes=1000, faults=ALL, bad_files=1) as log:
        rows = sum(len(batch["labels"]) for batch in log)
        assert (rows > 800 or damage != "cut") and rows < 3000
        assert "1 files could not be read" in log.skipped.report() and len(log.skipped.files) == 1


@pytest.mark.parametrize("name", ["log.csv.gz", "log.csv.zst"])
def test_a_bomb_is_refused(tmp_path, name):
    path, pack = tmp_path / name, gzip.compress
    if name.endswith(".zst"):
        pack = pytest.importorskip("backports.zstd", reason="the package backports.zstd is not installed").compress
    path.write_bytes(pack(GOOD * 1_000_000))
    with (
        limits.allow(free_bytes=1 << 20, log_growth=20),
        LogReader(path, SCHEMA, 1000) as log,
        pytest.raises(DataError, match=r"grow to more than .* over 20 times as many.*allow\(log_growth="),
    ):
        list(log)


@pytest.mark.parametrize(("name", "kind"), [("log.zst", "csv"), ("log.parquet", "parquet")])
def test_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch, name, kind):
    for module in ("compression.zstd", "backports.zstd", "pyarrow"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"any")
    with pytest.raises(NotSupportedError, match=r"needs a package: .*pip install 'pyarrow>=21' .*backports\.zstd"):
        LogReader(tmp_path / name, SCHEMA | {"kind": kind}, 10)


def test_a_line_without_end_takes_no_more_memory_than_its_limit(tmp_path):
    import resource

    path = tmp_path / "log.csv"
    with open(path, "wb") as file:
        file.write(GOOD)
        file.truncate(1 << 32)  # NUL bytes, as a file that was not written whole
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with LogReader(path, SCHEMA, 10, faults=ALL, block_bytes=1 << 28, threads=1) as log:
        log._options  # noqa: B018  (the reader is made; nothing is read)
    path.write_bytes(GOOD + bytes(1 << 26) + b"\n" + GOOD)
    with limits.allow(line_bytes=1000), LogReader(path, SCHEMA, 10, faults=ALL, block_bytes=1 << 20) as log:
        assert sum(len(b["labels"]) for b in log) == 2
        assert log.skipped.kinds == {"line": 1}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def test_files_that_vanish_or_grow_while_they_are_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(GOOD * 1000)
    for change, said in [
        (path.unlink, r"log\.csv: cannot be read any more \(No such file"),
        (lambda: append(path, GOOD), "it had 14000 bytes and now has 14014: it is still being written"),
        (lambda: os.truncate(path, 5000), "it had 14000 bytes and now has 5000: it was cut"),
    ]:
        path.write_bytes(GOOD * 1000)
        with LogReader(path, SCHEMA, 10, block_bytes=100, threads=1) as log:
            batches = iter(log)
            next(batches)
            change()
            with pytest.raises(DataError, match=said):
                list(batches)
    path.unlink()
    with pytest.raises(DataError, match=r"log\.csv: cannot be read \(.*no such file"):
        LogReader(path, SCHEMA, 10)


@pytest.mark.slow
def test_damaged_logs_never_crash_and_whole_rows_are_read_right(tmp_path, criteo_text):
    """Whatever bytes: errors are ours, and rows that are told as good are those a second reader finds, in order."""
    rng = random.Random(1)
    lines = criteo_text.encode().splitlines(keepends=True)
    for k in range(150):
        data = mutated(b"".join(lines[:20]), rng) if k % 3 else rng.randbytes(rng.randrange(400))
        path = tmp_path / ("log.tsv.gz" if k % 5 == 0 else "log.tsv")
        path.write_bytes(gzip.compress(data) if k % 5 == 0 else data)
        with LogReader(path, CRITEO, 7, faults=ALL, block_bytes=rng.choice((1, 60, 5000))) as log:
            rows = joined(list(log) or [batch_of([], CRITEO)])
        wanted = [line for line in data.split(b"\n") if usable(line)]
        assert len(rows["labels"]) == len(wanted), (k, data)
        if wanted:
            assert_same(rows, batch_of(csv_rows(b"\n".join(wanted).decode(), CRITEO), CRITEO))


def usable(line):
    """Whether a line is a row of Criteo's form, by the rules of docs/howto/ctr_data.md."""
    line = line.removesuffix(b"\r")
    try:
        cells = line.decode().split("\t")
    except UnicodeDecodeError:
        return False
    if b"\0" in line or len(cells) != 40:
        return False
    try:
        numbers = [float(cell) for cell in cells[:14] if cell]
        with np.errstate(over="ignore"):
            fine = all(np.isfinite(np.float32(x)) for x in numbers) and float(cells[0]) in (0, 1)
    except ValueError:
        return False
    return fine and not any("_" in cell or cell != cell.strip() for cell in cells[:14])


def test_damaged_compressed_and_slot_logs_never_crash(tmp_path):
    rng = random.Random(2)
    packed, slots = gzip.compress(GOOD * 200), b"1 7:5 8:1 8:2\n0 8:9\n" * 20
    for k in range(150):
        path = tmp_path / ("log.gz" if k % 2 else "log.txt")
        path.write_bytes(mutated(packed if k % 2 else slots, rng))
        try:
            with LogReader(path, SCHEMA if k % 2 else SLOT_LOG, 7, faults=ALL, bad_files=1, block_bytes=300) as log:
                for batch in log:
                    assert len(batch["labels"]) <= 7
        except PaddockError:
            pass
