"""A look-up leaves the order of its keys for the step that follows, and nothing but time depends on its use."""

import gc
import threading

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.table import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    ByCount,
    DenseAdam,
    Eviction,
    Limit,
    Normal,
    RowOptimizer,
    Table,
)

MANY = 3000  # keys of a look-up that leaves an order; pieces of FEW leave none
FEW = 500


def contents(table: Table) -> list[np.ndarray]:
    """All rows in the order of buckets, with their state and counters."""
    parts = table._native.read_rows(0, table._native.buckets, 0, False)
    return [framework.Tensor(part).numpy() for part in parts]


def assert_equal(one: Table, other: Table) -> None:
    for a, b in zip(contents(one), contents(other), strict=True):
        np.testing.assert_array_equal(a.view(np.int32), b.view(np.int32))
    assert one._native.stats() | {"missed": 0} == other._native.stats() | {"missed": 0}  # they looked different keys up


def drawn(rng: np.random.Generator, count: int = MANY) -> np.ndarray:
    return (1500 * rng.random(count) ** 2).astype(np.int64) * 0x9E3779B97F4A7C1


def pair(**options) -> tuple[Table, Table]:
    return Table(5, init=Normal(0.1), **options), Table(5, init=Normal(0.1), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"rule": SGD(lr=0.1)},
        {"rule": Adagrad(lr=0.1, shared=True, initial=1.0)},
        {"rule": Adam(lr=0.1)},
        {"rule": DenseAdam(lr=0.1, weight_decay=0.01)},
        {"rule": FTRL(lr=0.1)},
        {"rule": Adam(), "admission": ByCount(3)},
        {"rule": Adam(), "limit": Limit(rows=300, when_full="evict")},
        {"rule": Adam(), "eviction": Eviction(decay=0.9, least_score=0.2)},
    ],
    ids=str,
)
def test_a_step_after_a_look_up_gives_the_rows_of_one_without(options):
    """Also where rows went in between, so that the places that the look-up found are no longer theirs."""
    one, other = pair(**options)
    rng = np.random.default_rng(0)
    for step in range(8):
        keys, clicks = drawn(rng), (rng.random(MANY // 3) < 0.5).astype(np.float32)
        found = one.lookup(keys).numpy()
        pieces = [other.lookup(keys[i : i + FEW]).numpy() for i in range(0, MANY, FEW)]
        np.testing.assert_array_equal(found, np.concatenate(pieces))
        for table in (one, other):
            if step == 3:
                table.forget(keys[:700])
            if step == 5:
                table.shrink()
        grads = rng.standard_normal((MANY, 5)).astype(np.float32)
        for table in (one, other):
            table.update(keys, grads, 0.05, clicks=clicks)
    assert_equal(one, other)


def test_an_order_serves_only_the_keys_that_it_was_made_of():
    """An array that was changed in place since, other keys, the same keys twice, and a table that was emptied."""
    one, other = pair(rule=Adam(lr=0.1))
    rng = np.random.default_rng(1)
    grads = rng.standard_normal((MANY, 5)).astype(np.float32)
    keys, others = drawn(rng), drawn(rng)
    one.lookup(keys)
    keys[17], keys[-1] = 5, 7
    for _ in range(2):
        for table in (one, other):
            table.update(keys, grads)
    one.lookup(keys)
    for table in (one, other):
        table.update(others, grads)
        table.update(keys, grads)
    one.lookup(keys)
    for table in (one, other):
        table._native.clear()
        table.update(keys, grads)
    assert_equal(one, other)


@pytest.mark.parametrize("parts", [1, 2])
def test_look_ups_of_a_step_and_its_joint_norm(parts):
    """Two look-ups have no common order; a norm reads the order that the step then uses up."""
    one, other = pair(rule=Adam(lr=0.1))
    rows, rng = RowOptimizer([one]), np.random.default_rng(2)
    for _ in range(3):
        keys = [drawn(rng) for _ in range(parts)]
        grads = [rng.standard_normal((MANY, 5)).astype(np.float32) for _ in range(parts)]
        for k, g in zip(keys, grads, strict=True):
            ops.sum(one.lookup(k) * framework.from_numpy(g)).backward()
        norm = float(rows.sum_of_squares().numpy())
        rows.step()
        all_keys, all_grads = np.concatenate(keys), np.concatenate(grads)
        unique, inverse = np.unique(all_keys, return_inverse=True)
        sums = np.zeros((len(unique), 5))
        np.add.at(sums, inverse, all_grads)
        assert norm == pytest.approx(np.square(sums).sum(), rel=1e-5)
        other.update(all_keys, all_grads)
    assert_equal(one, other)


def test_the_sum_of_gradients_begins_with_the_first_of_them():
    """A negative zero and a NaN come through as they are; nothing is added to a zero of our own."""
    table = Table(2, rule=SGD(lr=1.0), init=Normal(0.0))
    keys = np.array([1, 2, 2, 3])
    grads = np.array([[-0.0, 0.0], [-0.0, 1.0], [-0.0, -1.0], [np.nan, np.inf]], np.float32)
    table.update(keys, grads)
    rows = table.lookup(np.array([1, 2, 3])).numpy()
    np.testing.assert_array_equal(rows, [[0, 0], [0, 0], [np.nan, -np.inf]])


def test_look_ups_that_no_step_follows_hold_little_memory():
    table = Table(1, rule=SGD())
    keys = np.arange(100_000)
    table.lookup(keys)
    _core.release_cached_memory()
    before = _core.memory_stats()["live"]
    for i in range(60):
        table.lookup(keys + i)
    assert _core.memory_stats()["live"] - before < 60 << 20  # 8 orders of 48 bytes a key, not 60


def test_threads_that_train_on_the_same_keys_lose_no_update():
    table = Table(1, rule=SGD(lr=1.0), init=Normal(0.0))
    keys = np.arange(2000) % 1500
    grads = np.full((2000, 1), -1.0, np.float32)

    def train():
        for _ in range(40):
            table.lookup(keys)
            table.update(keys, grads)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = table.lookup(np.arange(1500)).numpy()[:, 0]
    np.testing.assert_array_equal(found, np.where(np.arange(1500) < 500, 320.0, 160.0))


def test_memory_of_an_index_that_grew_is_given_back():
    """Old halves serve as the next index or go; 1.5 million keys in 4 buckets grow from 16 slots to 524,288 each."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    _core.release_cached_memory()
    before = resident()
    table = Table(1, rule=SGD(), buckets=4)
    for i in range(15):
        table.update(np.arange(i * 100_000, (i + 1) * 100_000), np.zeros((100_000, 1), np.float32))
    stats = table.stats()
    _core.release_cached_memory()
    assert resident() - before < stats.bytes + (24 << 20)
    del table
    gc.collect()
    _core.release_cached_memory()
    assert resident() - before < 24 << 20
