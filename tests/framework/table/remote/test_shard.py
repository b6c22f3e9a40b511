"""A shard takes every push exactly once: sent again, after a crash, through checkpoints, and dealt out anew."""

import shutil

import numpy as np
import pytest

from framework.errors import CheckpointError, NotSupportedError, NumericsError, StateError
from framework.table import Adam, DenseAdam, Limit, files
from framework.table.remote import bucket_of, shares, store, unique
from framework.table.remote.keys import BITS, chunks, covers
from framework.table.remote.reshard import take_over
from framework.table.remote.shard import Gap
from framework.table.remote.wire import Header, Kind, SupersededError
from tests.framework.table.remote.helpers import (
    DENSE,
    DIM,
    assert_same_rows,
    batches,
    evicting_table,
    gradient,
    new_shard,
    new_table,
    table_state,
)

WORKER = 5


def arrays_for(shard, keys, clicks, sequence, change=None):
    """What a client would send to this shard."""
    found = unique(keys, clicks)
    first, last = shard.share
    here = slice(int(found.starts[first]), int(found.starts[last]))
    rows = shard.pull(found.keys[here])
    dense = np.zeros(0, np.float32) if change is None else np.full(shard.dense_count, change, np.float32)
    return [found.keys[here], gradient(rows, sequence), found.shows[here], found.clicks[here], dense]


def push(shard, sequence, arrays, incarnation=1, worker=WORKER):
    header = Header(
        Kind.PUSH,
        model=shard.model,
        worker=worker,
        incarnation=incarnation,
        sequence=sequence,
        count=len(arrays[0]),
        dim=DIM,
        dense=arrays[4].size,
        lr=0.1,
    )
    return shard.push(header, arrays)


def trained(shard, count, first=1, seed=0, worker=WORKER, change=0.25):
    """The pushes that it was given."""
    if shard.dense is None:
        shard.start(np.zeros(shard.dense_count, np.float32))
    sent = []
    for number, (keys, clicks) in enumerate(batches(count, seed=seed), first):
        sent.append(arrays_for(shard, keys, clicks, number, change))
        assert push(shard, number, sent[-1], worker=worker) is None
    return sent


def test_buckets_are_those_of_the_native_table():
    keys = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 2000)
    keys = np.concatenate([keys, np.array([0, -1, 2**63 - 1, -(2**63)])])
    table = new_table()
    table.update(keys, np.zeros((len(keys), DIM), np.float32))
    for bucket in range(1 << BITS):
        there = table._native.read_rows(bucket, bucket + 1, 0, False)[0].numpy()
        assert set(there) == set(keys[bucket_of(keys) == bucket])


def test_unique_keys_are_ordered_by_bucket_and_lead_back():
    rng = np.random.default_rng(1)
    keys, clicks = rng.integers(0, 50, (30, 4)), rng.random(30).astype(np.float32)
    found = unique(keys, clicks)
    np.testing.assert_array_equal(found.keys[found.inverse], keys)
    np.testing.assert_array_equal(bucket_of(found.keys), np.sort(bucket_of(found.keys)))
    np.testing.assert_array_equal(np.diff(found.starts), np.bincount(bucket_of(found.keys), minlength=256))
    for i, key in enumerate(found.keys):
        assert found.shows[i] == (keys == key).sum()
        np.testing.assert_allclose(found.clicks[i], (clicks[:, None] * (keys == key)).sum(), rtol=1e-6)
    assert unique(np.zeros(0, np.int64)).keys.size == 0


def test_shares_cover_all_buckets_and_chunks_all_numbers():
    for count in (1, 2, 3, 7, 256):
        assert covers(shares(count))
    assert not covers([(0, 100), (101, 256)])
    assert chunks(DENSE)[0] == 0 and chunks(DENSE)[-1] == DENSE and (np.diff(chunks(DENSE)) >= 0).all()


