"""Published tables: what is served is what was trained, versions change whole, and wrong files are refused."""

import hashlib
import json
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, CheckpointError, DTypeError, StateError
from framework.table import SGD, Adam, DenseAdam, Normal, Table, TableSnapshot
from framework.table.snapshot import _without, read_header

KEYS = np.concatenate([np.arange(500), [-1, -(2**63), 2**63 - 1]])


def make(rule=None, **options) -> Table:
    table = Table(6, rule=rule or Adam(), **{"init": Normal(0.1), "name": "signs", "seed": 1} | options)
    table.update(KEYS, np.random.default_rng(0).normal(size=(len(KEYS), 6)), 0.1)
    return table


def rows_of(table: Table, keys) -> np.ndarray:
    with framework.no_grad():
        return table.lookup(keys).numpy().copy()


def test_float32_rows_are_served_bit_for_bit(tmp_path):
    table = make(DenseAdam())
    table.update([1, 2], np.ones((2, 6)))  # the others miss a step
    table.snapshot(tmp_path / "rows")
    served = TableSnapshot.open(tmp_path / "rows", name="signs")
    keys = np.concatenate([KEYS, [700, 800]]).reshape(5, 101)
    np.testing.assert_array_equal(served.lookup(keys), rows_of(table, keys))
    assert served.lookup(keys.view(np.uint64)).shape == (5, 101, 6)
    assert (served.missed, served.looked_up) == (4, 1010)
    assert (served.dim, served.header.rows, served.header.name) == (6, len(KEYS), "signs")


def test_half_rows_are_rounded_once(tmp_path):
    table = make()
    table.snapshot(tmp_path / "rows", "float16")
    np.testing.assert_array_equal(
        TableSnapshot.open(tmp_path / "rows").lookup(KEYS), rows_of(table, KEYS).astype(np.float16).astype(np.float32)
    )


def test_int8_rows_are_off_by_half_a_code(tmp_path):
    """Half a code is 1/510 of the row's range; the three operations that make a value again round it three times."""
    table = make()
    table.update([3], np.zeros((1, 6)))
    table.snapshot(tmp_path / "rows", "int8")
    rows = rows_of(table, KEYS)
    span = np.ptp(rows, axis=1, keepdims=True)
    off = np.abs(TableSnapshot.open(tmp_path / "rows").lookup(KEYS) - rows)
    assert (off <= span / 510 + 3 * np.finfo(np.float32).eps * np.abs(rows).max()).all()
    sizes = [np.prod([read_header(tmp_path / "rows").rows, b]) for b in (16, 24)]
    assert sizes[0] < sizes[1]


def test_int8_rows_of_equal_values_are_exact(tmp_path):
    table = Table(3, rule=SGD(), name="signs")
    table.update([1], np.zeros((1, 3)))
    table.update([1], rows_of(table, [1]) - np.float32(0.3), 1.0)
    table.snapshot(tmp_path / "rows", "int8")
    np.testing.assert_array_equal(TableSnapshot.open(tmp_path / "rows").lookup(np.array([1])), rows_of(table, [1]))


def test_an_empty_table_serves_zeros(tmp_path):
    Table(4).snapshot(tmp_path / "rows")
    served = TableSnapshot.open(tmp_path / "rows")
    assert (served.lookup(np.array([1, 2])) == 0).all() and served.missed == 2
    assert served.lookup(np.zeros((0, 3), np.int64)).shape == (0, 3, 4)


def test_deltas_bring_what_changed_and_take_what_went(tmp_path):
    table = make()
    table.snapshot(tmp_path / "base", "float16")
    served = TableSnapshot.open(tmp_path / "base")
    rng = np.random.default_rng(1)
    for i in range(4):
        table.update(rng.choice(KEYS, 30), rng.normal(size=(30, 6)), 0.1)
        table.update([900 + i], np.ones((1, 6)))
        table.forget([i, 900 + i - 1])
        if i == 2:
            table.update([i], np.ones((1, 6)))
        table.snapshot(tmp_path / f"delta{i}", "float32", delta=True)
        served.apply(tmp_path / f"delta{i}")
        again = TableSnapshot.open(tmp_path / "base", [tmp_path / f"delta{k}" for k in range(i + 1)])
        keys = np.concatenate([KEYS, np.arange(890, 910)])
        found = (table.counts(keys)[:, 0] >= 0)[:, None]
        for s in (served, again):
            rows = s.lookup(keys)
            assert (rows[~found[:, 0]] == 0).all()
            np.testing.assert_allclose(rows, np.where(found, rows_of(table, keys), 0), rtol=2.0**-11, atol=2.0**-25)
        assert read_header(tmp_path / f"delta{i}").rows < 40
        assert served.version == again.version
    table.save(tmp_path / "checkpoint")  # a chain of its own: the next delta still follows the last snapshot
    table.update([1], np.ones((1, 6)))
    table.snapshot(tmp_path / "delta4", delta=True)
    served.apply(tmp_path / "delta4")
    np.testing.assert_array_equal(served.lookup(np.array([1])), rows_of(table, [1]))


