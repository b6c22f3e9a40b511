"""Rows of shards as one published file: bases and deltas, whole or not at all, whatever dies meanwhile."""

import threading

import numpy as np
import pytest

from framework.errors import CheckpointError, StateError
from framework.table import TableSnapshot, snapshot
from framework.table.remote import ChainBrokenError, ShardRows, publication
from framework.table.remote.wire import Header, Kind
from tests.framework.table.remote.helpers import (
    DENSE,
    Processes,
    batches,
    evicting_table,
    new_shard,
    step,
    table_state,
)

KEYS = np.arange(60) * 1_000_003 - 9
NEVER = np.array([5, 6, 7], np.int64)


@pytest.fixture
def two(tmp_path):
    made = Processes(tmp_path / "shards", 2, table=evicting_table()).ready()
    yield made
    made.close()


def started(shards):
    client = shards.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    return client, ShardRows(client, "signs")


def rows_of(client):
    """All rows that the shards hold, zeros for a key without one."""
    return ShardRows(client, "signs").lookup(KEYS).numpy()


def push(client, number, keys=20, seed=0):
    step(client, number, *batches(1, keys=keys, seed=seed)[0])
    client.settle()


def test_a_base_and_deltas_of_all_shards_hold_what_the_shards_hold(two, tmp_path, monkeypatch):
    monkeypatch.setattr(publication, "_ROWS_AT_ONCE", 2)  # many questions
    client, rows = started(two)
    push(client, 1, keys=60)
    rows.snapshot(tmp_path / "base")
    served = TableSnapshot.open(tmp_path / "base")
    np.testing.assert_array_equal(served.lookup(KEYS), rows_of(client))
    assert served.lookup(KEYS).any() and not served.lookup(NEVER).any()
    for number in (2, 3):
        push(client, number, seed=number)
        assert rows.snapshot(tmp_path / f"{number}", delta=True) == rows.published.id
        assert 0 < snapshot.read_header(tmp_path / f"{number}").rows <= 20
        served.apply(tmp_path / f"{number}")
        np.testing.assert_array_equal(served.lookup(KEYS), rows_of(client))
    for number in (1, 2):  # rows beyond the first 20 keys were not seen in two passes
        push(client, 3 + number)
        assert (client.end_pass(number, 0) > 0) == (number == 2)
    rows.snapshot(tmp_path / "gone", delta=True)
    assert snapshot.read_header(tmp_path / "gone").removed > 0
    served.apply(tmp_path / "gone")
    np.testing.assert_array_equal(served.lookup(KEYS), rows_of(client))
    assert not served.lookup(KEYS[30:]).any()
    rows.snapshot(tmp_path / "small", "float16")
    np.testing.assert_allclose(TableSnapshot.open(tmp_path / "small").lookup(KEYS), rows_of(client), rtol=1e-3)
    client.close()


def test_what_a_delta_that_failed_would_have_held_is_in_the_next_one(two, tmp_path):
    client, rows = started(two)
    push(client, 1)
    rows.snapshot(tmp_path / "base")
    served = TableSnapshot.open(tmp_path / "base")
    for number in (2, 3):
        push(client, number, keys=60, seed=number)
        with pytest.raises(CheckpointError, match="cannot be written"):
            rows.snapshot(tmp_path / "base" / "delta", delta=True)
    rows.snapshot(tmp_path / "delta", delta=True)
    served.apply(tmp_path / "delta")
    np.testing.assert_array_equal(served.lookup(KEYS), rows_of(client))
    client.close()


@pytest.mark.parametrize("kind", [Kind.CUT, Kind.ROWS, Kind.GONE])
def test_a_shard_killed_in_the_middle_leaves_no_file_and_the_next_one_is_whole(two, tmp_path, monkeypatch, kind):
    client, rows = started(two)
    push(client, 1, keys=60)
    rows.snapshot(tmp_path / "base")
    push(client, 2, keys=60, seed=2)
    ask, killed = client._ask, []

    def deadly(shard, header: Header, frames):
        if header.kind == kind and shard == 1 and not killed:
            killed.append(shard)
            two.kill(1)
            two.start(1)
        return ask(shard, header, frames)

    monkeypatch.setattr(client, "_ask", deadly)
    with pytest.raises(ChainBrokenError, match="this process was started since; publish all rows"):
        rows.snapshot(tmp_path / "delta", delta=True)
    assert killed and not (tmp_path / "delta").exists() and rows.published is None
    rows.snapshot(tmp_path / "again", delta=True)  # nothing is there to follow: all rows
    assert snapshot.read_header(tmp_path / "again").parent is None
    np.testing.assert_array_equal(TableSnapshot.open(tmp_path / "again").lookup(KEYS), rows_of(client))
    client.close()


