"""What a generation engine relies on: rows and queries have the same bits whatever is beside them."""

import numpy as np
import pytest

import framework
from framework import ops
from tests.framework.ops.harness import integers, normal


def _linear(x, *others):
    return ops.linear_by_rows(framework.tensor(x), *map(framework.tensor, others)).numpy()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 67])
def test_a_row_of_a_product_has_the_same_bits_however_many_are_beside_it(count):
    x, weight, bias = (a.astype(np.float32) for a in (normal(67, 130), normal(75, 130, seed=2), normal(75, seed=3)))
    assert np.array_equal(_linear(x, weight, bias)[:count], _linear(x[:count], weight, bias))


@pytest.mark.parametrize("groups", [1, 4, 13])
@pytest.mark.parametrize("rows", [1, 6])
def test_8_bit_weights_count_their_scales(rows, groups):
    x, weight = normal(rows, 52).astype(np.float32), integers(-127, 128, 37, 52).astype(np.int8)
    scale = np.abs(normal(37, groups, seed=4)).astype(np.float32)
    y = ops.linear_by_rows(framework.tensor(x), framework.tensor(weight), scale=framework.tensor(scale)).numpy()
    wide = weight * np.repeat(scale.astype(np.float64), 52 // groups, axis=1)
    bound = 54 * 2**-24 * np.abs(x).astype(np.float64) @ np.abs(wide).T  # a rounding for each term and scale
    assert (np.abs(y - x.astype(np.float64) @ wide.T) <= bound).all()


def _attend(q, keys, values, queries, tables, lengths, kind="plain"):
    offsets = np.cumsum([0, *queries])
    about = (offsets, np.array(tables), np.array(lengths))
    if kind == "weights":
        parts = [framework.tensor(x) for x in (q[:, :16].copy(), keys, *about)]
        return ops.paged_weights(*parts, page=4).numpy()[:, :150]
    near = [normal(11, 8, seed=s).astype(np.float32) for s in (8, 9)] if kind == "near" else []
    return ops.paged_attention(*map(framework.tensor, (q, keys, values, *about, *near)), heads=6, page=4).numpy()


@pytest.mark.parametrize("kind", ["plain", "near", "weights"])
def test_a_query_has_the_same_bits_in_parts_in_other_pages_and_beside_others(kind):
    pages, length = 60, 150
    q = normal(length, 6 * 8).astype(np.float32)
    keys, values = (normal(length, 2 * 8, seed=s).astype(np.float32) for s in (1, 2))
    rng = np.random.default_rng(0)

    def cache(table):
        """The keys and values in these pages, among rubbish."""
        found = [np.full((pages * 4, 16), np.nan, np.float32) for _ in range(2)]
        for rows, into in zip((keys, values), found, strict=True):
            for j in range(length):
                into[table[j // 4] * 4 + j % 4] = rows[j]
        return found

    table = rng.permutation(pages)[:38]
    whole = _attend(q, *cache(table), [length], [table], [length], kind)
    other = rng.permutation(pages)[:38]
    for begin, end in ((0, 1), (3, 70), (70, 71), (140, 150)):
        part = _attend(q[begin:end], *cache(other), [end - begin], [other], [end], kind)
        assert np.array_equal(part, whole[begin:end])
    both = _attend(np.concatenate([q[5:9], q[149:]]), *cache(other), [4, 1], [other, other], [9, 150], kind)
    assert np.array_equal(both, np.concatenate([whole[5:9], whole[149:]]))


def test_a_few_rows_are_written_into_a_large_table_in_order():
    x, updates = normal(1000, 3), normal(5, 3, seed=1)
    y = ops.scatter(framework.tensor(x), framework.tensor(np.array([7, -1, 7, 0, 999])), framework.tensor(updates))
    expected = x.copy()
    for place, row in zip([7, -1, 7, 0, 999], updates, strict=True):
        expected[place] = row
    assert np.array_equal(y.numpy(), expected)
