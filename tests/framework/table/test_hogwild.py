"""Threads with a Program each: every update is made once, one thread is the plain loop, errors come out."""

import threading

import numpy as np
import pytest

import framework
from framework import ops, optim
from framework.errors import AttributeValueError, NumericsError, ShapeError
from framework.table import SGD, Adam, Hogwild, Normal, RowOptimizer, Table, Zeros


@pytest.fixture(autouse=True)
def one_thread():
    before = framework.num_threads()
    framework.set_num_threads(1)
    yield
    framework.set_num_threads(before)


def weights(shape, value=0.0):
    t = framework.tensor(np.full(shape, value, np.float32), requires_grad=True)
    t.persistable, t.name = True, "w"
    return t


def test_every_update_of_rows_and_weights_is_made_once():
    """Gradients are whole numbers that do not depend on the weights, so any order adds up to the same."""
    table, w = Table(3, rule=SGD(), init=Zeros()), weights(5)
    dense, rows = optim.SGD([("w", w)], lr=1.0), RowOptimizer([table], lr=1.0)
    hogwild = Hogwild(lambda keys: -ops.sum(table.lookup(keys)) - ops.sum(w), dense, rows, threads=4)
    rng = np.random.default_rng(0)
    batches = [(rng.integers(0, 50, int(rng.integers(1, 40))),) for _ in range(200)]
    losses = hogwild.run(batches)
    assert len(losses) == 200
    np.testing.assert_array_equal(w.numpy(), np.full(5, 200.0))
    assert int(dense.steps) == 200
    expected = np.bincount(np.concatenate([b for (b,) in batches]), minlength=50)
    with framework.no_grad():
        np.testing.assert_array_equal(table.lookup(np.arange(50)).numpy(), np.repeat(expected[:, None], 3, 1))
    np.testing.assert_array_equal(table.counts(np.arange(50))[:, 0], expected)


def model(threads):
    table, w = Table(4, rule=Adam(lr=0.02), init=Normal(0.1), seed=1), weights((4, 1), 0.5)

    def loss(keys, labels):
        score = ops.matmul(ops.sum(table.lookup(keys, clicks=labels), axes=1), w)[:, 0]
        return ops.mean(ops.square(score - labels))

    return table, w, Hogwild(loss, optim.Adam([("w", w)], lr=0.01), RowOptimizer([table]), threads=threads)


def clicks(count):
    rng = np.random.default_rng(0)
    for _ in range(count):
        keys = rng.integers(0, 30, (16, 2)) + np.array([0, 1000])
        yield keys, (keys[:, 0] % 2).astype(np.float32)


def test_one_thread_gives_the_same_bits_every_time():
    runs = []
    for _ in range(2):
        table, w, hogwild = model(1)
        losses = hogwild.run(clicks(30))
        runs.append((losses, w.numpy().tobytes(), table.lookup(np.arange(30)).numpy().tobytes()))
    assert runs[0] == runs[1]


def test_threads_learn_what_one_learns():
    for threads in (1, 3):
        _, _, hogwild = model(threads)
        losses = hogwild.run(clicks(600))
        assert np.mean(losses[-30:]) < 0.1 < 0.3 < np.mean(losses[:5])
        assert np.mean(hogwild.run(clicks(30))) < 0.1  # it goes on


@pytest.mark.parametrize("ahead", [0, 3])
def test_no_batch_begins_too_far_ahead_of_one_at_work(ahead):
    """The first batch waits in Python code; those that began meanwhile are within the bound."""
    table, w = Table(2, rule=SGD(), init=Zeros()), weights(2)
    begun, seen, release = [], [], threading.Event()

    def note(keys):
        begun.append(int(keys[0]))
        if keys[0] == 0:
            release.wait(0.3)
            seen.extend(begun)
        return keys

    def loss(keys):
        return ops.sum(table.lookup(framework.py_func(note, [keys], lambda k: k))) + ops.sum(w)

    dense, rows = optim.SGD([("w", w)], lr=1.0), RowOptimizer([table], lr=1.0)
    hogwild = Hogwild(loss, dense, rows, threads=4, ahead=ahead)
    assert len(hogwild.run((np.array([i]),) for i in range(12))) == 12
    assert max(seen) <= ahead and sorted(begun) == list(range(12))


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_ends_the_run_and_comes_out(threads):
    _, _, hogwild = model(threads)

    def bad():
        yield from clicks(5)
        yield np.zeros((4, 2), np.int64), np.zeros(3, np.float32)
        yield from clicks(50)

    with pytest.raises(ShapeError):
        hogwild.run(bad())

    def broken():
        yield from clicks(3)
        raise OSError("the log is gone")

    with pytest.raises(OSError, match="the log is gone"):
        hogwild.run(broken())
    assert len(hogwild.run(clicks(4))) == 4


def test_a_number_of_threads_is_at_least_one():
    with pytest.raises(AttributeValueError, match="Hogwild: threads is 0; it must be 1 or more"):
        model(0)
    with pytest.raises(AttributeValueError, match="Hogwild: ahead is -1; it must be 0 or more"):
        Hogwild(ops.sum, optim.SGD([("w", weights(1))]), RowOptimizer([Table(1)]), ahead=-1)


def test_a_search_for_nan_is_in_its_threads_too():
    table, w = Table(2, rule=SGD(), init=Zeros()), weights(2, -1.0)
    step = Hogwild(
        lambda keys: ops.sum(ops.log(w)) + ops.sum(table.lookup(keys)),
        optim.SGD([("w", w)], lr=0.1),
        RowOptimizer([table]),
        threads=2,
    )
    batches = [(np.arange(3),)] * 4
    with framework.detect_anomaly(), pytest.raises(NumericsError, match="log"):
        step.run(batches)
    step.run(batches)  # outside of the block nothing is searched
