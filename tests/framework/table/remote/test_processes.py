"""Shards as processes: what a client pulls and pushes, and what kill -9 leaves of it."""

import random
import threading
import time

import numpy as np
import pytest

from framework import limits
from framework.errors import NumericsError, StateError
from framework.table import Table
from framework.table.remote import Patience, ShardClient, SupersededError, described, unique
from framework.table.remote.join import join
from framework.table.remote.optional import zmq
from framework.table.remote.wire import Header, Kind
from framework.tensors import from_numpy
from tests.framework.table.remote.helpers import (
    DENSE,
    DIM,
    Processes,
    assert_same_rows,
    batches,
    evicting_table,
    gradient,
    new_table,
    step,
)

KEYS = np.arange(60) * 1_000_003 - 9


@pytest.fixture
def two(tmp_path):
    made = Processes(tmp_path / "shards", 2).ready()
    yield made
    made.close()


def expected_counts(given):
    """Shows and clicks by key."""
    shows, clicks = np.zeros(len(KEYS)), np.zeros(len(KEYS))
    for keys, clicked in given:
        places = np.searchsorted(KEYS, keys)
        np.add.at(shows, places.ravel(), 1)
        np.add.at(clicks, places.ravel(), np.repeat(clicked, keys.shape[1]))
    return shows, clicks


def counts(client):
    found = unique(KEYS)
    return client.counts(found)[np.argsort(found.keys)]


def assert_counted(client, given):
    found = np.maximum(counts(client), 0)
    shows, clicks = expected_counts(given)
    np.testing.assert_array_equal(found[:, 0], shows)
    np.testing.assert_allclose(found[:, 1], clicks)


def test_one_worker_that_waits_has_the_bits_of_one_process(two):
    alone, client = new_table(), two.client()
    client.start(np.zeros(DENSE, np.float32))
    assert client.hello(1, 1) == 1
    given = batches(12)
    for number, (keys, clicks) in enumerate(given, 1):
        found = unique(keys, clicks)
        rows = client.pull(found)()
        np.testing.assert_array_equal(rows, alone.lookup(found.keys).numpy())
        grads = gradient(rows, number)
        client.push(number, found, grads, 0.1, np.full(DENSE, number, np.float32))
        alone._native.push(*(from_numpy(p).array() for p in (found.keys, grads, found.shows, found.clicks)), 0.1)
    client.settle()
    assert_counted(client, given)
    np.testing.assert_array_equal(client.dense(), np.full(DENSE, 78, np.float32))
    paths = [two.folder.parent / f"saved-{i}" for i in range(2)]
    client.save([str(p) for p in paths])
    client.save([str(p) for p in paths])  # asked again, as after an answer that was lost
    join(paths, two.folder.parent / "whole")
    assert_same_rows(Table.open(two.folder.parent / "whole"), alone)
    client.close()


def test_a_killed_shard_comes_back_with_every_acknowledged_push_once(two):
    client = two.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    given = batches(30)
    for number, (keys, clicks) in enumerate(given, 1):
        step(client, number, keys, clicks, np.ones(DENSE, np.float32))
        if number in (7, 15, 22):
            two.kill(number % 2)
            two.start(number % 2)
    client.settle()
    assert client.resent > 0
    assert_counted(client, given)
    np.testing.assert_array_equal(client.dense(), np.full(DENSE, 30, np.float32))
    client.close()


def test_a_trainer_that_is_replaced_goes_on_where_the_shards_are(two):
    given = batches(9)
    first = two.client()
    first.start(np.zeros(DENSE, np.float32))
    first.hello(1, 1)
    for number in (1, 2, 3, 4):
        step(first, number, *given[number - 1])
    first.settle()
    second = two.client()
    assert second.hello(1, 2) == 5
    with pytest.raises(SupersededError, match="it has to stop"):
        step(first, 5, *given[8])
        first.settle()
    for number in range(5, 10):
        step(second, number, *given[number - 1])
    second.settle()
    assert_counted(second, given)
    for client in (first, second):
        client.close()


def test_killed_at_random_under_two_workers_nothing_is_lost_and_nothing_twice(two):
    """The short form of benchmarks/cluster_faults.py: 2 workers, and a shard is killed again and again."""
    draw, stop = random.Random(0), threading.Event()

    def killer():
        while not stop.wait(draw.uniform(0.5, 1.0)):
            number = draw.randrange(2)
            two.kill(number)
            two.start(number)
            two.ready()

    given = {worker: batches(120, seed=worker) for worker in (1, 2)}
    errors = []

    def work(worker):
        client = two.client()
        try:
            client.start(np.zeros(DENSE, np.float32))
            client.hello(worker, 1)
            for number, (keys, clicks) in enumerate(given[worker], 1):
                step(client, number, keys, clicks, np.ones(DENSE, np.float32))
                time.sleep(0.02)
            client.settle()
        except BaseException as error:
            errors.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in given]
    killing = threading.Thread(target=killer)
    for t in [*threads, killing]:
        t.start()
    for t in threads:
        t.join()
    stop.set()
    killing.join()
    assert not errors, two.logs()
    two.ready()
    client = two.client()
    assert_counted(client, given[1] + given[2])
    np.testing.assert_array_equal(client.dense(), np.full(DENSE, 240, np.float32))
    client.close()