def test_rows_published_while_they_are_pushed_are_whole_once_the_pushes_end(two, tmp_path):
    client, rows = started(two)
    push(client, 1, keys=60)
    rows.snapshot(tmp_path / "base")
    served, done, number = TableSnapshot.open(tmp_path / "base"), threading.Event(), 0

    def pushing():
        for each in range(2, 80):
            step(client, each, *batches(1, keys=60, seed=each)[0])
        client.settle()
        done.set()

    thread = threading.Thread(target=pushing)
    thread.start()
    while not done.is_set() or number < 3:
        number += 1
        rows.snapshot(tmp_path / f"{number}", delta=True)
        served.apply(tmp_path / f"{number}")
    thread.join()
    rows.snapshot(tmp_path / "last", delta=True)
    served.apply(tmp_path / "last")
    np.testing.assert_array_equal(served.lookup(KEYS), rows_of(client))
    client.close()


IDS = [np.frombuffer(bytes([a] * 16 + [b] * 16), np.uint8) for a, b in ((1, 0), (2, 1), (3, 2))]


def test_a_cut_that_is_asked_for_again_stays_where_it_was(tmp_path):
    shard = new_shard(tmp_path / "a", table=evicting_table())
    shard.cuts.begin(IDS[0])
    versions = []
    for _ in range(2):
        shard.cuts.begin(IDS[1])
        versions.append(dict(shard.cuts._versions))
        shard.table.update(KEYS, np.ones((60, 3), np.float32))
    assert versions[0] == versions[1]
    shard.cuts.begin(IDS[2])
    keys, rows = shard.cuts.rows(IDS[2], np.array([0, 256, 0]))
    assert sorted(keys) == sorted(KEYS) and rows.shape == (60, 12)
    with pytest.raises(ChainBrokenError, match="does not know publication 0101"):
        shard.cuts.begin(np.concatenate([IDS[0][:16] + 9, IDS[0][:16]]))
    for where in ([0, 257, 0], [5, 5, 0], [0, 256, 3], [-1, 4, 0]):
        with pytest.raises(StateError, match="are not here"):
            shard.cuts.rows(IDS[2], np.array(where))
    shard.close()


def test_a_publication_keeps_what_went_for_the_checkpoint_that_is_being_written(tmp_path, monkeypatch):
    """A checkpoint's next delta names rows that went since its beginning, publications or not."""
    shard = new_shard(tmp_path / "a", table=evicting_table(), dense=0)
    shard.table.update(KEYS, np.ones((60, 3), np.float32))
    shard.checkpoint(base=True)
    shard.save(tmp_path / "saved")  # the next checkpoint follows no other
    around = type(shard)._around

    def busy(self, taken):
        inside = around(self, taken)

        def enter(first, last):
            if first == 0:
                shard.cuts.begin(IDS[0])
                shard.table.forget(KEYS[:5])  # of which the base that is being written may have rows
                shard.cuts.begin(IDS[1])
                shard.cuts.begin(IDS[2])
            return inside(first, last)

        return enter

    monkeypatch.setattr(type(shard), "_around", busy)
    shard.checkpoint(base=True)
    monkeypatch.undo()
    assert set(KEYS[:5]) <= set(snapshot.removed(shard.table, 1))
    shard.table.update(KEYS[5:], np.ones((55, 3), np.float32))
    shard.checkpoint()
    shard.close()
    again = new_shard(tmp_path / "a", table=evicting_table(), dense=0)
    assert set(table_state(again.table)[0]) == set(KEYS[5:])
    again.close()
