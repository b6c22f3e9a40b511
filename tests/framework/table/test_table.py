"""Tables against a Python dict: random histories, growth, threads, admission, eviction, limits, errors."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import framework
from framework.errors import AttributeValueError, DTypeError, ShapeError, StateError
from framework.table import (
    SGD,
    Adagrad,
    Adam,
    ByCount,
    ByProbability,
    ByScore,
    DenseAdam,
    Eviction,
    Limit,
    Normal,
    Table,
    Zeros,
)
from tests.framework.table.reference import DictTable, block, unit

EPS = float(np.finfo(np.float32).eps)
EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 1 << 52]  # unsigned: 0, 1, 2^64 - 1, ...


def read(table: Table, keys) -> np.ndarray:
    return table.lookup(keys).numpy().copy()


def evaluated(table: Table, keys) -> np.ndarray:
    with framework.no_grad():
        return read(table, keys)


def clustered(count: int) -> np.ndarray:
    """Keys whose hashes begin a search at one place of one bucket: the index's worst case."""
    found, i = [], np.arange(1 << 18, dtype=np.uint64)
    z = i + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    found = i[(z & np.uint64(1023)) == 5]
    return found[:count].astype(np.int64)


KEYS = st.sampled_from([*EDGES, *range(2, 10), *clustered(40).tolist()])
ACTIONS = st.one_of(
    st.tuples(st.just("update"), st.lists(KEYS, min_size=1, max_size=30), st.integers(0, 2**31)),
    st.tuples(st.just("forget"), st.lists(KEYS, min_size=1, max_size=8), st.just(0)),
    st.tuples(st.just("shrink"), st.just([]), st.just(0)),
    st.tuples(st.just("set_shows"), st.lists(KEYS, min_size=1, max_size=4, unique=True), st.integers(0, 50)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=40), st.sampled_from([1, 2, 64]))
def test_a_table_is_a_dict(actions, buckets):
    """SGD at lr 1 on whole gradients and initial values of zero: every number is exact."""
    eviction = Eviction(decay=0.5, least_score=0.06, most_unseen=3)
    table = Table(3, rule=SGD(), init=Zeros(), eviction=eviction, buckets=buckets)
    model = DictTable(3, SGD().plain(), [(3, "zeros", 0.0)], 0)
    known = np.array([*EDGES, *range(2, 10), *clustered(40).tolist()], np.int64)
    for what, keys, number in actions:
        array = np.array(keys, np.int64)
        if what == "update":
            rng = np.random.default_rng(number)
            grads = rng.integers(-8, 9, (len(keys), 3)).astype(np.float32)
            clicks = rng.integers(0, 2, len(keys)).astype(np.float32)
            table.update(array, grads, 1.0, clicks=clicks)
            model.update(array, grads, 1.0, clicks)
        elif what == "forget":
            assert table.forget(array) == len({k for k in keys if k in model.values})
            model.forget(keys)
        elif what == "shrink":
            assert table.shrink() == model.shrink(0.5, 0.06, 3)
        else:
            assert table.set_shows(array, np.full(len(keys), number), np.zeros(len(keys))) == sum(
                k in model.counts for k in keys
            )
            for k in keys:
                if k in model.counts:
                    model.counts[k][:2] = [float(number), 0.0]
    assert len(table) == len(model.values)
    np.testing.assert_array_equal(evaluated(table, known), model.lookup(known))
    expected = [model.counts.get(k, [-1.0, -1.0, -1.0]) for k in known.tolist()]
    np.testing.assert_allclose(table.counts(known)[:, :3], expected, rtol=40 * EPS, atol=0)
    slots = {s: n for s in range(4096) if (n := sum((k % 2**64) >> 52 == s for k in model.values))}
    assert table.stats().slots == slots


def test_every_key_is_valid():
    table = Table(2, rule=SGD(), init=Normal(1.0))
    table.update(EDGES, np.zeros((len(EDGES), 2)))
    assert len(table) == len(EDGES) and 0 in table and -1 in table and 3 not in table
    as_unsigned = np.array(EDGES, np.int64).view(np.uint64)
    np.testing.assert_array_equal(read(table, as_unsigned), read(table, EDGES))
    np.testing.assert_array_equal(read(table, [2**64 - 1]), read(table, [-1]))