def test_readers_see_whole_versions_while_they_change(tmp_path):
    """Every row of version v holds v in all columns, so a look-up that mixes versions shows."""
    table = Table(4, rule=SGD(), name="signs", buckets=4)
    keys = np.arange(400)
    table.update(keys, np.zeros((400, 4)))

    def publish(path, value, delta):
        table.update(keys, rows_of(table, keys) - np.float32(value), 1.0)
        return table.snapshot(path, delta=delta)

    versions = {publish(tmp_path / "base", 0.0, False): 0.0}
    served, stop, wrong = TableSnapshot.open(tmp_path / "base"), threading.Event(), []

    def read():
        while not stop.is_set():
            rows, version = served.lookup_with_version(keys)
            wrong.append(bool((rows != versions[version]).any()))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for t in readers:
        t.start()
    for i in range(1, 25):
        whole = i % 8 == 0
        path = tmp_path / ("base" if whole else f"delta{i}")  # the base is replaced while it is mapped
        identity = publish(path, float(i), not whole)
        versions[identity] = float(i)
        (served.swap if whole else served.apply)(path)
    stop.set()
    for t in readers:
        t.join()
    assert wrong and not any(wrong)


# -- what is refused
@pytest.fixture
def files(tmp_path):
    table = make()
    table.snapshot(tmp_path / "base")
    for i in range(2):
        table.update([i], np.ones((1, 6)))
        table.snapshot(tmp_path / f"delta{i}", delta=True)
    return tmp_path


def refused(message, call, *args, **options):
    with pytest.raises(CheckpointError, match=message):
        call(*args, **options)


def test_a_delta_without_its_base_is_refused(files):
    served = TableSnapshot.open(files / "base")
    before = served.version
    refused(
        "delta1: this delta follows version .*, but version .* is served; apply the deltas",
        served.apply,
        files / "delta1",
    )
    refused("base: is a whole snapshot, not a delta; use swap", served.apply, files / "base")
    refused("delta0: is a delta of version .*; open the whole snapshot first", TableSnapshot.open, files / "delta0")
    refused("is a delta of version", served.swap, files / "delta0")
    assert served.version == before
    refused("a delta snapshot needs a whole one before it", Table(2).snapshot, files / "x", delta=True)


def test_a_snapshot_of_another_model_is_refused(files):
    served = TableSnapshot.open(files / "base", name="signs")
    make(name="users").snapshot(files / "users")
    refused("users: is of table 'users', not of 'signs'", served.swap, files / "users")
    refused("base: is of table 'signs', not of 'users'", TableSnapshot.open, files / "base", name="users")
    Table(7, name="signs").snapshot(files / "wide")
    refused("wide: its rows have 7 columns, those that are served 6", served.swap, files / "wide")
    other = make(name="users")
    other.snapshot(files / "users")
    other.snapshot(files / "users.delta", delta=True)
    refused("is of table 'users' with 6 columns, not of 'signs' with 6", served.apply, files / "users.delta")