def test_a_push_that_repeats_and_one_that_skips(two):
    client = two.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    given = batches(3)
    step(client, 1, *given[0])
    step(client, 1, *given[1])  # the same number: not taken
    client.settle()
    assert_counted(client, given[:1])
    step(client, 3, *given[2])
    with pytest.raises(StateError, match="awaits push 2, and none such is open here"):
        client.settle()
    client.close()


def test_a_shard_that_lost_its_log_is_noticed(two):
    client = two.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    for number, (keys, clicks) in enumerate(batches(3), 1):
        step(client, number, keys, clicks)
    client.settle()
    two.kill(0)
    for log in (two.folder / "shard-0").glob("log-*"):
        log.unlink()
    two.start(0)
    with pytest.raises(StateError, match="has forgotten pushes 1 to 3 of worker 1"):
        for number, (keys, clicks) in enumerate(batches(3), 4):
            step(client, number, keys, clicks)
        client.settle()
    client.close()


def test_a_shard_that_stays_away_ends_the_run_with_one_error(tmp_path):
    client = ShardClient(
        lambda i: None, 1, described(new_table(), 0), DIM, patience=Patience(retry=0.1, longest=0.2, give_up=0.6)
    )
    with pytest.raises(StateError, match=r"shard 0: no answer from anywhere for \d+ seconds.*--resume"):
        client.pull(unique(KEYS))()
    client.close()
    with pytest.raises(StateError, match="closed"):
        client.pull(unique(KEYS))


def test_messages_of_others_are_refused_with_what_is_wrong(two):
    others = [
        (described(new_table(), 0), DIM, "trains another model than this shard of table 'signs' holds"),
        (described(new_table(), DENSE), DIM + 1, "the sender's rows have 4 columns, those of this shard 3"),
    ]
    for model, dim, message in others:
        client = ShardClient(two.where, 2, model, dim)
        with pytest.raises(StateError, match=message):
            client.pull(unique(KEYS))()
        client.close()
    wrong = ShardClient(two.where, 1, described(two.table, DENSE), DIM)
    with pytest.raises(StateError, match="knows another division into shards"):
        wrong.pull(unique(KEYS))()
    wrong.close()
    client = two.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    found = unique(KEYS)
    client.push(1, found, np.full((60, DIM), np.inf, np.float32), 0.1)
    with pytest.raises(NumericsError, match="NaN or infinite numbers; none was taken"):
        client.settle()
    with limits.allow(message_bytes=100), pytest.raises(StateError, match="pull for shard 0: the message has too many"):
        client.pull(unique(KEYS))
    client.close()


def test_bytes_that_are_no_message_do_not_stop_a_shard(two):
    z = zmq()
    context = z.Context()
    socket = context.socket(z.DEALER)
    socket.connect(two.where(0))
    model = described(two.table, DENSE)
    bad = [
        [b""],
        [b"GET / HTTP/1.1"],
        [Header(Kind.PULL, 1, model, dim=DIM).packed()[:-1]],
        [Header(Kind.PULL, 1, model, dim=DIM, version=9).packed()],
        [Header(Kind.PULL, 1, model, dim=DIM, count=2).packed(), b"x" * 15],
        [Header(Kind.PULL, 1, model, dim=DIM, count=1 << 62).packed(), b""],
        [Header(Kind.PUSH, 1, model, dim=DIM, count=0).packed()],
        [Header(77, 1, model, dim=DIM).packed()],
        [Header(Kind.PUSH, 1, model, 1, 1, 1, 1, DIM, 1 << 60).packed(), *[b"12345678"] * 5],
    ]
    texts = []
    for frames in bad:
        socket.send_multipart(frames)
        assert socket.poll(5000), frames
        head, text = socket.recv_multipart()
        assert Header.unpacked(head).kind == Kind.ERROR
        texts.append(text.decode())
    for text, part in zip(
        texts,
        [*["no message"] * 3, "version 9", *["message is cut"] * 2, "5 arrays but 0", "message of kind 77", "cut"],
        strict=True,
    ):
        assert part in text
    socket.close(0)
    context.term()
    client = two.client()
    assert client.pull(unique(KEYS))().shape == (60, DIM)
    client.close()


def test_passes_end_on_all_shards_and_survive_them(tmp_path):
    made = Processes(tmp_path / "shards", 2, table=evicting_table()).ready()
    client = made.client()
    client.start(np.zeros(DENSE, np.float32))
    client.hello(1, 1)
    given = batches(4)
    for number, (keys, clicks) in enumerate(given, 1):
        step(client, number, keys, clicks)
    client.settle()
    assert client.end_pass(1, 0) == 0
    made.kill(1)
    made.start(1)
    assert client.end_pass(1, 0) == 0  # asked again, as after an answer that was lost
    shows, _ = expected_counts(given)
    np.testing.assert_array_equal(np.maximum(counts(client)[:, 0], 0), shows / 2)
    client.checkpoint()
    assert sum(s["rows"] for s in client.stats()) == len(np.unique(np.concatenate([k.ravel() for k, _ in given])))
    assert all(s["log_bytes"] == 0 for s in client.stats())
    client.stop()
    client.close()
    assert all(p.wait(20) == 0 for p in made.running.values()), made.logs()
    made.close()