def test_it_grows_to_millions_of_keys():
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(-(2**63), 2**63 - 1, 2_000_000))
    table = Table(1, rule=SGD(), init=Zeros())
    for part in np.array_split(keys, 16):
        table.update(part, (part % 1009).astype(np.float32)[:, None], -1.0)
    assert len(table) == len(keys)
    np.testing.assert_array_equal(evaluated(table, keys)[:, 0], (keys % 1009).astype(np.float32))
    stats = table.stats()
    assert stats.admitted == len(keys) and stats.row_bytes < 1.2 * 48 * len(keys)
    assert stats.index_bytes < 46 * len(keys)
    assert table.forget(keys[::2]) == len(keys[::2])
    np.testing.assert_array_equal(evaluated(table, keys[1::2])[:, 0], (keys[1::2] % 1009).astype(np.float32))
    assert table.stats().row_bytes < 0.7 * stats.row_bytes  # what is not needed can be used again


@pytest.mark.parametrize(
    "rule", [Adam(), Adagrad(shared=True), DenseAdam(weight_decay=0.1)], ids=lambda r: type(r).__name__
)
def test_one_thread_and_two_give_the_same_bits(rule):
    tables = []
    before = framework.num_threads()
    try:
        for threads in (1, 2):
            framework.set_num_threads(threads)
            rng = np.random.default_rng(0)
            table = Table(7, rule=rule, init=Normal(0.1))
            for _ in range(4):
                keys = rng.zipf(1.3, 30_000).astype(np.int64)
                table.update(keys, rng.normal(size=(len(keys), 7)), 0.01)
            tables.append(table)
    finally:
        framework.set_num_threads(before)
    keys = np.arange(1, 5000)
    np.testing.assert_array_equal(read(tables[0], keys), read(tables[1], keys))
    rows = [[np.asarray(framework.Tensor(a).numpy()) for a in t._native.read_rows(0, 256, 0, False)] for t in tables]
    for one, two in zip(*rows, strict=True):
        np.testing.assert_array_equal(one, two)  # also the order of rows


@pytest.mark.parametrize("rule", [SGD(), DenseAdam(lr=0.0)], ids=lambda r: type(r).__name__)
def test_no_update_is_lost_when_threads_update_the_same_rows(rule):
    """Whole numbers at lr 1 add up exactly in any order, and each look-up sees whole updates only: equal columns."""
    table = Table(8, rule=rule, init=Zeros())
    torn = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            keys = rng.integers(0, 500, 400)
            table.update(keys, -np.ones((400, 8), np.float32), 1.0)
            rows = evaluated(table, rng.integers(0, 500, 100))
            torn.append(bool((rows != rows[:, :1]).any()))
            if seed == 0:
                table.forget(rng.integers(1000, 2000, 5))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not any(torn)
    assert table.counts(np.arange(500))[:, 0].sum() == 4 * 60 * 400
    if isinstance(rule, SGD):
        assert evaluated(table, np.arange(500)).sum() == 4 * 60 * 400 * 8


def test_rows_may_come_and_go_while_others_are_read():
    table = Table(4, rule=SGD(), init=Zeros(), buckets=2)
    stay = np.arange(100)
    table.update(stay, -np.repeat(stay[:, None], 4, 1).astype(np.float32), 1.0)
    stop, wrong = threading.Event(), []

    def churn() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            keys = rng.integers(1000, 9000, 500)
            table.update(keys, np.ones((500, 4)), 1.0)
            table.forget(keys)

    thread = threading.Thread(target=churn)
    thread.start()
    for _ in range(300):
        wrong.append((evaluated(table, stay) != stay[:, None]).any())
    stop.set()
    thread.join()
    assert not any(wrong)


