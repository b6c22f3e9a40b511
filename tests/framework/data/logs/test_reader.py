"""The order of batches: the same for any number of threads, resumed at the exact row, every row once when shuffled."""

import gzip
import itertools
import json

import numpy as np
import pytest

from framework.data import FaultPolicy, World
from framework.data.logs import LogReader
from framework.errors import AttributeValueError, CheckpointError, DataError

SCHEMA = {
    "columns": ["label", "id", "more"],
    "sparse": [{"name": "id", "column": 1, "slot": 1}],
    "ragged": [{"name": "more", "column": 2, "slot": 2, "separator": "|"}],
    "dense": [{"name": "number", "column": 1}],
    "labels": [{"name": "label", "column": 0}],
}


def lines(begin, end):
    return "".join(f"{i % 2},{i},{'|'.join(str(i + k) for k in range(i % 4))}\n" for i in range(begin, end))


@pytest.fixture(params=["plain", "compressed", "both"])
def files(tmp_path, request):
    """1,000 rows, numbered, in 5 files."""
    paths = []
    for k in range(5):
        packed = request.param == "compressed" or (request.param == "both" and k % 2)
        path = tmp_path / f"part{k}.csv{'.gz' if packed else ''}"
        data = lines(200 * k, 200 * k + 200).encode()
        path.write_bytes(gzip.compress(data) if packed else data)
        paths.append(path)
    return paths


def reader(files, batch_size=32, **options):
    return LogReader(files, SCHEMA, batch_size, **({"block_bytes": 300, "shuffle_rows": 150} | options))


def ids(batches):
    return np.concatenate([batch["dense"][:, 0] for batch in batches]).astype(int).tolist()


def same(one, two):
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert set(a) == set(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def test_rows_come_in_the_order_of_the_files(files):
    with reader(files) as log:
        batches = list(log)
    assert ids(batches) == list(range(1000)) and [len(b["labels"]) for b in batches] == [32] * 31 + [8]
    for batch in batches:
        np.testing.assert_array_equal(np.diff(batch["more.offsets"]), batch["dense"][:, 0].astype(int) % 4)


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_the_same_for_any_number_of_threads(files, shuffle):
    found = []
    for threads in (1, 2, 5):
        with reader(files, shuffle=shuffle, threads=threads, seed=3) as log:
            found.append(list(itertools.islice(log.stream(), 50)))
    same(found[0], found[1])
    same(found[0], found[2])


def test_a_shuffled_epoch_has_every_row_once_and_another_order_each_time(files):
    with reader(files, shuffle=True, seed=1) as log:
        first, second = ids(list(log)), ids(list(log))
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second and first != list(range(1000))


def test_windows_mix_rows_of_many_files(tmp_path):
    """Neighbours in a batch come from many places: the ids of a batch spread as widely as those of all rows."""
    path = tmp_path / "log.csv"
    path.write_text(lines(0, 20_000))
    with reader(path, 500, shuffle=True, block_bytes=2000, shuffle_rows=5000) as log:
        spread = [np.std(batch["dense"][:, 0]) for batch in log]
    assert min(spread) > 0.7 * 20_000 / np.sqrt(12)  # of a uniform draw; 20 blocks a window


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 13, 31, 32, 40])
def test_a_saved_position_continues_at_the_exact_row(files, shuffle, taken):
    with reader(files, shuffle=shuffle, seed=5) as log:
        whole = list(itertools.islice(log.stream(), 70))
    with reader(files, shuffle=shuffle, seed=5) as log:
        before = list(itertools.islice(log.stream(), taken))
        state = json.loads(json.dumps(log.state_dict()))
    with reader(files, shuffle=shuffle, seed=5, threads=3) as log:
        log.load_state_dict(state)
        same(before + list(itertools.islice(log.stream(), 70 - taken)), whole)


def test_a_position_of_other_batches_is_refused(files, tmp_path):
    state = reader(files).state_dict()
    for other, said in [
        (reader(files, 16), "batch_size 32 but this reader has 16"),
        (reader(files, seed=1), "seed 0"),
        (reader(files[:2]), "files"),
        (LogReader(files, SCHEMA | {"missing": ["0"]}, 32, block_bytes=300, shuffle_rows=150), "schema"),
    ]:
        with pytest.raises(CheckpointError, match=said):
            other.load_state_dict(state)


def test_processes_share_the_rows(files):
    for shuffle in (False, True):
        parts = []
        for rank in range(3):
            log = reader(files, shuffle=shuffle)
            log.split(World(rank, 3))
            with log:
                parts.append(ids(list(log)))
        assert all(parts) and sorted(itertools.chain(*parts)) == list(range(1000))


def test_a_short_last_batch_can_be_left_out(files):
    with reader(files, drop_last=True) as log:
        assert [len(batch["labels"]) for batch in log] == [32] * 31
        assert log.epoch == 1 and len(list(log)) == 31


def test_an_iterator_that_is_left_behind_ends(files):
    with reader(files) as log:
        old = log.stream()
        next(old)
        next(log.stream())
        with pytest.raises(RuntimeError, match="was moved or iterated anew"):
            next(old)


def test_patterns_name_files_in_order(files, tmp_path):
    with LogReader(tmp_path / "part*", SCHEMA, 100) as log:
        assert ids(list(log)) == list(range(1000))
    with pytest.raises(DataError, match="no file matches"):
        LogReader(str(tmp_path / "nothing*"), SCHEMA, 10)


def test_logs_without_rows_are_an_error_and_no_endless_loop(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("\n\n")
    with LogReader(path, SCHEMA, 10) as log:
        assert list(log) == []
        with pytest.raises(DataError, match="1 files give no row"):
            next(log.stream())
    path.write_text("")
    with LogReader(path, SCHEMA, 10) as log:
        assert list(log) == []


def test_wrong_sizes_are_refused(tmp_path):
    with pytest.raises(AttributeValueError, match="batch_size is 0; it must be 1 or more"):
        LogReader(tmp_path, SCHEMA, 0)
    assert FaultPolicy().skipped == 0