def with_header(path, **changes):
    """The file again with another header, its digest right."""
    data = path.read_bytes()
    _, _, length, _ = struct.unpack("<8sII32s", data[:48])
    text = json.dumps(json.loads(data[48 : 48 + length]) | changes).encode()
    path.write_bytes(
        struct.pack("<8sII32s", b"PADTABLE", 1, len(text), hashlib.sha256(text).digest())
        + text
        + data[48 + len(text) :]
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:-1]), "base: has .* bytes, its header says .*; it is cut"),
        (lambda p: p.write_bytes(p.read_bytes()[:60]), "base: its header is cut or damaged"),
        (lambda p: p.write_bytes(b"PADT"), "base: is no snapshot of a table"),
        (lambda p: p.write_bytes(b"\x80\x04" + bytes(5000)), "base: is no snapshot of a table"),
        (lambda p: p.write_bytes(p.read_bytes()[:8] + b"\x09" + p.read_bytes()[9:]), "format 9; this version reads 1"),
        (lambda p: p.write_bytes(p.read_bytes()[:70] + b"X" + p.read_bytes()[71:]), "its header is cut or damaged"),
        (lambda p: p.unlink(), "base: cannot be read"),
        (lambda p: with_header(p, rows=10**9), "its index or rows lie outside of the file"),
        (lambda p: with_header(p, slots=3), "its index or rows lie outside of the file"),
        (lambda p: with_header(p, index_at=2**61), "its index or rows lie outside of the file"),
        (lambda p: with_header(p, rows_at=-16), "its header describes no rows"),
        (lambda p: with_header(p, dtype="object"), "its header describes no rows"),
        (lambda p: with_header(p, what=1), "its header describes no rows"),
        (lambda p: with_header(p, dim=0), "its header describes no rows"),
    ],
)
def test_damaged_and_foreign_files_are_refused(files, damage, message):
    damage(files / "base")
    refused(message, TableSnapshot.open, files / "base")


def test_an_index_full_of_nonsense_ends_and_reads_nothing_outside(files):
    header = read_header(files / "base")
    data = bytearray((files / "base").read_bytes())
    entries = np.frombuffer(data, np.uint32, offset=header.index_at)
    entries[2::4] = 2**31  # rows that there are not; no slot is empty
    (files / "base").write_bytes(data)
    served = TableSnapshot.open(files / "base")
    assert (served.lookup(np.arange(50)) == 0).all() and served.missed == 50


CUT = """
import os, sys
import numpy as np
from framework.errors import CheckpointError
from framework.table import SGD, Table, TableSnapshot, Zeros
folder, keys = sys.argv[1], np.arange(3000)
table = Table(6, rule=SGD(), init=Zeros(), name="signs")
table.update(keys, np.ones((len(keys), 6), np.float32), 1.0)
for name in "ab":
    table.snapshot(f"{folder}/{name}")
cut, whole = (TableSnapshot.open(f"{folder}/{name}") for name in "ab")
os.truncate(f"{folder}/a", 4096)
for count in (3000, 1):
    try:
        cut.lookup(keys[:count])
    except CheckpointError as error:
        print(error)
assert cut.current.lost and not whole.current.lost
assert (whole.lookup(keys) == -1).all()
cut.swap(f"{folder}/b")
assert (cut.lookup(keys) == -1).all()
print("goes on", flush=True)
os.kill(os.getpid(), 7)
print("outlived it")
"""


def test_a_file_that_is_cut_while_it_is_served_costs_errors_and_no_process(tmp_path):
    """A signal that somebody sends still ends the process."""
    done = subprocess.run([sys.executable, "-c", CUT, tmp_path], capture_output=True, text=True)
    assert done.returncode, done.stderr
    told = f"{tmp_path / 'a'}: the file was cut, or its disk failed, while its rows were served; publish the rows again"
    first, second, *last = done.stdout.splitlines()
    assert first.startswith(told) and second.startswith(told) and last == ["goes on"], done.stdout + done.stderr


def test_what_a_type_cannot_hold_is_refused(tmp_path):
    table = Table(2, rule=SGD(), name="signs")
    table.update([1], np.full((1, 2), np.nan))
    with pytest.raises(StateError, match="snapshot: a row holds nan, which int8 rows cannot; use float16 or float32"):
        table.snapshot(tmp_path / "rows", "int8")
    assert not (tmp_path / "rows").exists()
    with pytest.raises(AttributeValueError, match="dtype is 'float64'; it must be one of float32, float16, int8"):
        table.snapshot(tmp_path / "rows", "float64")
    refused("the snapshot cannot be written", table.snapshot, tmp_path)
    table.snapshot(tmp_path / "rows")
    with pytest.raises(DTypeError, match="snapshot: keys are float64 but must be int64"):
        TableSnapshot.open(tmp_path / "rows").lookup(np.zeros(2))


def test_keys_that_came_back_are_not_among_those_that_went():
    rng = np.random.default_rng(0)
    for _ in range(100):
        gone, every = np.unique(rng.integers(-20, 20, rng.integers(0, 15))), rng.integers(-25, 25, rng.integers(0, 40))
        np.testing.assert_array_equal(_without(gone, every), np.setdiff1d(gone, every))