# -- admission
def test_admission_by_count_makes_a_row_at_the_nth_occurrence():
    table = Table(2, rule=SGD(), init=Normal(1.0), admission=ByCount(3))
    born = read(Table(2, rule=SGD(), init=Normal(1.0)), [5])
    table.update([5], np.ones((1, 2)), 1.0)
    assert 5 not in table and (read(table, [5]) == 0).all()
    table.update([5, 5], np.ones((2, 2)), 1.0)  # the second and the third: the row is there, its gradient is left out
    np.testing.assert_array_equal(read(table, [5]), born)
    assert table.counts([5])[0, 0] == 2.0  # the batch that admits it is counted
    table.update([5], np.ones((1, 2)), 1.0)
    np.testing.assert_array_equal(read(table, [5]), born - 1)
    stats = table.stats()
    assert (stats.rows, stats.candidates, stats.rejected, stats.admitted) == (1, 0, 1, 1)


def test_admission_by_score_counts_clicks():
    table = Table(2, admission=ByScore(1.0), show_weight=0.1, click_weight=1.0)
    table.update([1, 2], np.zeros((2, 2)), clicks=[1, 0])
    assert 1 in table and 2 not in table
    for _ in range(8):
        table.update([2], np.zeros((1, 2)))
    assert 2 not in table  # nine shows: 0.9, kept to 1/256 each
    table.update([2], np.zeros((1, 2)))
    assert 2 in table


def test_admission_by_probability_is_the_key_s_own_draw():
    """The occurrence at which each key comes in follows from seed and key, and is geometric on the whole."""
    p, n, seed = 0.2, 4000, 17
    orders = []
    for shuffle in (1, 2):
        table = Table(1, admission=ByProbability(p), seed=seed)
        rng = np.random.default_rng(shuffle)
        admitted = np.zeros(n, int)
        for round_ in range(1, 6):
            keys = rng.permutation(n)
            for part in np.array_split(keys, shuffle):
                table.update(part, np.zeros((len(part), 1)))
            here = table.counts(np.arange(n))[:, 0] >= 0
            admitted[here & (admitted == 0)] = round_
        orders.append(admitted)
    np.testing.assert_array_equal(*orders)
    draws = np.array([unit(block(seed, k, 0, 1)[0]) for k in range(n)])
    expected = np.maximum(1, np.ceil(np.log1p(-draws) / np.log1p(-p)))
    np.testing.assert_array_equal(orders[0], np.where(expected <= 5, expected, 0))
    share = (orders[0] == 1).mean()
    assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n)  # five standard errors


def test_candidates_that_nobody_sees_again_go():
    table = Table(1, admission=ByCount(3), eviction=Eviction(decay=1.0, most_unseen=2))
    table.update([1, 2, 2], np.zeros((3, 1)))
    table.shrink()
    table.update([1], np.zeros((1, 1)))
    table.shrink()
    table.shrink()
    assert table.stats().candidates == 1  # key 1 was seen one pass later
    table.update([1], np.zeros((1, 1)))
    assert 1 in table


# -- eviction and limits
def test_shrink_removes_rows_by_score_and_by_age():
    table = Table(1, eviction=Eviction(decay=0.5, least_score=0.1, most_unseen=2), show_weight=0.1, click_weight=1.0)
    table.update(np.repeat([1, 2, 3], [1, 4, 40]), np.zeros((45, 1)))
    assert table.shrink() == 1 and 1 not in table  # 0.5 shows: a score of 0.05
    assert table.shrink() == 0  # one show: 0.1
    assert table.shrink() == 2  # both are unseen for three passes
    assert len(table) == 0 and table.stats().evicted == 3


def test_memory_neither_grows_nor_sags_under_a_stream_of_new_keys():
    """Every row goes at the end of the pass after its own: 10,000 are there at a time, evenly over 256 buckets."""
    table = Table(8, eviction=Eviction(decay=0.9, least_score=0.0, most_unseen=1))
    sizes = []
    for step in range(30):
        table.update(np.arange(step * 5000, (step + 1) * 5000), np.zeros((5000, 8)))
        table.shrink()
        sizes.append(table.stats().bytes)
    assert max(sizes[3:]) < 1.2 * min(sizes[3:])
    table.shrink()
    assert len(table) == 0
    assert table.stats().bytes <= 256 * 16 * 16  # the index's least