def test_pushes_have_the_bits_of_the_table_that_is_trained_alone(tmp_path):
    shard, alone = new_shard(tmp_path), new_table()
    for number, (keys, clicks) in enumerate(batches(8), 1):
        sent = arrays_for(shard, keys, clicks, number)
        found = unique(keys, clicks)
        push(shard, number, sent)
        alone.update(keys, per_place(keys, found, sent[1]), 0.1, clicks=clicks)
    for one, other in zip(table_state(shard.table)[:1], table_state(alone)[:1], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(table_state(shard.table)[3], table_state(alone)[3])  # shows and clicks
    np.testing.assert_allclose(table_state(shard.table)[1], table_state(alone)[1], rtol=1e-5, atol=1e-6)


def per_place(keys, found, grads):
    """A gradient for each place that sums to that of the key."""
    return grads[found.inverse] / found.shows[found.inverse][..., None]


def test_a_push_that_comes_again_changes_nothing_and_a_later_one_waits(tmp_path):
    shard = new_shard(tmp_path)
    sent = trained(shard, 3)
    before, dense = table_state(shard.table), shard.dense.copy()
    for number in (1, 2, 3, 3, 1):
        assert push(shard, number, sent[number - 1]) is None
    assert shard.repeated == 5 and shard.pushes == 3
    for one, other in zip(before, table_state(shard.table), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(dense, shard.dense)
    assert push(shard, 5, sent[0]) == Gap(4)
    assert shard.next_of(WORKER) == 4


def test_a_process_that_was_replaced_is_refused(tmp_path):
    shard = new_shard(tmp_path)
    sent = trained(shard, 1)
    assert shard.hello(WORKER, 2) == 2
    for refused in (lambda: push(shard, 2, sent[0], incarnation=1), lambda: shard.hello(WORKER, 1)):
        with pytest.raises(SupersededError, match="taken by incarnation 2; it has to stop"):
            refused()
    shard.close()
    again = new_shard(tmp_path)
    with pytest.raises(SupersededError):  # also after a restart
        push(again, 2, sent[0], incarnation=1)
    assert push(again, 2, sent[0], incarnation=2) is None


@pytest.mark.parametrize("checkpoints", [(), (4,), (2, 5), (1, 2, 3, 4, 5, 6)])
def test_checkpoint_and_log_give_back_every_bit(tmp_path, checkpoints):
    shard = new_shard(tmp_path)
    for number in range(1, 8):
        keys, clicks = batches(8)[number]
        shard.start(np.zeros(shard.dense_count, np.float32))
        push(shard, number, arrays_for(shard, keys, clicks, number, 0.5))
        if number in checkpoints:
            shard.checkpoint()
    shard.log.close()  # as kill -9 leaves it
    shard._owner.close()
    again = new_shard(tmp_path)
    assert_same_rows(shard.table, again.table)
    np.testing.assert_array_equal(shard.dense, again.dense)
    assert again.next_of(WORKER) == 8


def test_a_checkpoint_taken_while_pushes_go_on_loses_none_and_takes_none_twice(tmp_path, monkeypatch):
    shard = new_shard(tmp_path)
    trained(shard, 3)
    around, numbers = shard._around, iter(range(4, 200))

    def pushing(taken):
        def context(first, last):
            number = next(numbers)
            keys, clicks = batches(1, seed=number)[0]
            push(shard, number, arrays_for(shard, keys, clicks, number, 0.125))
            return around(taken)(first, last)

        return context

    shard._around = pushing
    save, delta = files.save, files.save_delta
    monkeypatch.setattr(files, "save", lambda t, p, around: save(t, p, parts=16, around=around))
    monkeypatch.setattr(files, "save_delta", lambda t, p, around: delta(t, p, parts=16, around=around))
    for base in (True, False, False):
        shard.checkpoint(base=base)
    shard.close()
    again = new_shard(tmp_path)
    assert_same_rows(shard.table, again.table)
    np.testing.assert_array_equal(shard.dense, again.dense)
    np.testing.assert_array_equal(shard.seen[WORKER], again.seen[WORKER])
    assert again.next_of(WORKER) == 4 + 3 * 16


def test_a_checkpoint_cuts_the_log(tmp_path):
    shard = new_shard(tmp_path)
    trained(shard, 4)
    assert shard.log.bytes > 0
    shard.checkpoint()
    assert shard.log.bytes == 0 and len(list(tmp_path.glob("log-*"))) == 1


def test_a_checkpoint_that_fails_leaves_the_one_before_and_the_log(tmp_path, monkeypatch):
    shard = new_shard(tmp_path)
    trained(shard, 2)
    shard.checkpoint()
    trained(shard, 2, first=3, seed=1)

    def full(*_):
        raise CheckpointError("no space left")

    monkeypatch.setattr(store, "switch", full)
    with pytest.raises(CheckpointError, match="no space left"):
        shard.checkpoint()
    monkeypatch.undo()
    trained(shard, 2, first=5, seed=2)
    shard.checkpoint()
    trained(shard, 1, first=7, seed=3)
    shard.close()
    again = new_shard(tmp_path)
    assert_same_rows(shard.table, again.table)


def test_a_torn_record_was_never_acknowledged(tmp_path):
    shard = new_shard(tmp_path)
    sent = trained(shard, 3)
    shard.close()
    log = max(tmp_path.glob("log-*"))
    log.write_bytes(log.read_bytes()[:-7])
    again = new_shard(tmp_path)
    assert again.next_of(WORKER) == 3  # so the trainer sends it again
    push(again, 3, sent[2])
    assert_same_rows(shard.table, again.table)


def test_a_log_that_cannot_be_written_ends_the_shard(tmp_path, monkeypatch):
    shard = new_shard(tmp_path)
    sent = trained(shard, 1)

    def full(frames):
        raise StateError("log: no space")

    monkeypatch.setattr(shard.log, "append", full)
    for _ in range(2):
        with pytest.raises(StateError, match="no space"):
            push(shard, 2, sent[0])
    monkeypatch.undo()
    shard.close()
    assert new_shard(tmp_path).next_of(WORKER) == 2


def test_the_end_of_a_pass_comes_once(tmp_path):
    shard = new_shard(tmp_path, table=evicting_table())
    trained(shard, 2)
    shard.checkpoint()
    keys = np.unique(np.concatenate([k.ravel() for k, _ in batches(2)]))
    before = shard.counts(keys)[:, 0]
    assert shard.end_pass(1, 0) == 0
    np.testing.assert_allclose(shard.counts(keys)[:, 0], before / 2)
    assert shard.end_pass(1, 0) == 0  # again: nothing
    np.testing.assert_allclose(shard.counts(keys)[:, 0], before / 2)
    shard.checkpoint()
    assert shard.end_pass(2, WORKER + 1) == len(keys)
    with pytest.raises(SupersededError, match="its pass has ended"):
        push(shard, 3, arrays_for(shard, *batches(1)[0], 3))
    shard.close()
    again = new_shard(tmp_path, table=evicting_table())
    assert len(again.table) == 0 and again.floor == WORKER + 1 and not set(again.seen) & {WORKER}
    assert again.end_pass(2, 0) == 0


@pytest.mark.parametrize("counts", [(2, 3), (3, 1), (1, 2), (2, 2)])
def test_dealt_out_anew_the_shards_hold_the_same(tmp_path, counts):
    """Also where the shards before had not taken the same pushes."""
    before, after = counts
    old = [new_shard(tmp_path / f"old{i}", i, before) for i in range(before)]
    whole = new_shard(tmp_path / "whole")
    last = {}
    for i, shard in enumerate([*old, whole]):
        trained(shard, 5 if i == 0 and before > 1 else 6)
        shard.checkpoint()
        last[i] = arrays_for(shard, *batches(7)[6], 7, 0.25)
    for shard in old:
        shard.close()
    folders = [shard.folder for shard in old]
    new = [new_shard(tmp_path / f"new{i}", i, after) for i in range(after)]
    for shard in new:
        take_over(shard, folders, new_table)
        missing = 6 if shard.share[0] < old[0].share[1] and before > 1 else 7
        assert shard.next_of(WORKER) == missing
        for number in range(missing, 7):
            keys, clicks = batches(6)[number - 1]
            assert push(shard, number, arrays_for(shard, keys, clicks, number, 0.25)) is None
    keys = np.unique(np.concatenate([k.ravel() for k, _ in batches(6)]))
    found = np.concatenate([s.counts(k) for s in new for k in [unique(keys).keys[part_of(keys, s)]]])
    np.testing.assert_array_equal(found[:, 0], whole.counts(unique(keys).keys)[:, 0])
    np.testing.assert_array_equal(np.concatenate([s.dense for s in new]), whole.dense)
    if before == 1:
        rows = np.concatenate([s.pull(unique(keys).keys[part_of(keys, s)]) for s in new])
        np.testing.assert_array_equal(rows, whole.pull(unique(keys).keys))
    for shard in new:
        shard.close()
        again = new_shard(shard.folder, new.index(shard), after)
        assert_same_rows(shard.table, again.table)


def part_of(keys, shard):
    starts = unique(keys).starts
    return slice(int(starts[shard.share[0]]), int(starts[shard.share[1]]))


def test_what_takes_long_is_not_done_for_each_time_that_it_is_asked_for(tmp_path, monkeypatch):
    import threading
    import time

    from framework.table.remote import Patience, Server, ShardClient

    shard = new_shard(tmp_path / "shard", dense=0)
    real, calls = shard.checkpoint, []

    def slow():
        calls.append(1)
        time.sleep(1.0)
        real()

    monkeypatch.setattr(shard, "checkpoint", slow)
    server = Server(shard)
    thread = threading.Thread(target=server.run)
    thread.start()
    client = ShardClient(
        lambda i: server.address, 1, shard.model, DIM, patience=Patience(retry=0.1, longest=0.1, give_up=20.0)
    )
    try:
        client.checkpoint()
        # Twice where the client asks again while the answer is on its way.
        assert client.resent > 4 and len(calls) <= 2
    finally:
        client.close()
        server.stop()
        thread.join()


def test_a_shard_that_is_missing_or_at_work_cannot_be_dealt_out(tmp_path):
    old = [new_shard(tmp_path / f"old{i}", i, 2) for i in range(2)]
    for shard in old:
        shard.checkpoint()
    new = new_shard(tmp_path / "new")
    with pytest.raises(CheckpointError, match="do not hold every bucket once"):
        take_over(new, [old[0].folder], new_table)
    with pytest.raises(StateError, match="another process has this shard"):
        take_over(new, [s.folder for s in old], new_table)


def test_what_does_not_belong_is_refused(tmp_path):
    shard = new_shard(tmp_path / "a", 0, 2)
    other = np.array([k for k in range(100) if bucket_of(np.array([k]))[0] >= 128][:1])
    with pytest.raises(StateError, match="a key of another one came"):
        shard.pull(other)
    good = np.array([k for k in range(100) if bucket_of(np.array([k]))[0] < 128][:1])
    one = np.ones(1, np.float32)
    bad = [good, np.full((1, DIM), np.nan, np.float32), one, one, np.zeros(0, np.float32)]
    with pytest.raises(NumericsError, match="push 1 of worker 5 has NaN"):
        push(shard, 1, bad)
    with pytest.raises(StateError, match="dense numbers came"):
        push(shard, 1, [good, np.zeros((1, DIM), np.float32), one, one, one])
    assert shard.next_of(WORKER) == 1 and len(shard.table) == 0
    shard.checkpoint()
    shard.close()
    with pytest.raises(CheckpointError, match="buckets 0 to 127, not 128 to 255"):
        new_shard(tmp_path / "a", 1, 2)
    with pytest.raises(CheckpointError, match="shard of another model"):
        new_shard(tmp_path / "a", 0, 2, table=new_table(rule=Adam(lr=0.2)))
    with pytest.raises(NotSupportedError, match="DenseAdam counts the steps"):
        new_shard(tmp_path / "b", table=new_table(rule=DenseAdam()))


def test_one_process_has_a_folder(tmp_path):
    held = new_shard(tmp_path)
    with pytest.raises(StateError, match="another process has this shard"):
        new_shard(tmp_path)
    held.close()
    new_shard(tmp_path)


def test_a_damaged_folder_is_one_clear_error(tmp_path):
    shard = new_shard(tmp_path / "a")
    trained(shard, 2)
    shard.checkpoint()
    shard.close()
    for damage in ("shard.json", "state", "table"):
        folder = tmp_path / damage
        shutil.copytree(tmp_path / "a", folder)
        path = next(p for p in sorted(folder.rglob("*")) if p.is_file() and damage in str(p.relative_to(folder)))
        path.write_bytes(path.read_bytes()[:20])
        with pytest.raises(CheckpointError, match=str(folder)):
            new_shard(folder)


def test_a_full_table_refuses_a_push_and_stays_as_it_is(tmp_path):
    shard = new_shard(tmp_path, table=new_table(limit=Limit(rows=10)))
    shard.start(np.zeros(shard.dense_count, np.float32))
    arrays = arrays_for(shard, *batches(1)[0], 1)
    with pytest.raises(StateError, match="more than its limit of 10"):
        push(shard, 1, arrays)
    assert shard.next_of(WORKER) == 1 and shard.failed is None
    shard.close()
    assert len(new_shard(tmp_path, table=new_table(limit=Limit(rows=10))).table) == 0