def test_a_full_table_says_so_and_changes_nothing():
    table = Table(2, rule=SGD(), init=Zeros(), limit=Limit(rows=10), name="signs")
    table.update(np.arange(8), np.ones((8, 2)), 1.0)
    before = evaluated(table, np.arange(12))
    with pytest.raises(
        StateError, match="table signs: 8 rows and 3 new keys are more than its limit of 10; raise the limit"
    ):
        table.update(np.array([0, 8, 9, 10, 10]), np.ones((5, 2)), 1.0)
    np.testing.assert_array_equal(evaluated(table, np.arange(12)), before)
    table.update(np.array([0, 8, 9, 9, 9, 1]), np.ones((6, 2)), 1.0)
    assert len(table) == 10


def test_a_full_table_may_push_the_least_out():
    table = Table(2, limit=Limit(rows=64, when_full="evict"), buckets=4)
    often = np.arange(8)
    for start in range(100, 2000, 20):
        table.update(np.concatenate([np.repeat(often, 10), np.arange(start, start + 20)]), np.zeros((100, 2)))
        assert len(table) <= 64
    assert (table.counts(often)[:, 0] >= 0).all()
    assert table.stats().evicted > 1000


def test_a_limit_of_bytes_is_kept():
    limit = 4 << 20
    table = Table(16, limit=Limit(bytes=limit, when_full="evict"), buckets=16)
    for start in range(0, 200_000, 20_000):
        table.update(np.arange(start, start + 20_000), np.zeros((20_000, 16)))
    blocks = 16 * (16 << 10)  # each bucket may have begun one more
    assert 0.5 * limit < table.stats().bytes <= limit + blocks


# -- errors
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Table(0), AttributeValueError, "Table: dim is 0; a row has 1 to 65536 columns"),
        (lambda: Table(2, buckets=3), AttributeValueError, "buckets is 3; it must be a power of two up to 65536"),
        (
            lambda: Table(3, init=[(1, Zeros())]),
            AttributeValueError,
            r"init covers \[1\] columns; together they must be 3",
        ),
        (lambda: Table(2, name=""), AttributeValueError, "name is ''"),
        (lambda: Normal(-1.0), AttributeValueError, "Normal: scale is -1.0"),
        (lambda: ByCount(0), AttributeValueError, "ByCount: threshold is 0"),
        (lambda: ByProbability(1.5), AttributeValueError, r"threshold is 1.5; it must lie in \(0, 1\]"),
        (lambda: Eviction(decay=2.0), AttributeValueError, "Eviction: decay is 2.0"),
        (lambda: Eviction(most_unseen=-1), AttributeValueError, "most_unseen is -1"),
        (lambda: Limit(), AttributeValueError, "Limit: give either rows or bytes"),
        (lambda: Limit(rows=1, bytes=1), AttributeValueError, "Limit: give either rows or bytes"),
        (lambda: Limit(rows=1, when_full="x"), AttributeValueError, "when_full is 'x'"),
        (lambda: Table(2).lookup(np.zeros(3, np.int32)), DTypeError, "table 'table': keys are int32 but must be int64"),
        (lambda: Table(2).lookup(np.zeros(3)), DTypeError, "keys are float64 but must be int64"),
        (
            lambda: Table(2).update([1], np.zeros((1, 3))),
            ShapeError,
            r"table_update: a gradient is float32 \[1, 3\] but keys \[1\] of a table with dim 2 need float32 \[1, 2\]",
        ),
        (
            lambda: Table(2).update([1, 2, 3], np.zeros((3, 2)), clicks=[1, 0]),
            ShapeError,
            "clicks are float32 .2. but must be float32, one for each of equal runs of the 3 keys",
        ),
        (lambda: Table(2).set_shows([1, 2], np.zeros(1), np.zeros(2)), ShapeError, "shows are float32 .1."),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_no_keys_are_no_work():
    table = Table(2)
    assert table.lookup(np.zeros((0, 3), np.int64)).shape == (0, 3, 2)
    table.update(np.zeros(0, np.int64), np.zeros((0, 2)))
    assert len(table) == 0 and table.forget(np.zeros(0, np.int64)) == 0
