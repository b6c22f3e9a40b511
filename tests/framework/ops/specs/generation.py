"""framework/native/ops/generation.cc: attention sequence by sequence on contiguous keys, and plain products."""

from itertools import pairwise

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _attention(
    q, keys, values, offsets, tables, lengths, near_keys=None, near_values=None, heads=1, page=16, scale=0.0, window=0
):
    size = q.shape[1] // heads
    y, groups = np.zeros(q.shape), keys.shape[1] // size
    for b, (begin, end) in enumerate(pairwise(offsets)):
        rows = [tables[b][j // page] * page + j % page for j in range(lengths[b])]
        for t in range(begin, end):
            last = max(lengths[b] - (end - t) + 1, 0)
            seen = rows[:last][-window:]
            far = 0 if near_keys is None else len(near_keys) // 2
            near = [max(j - (last - 1), -far) + far for j in range(last)][-window:]
            for h in range(heads if seen else 0):
                own, shared = slice(h * size, (h + 1) * size), h // (heads // groups) * size
                columns = slice(shared, shared + size)
                k, v = keys[seen, columns], values[seen, columns]
                k, v = (k, v) if near_keys is None else (k + near_keys[near], v + near_values[near])
                s = (scale or size**-0.5) * k @ q[t, own]
                weights = np.exp(s - s.max())
                y[t, own] = weights @ v / weights.sum()
    return y


def _call(queries, lengths, heads, groups, size, page, pages, seed=0):
    """Inputs of sequences with so many new queries and keys, whose pages lie anywhere."""
    rng, span = np.random.default_rng(seed), max(-(-max(lengths, default=0) // page), 1)
    tables = rng.permutation(pages)[: len(queries) * span].reshape(len(queries), span)
    return [
        normal(sum(queries), heads * size, seed=1),
        *(normal(pages * page, groups * size, seed=s) for s in (2, 3)),
        np.cumsum([0, *queries]),
        tables,
        np.array(lengths, np.int64),
    ]


def _changed(place, value):
    found = _call([1, 2], [3, 4], 2, 1, 4, 2, 5)
    found[place] = value
    return found


def _near(call, far, size):
    return [*call, normal(2 * far + 1, size, seed=7), normal(2 * far + 1, size, seed=8)]


SMALL, TWO = {"heads": 2, "page": 2}, {"page": 2}

spec(
    "paged_attention",
    reference=_attention,
    gradient=False,
    roundings=64,
    samples=[
        Sample(_call([1, 1, 1], [5, 1, 130], 6, 2, 8, 16, 30), {"heads": 6}),  # steps of decoding
        Sample(_call([70, 3], [70, 90], 4, 4, 16, 8, 30), {"heads": 4, "page": 8}),  # prompts, the second's end
        Sample(_call([2, 0, 3], [7, 4, 3], 5, 1, 3, 2, 20), {"heads": 5, "page": 2, "scale": 0.7}),
        Sample(_call([3], [2], 2, 2, 4, 2, 4), {"heads": 2, "page": 2}),  # the first query sees nothing
        Sample(_call([9], [9], 18, 2, 20, 4, 9), {"heads": 18, "page": 4}),
        Sample(_call([], [], 2, 1, 4, 2, 3), {"heads": 2, "page": 2}),
        Sample(_call([1, 70, 3], [130, 90, 2], 6, 2, 8, 16, 30), {"heads": 6, "window": 20}),  # blocks have 64 keys
        Sample(_call([9], [9], 2, 1, 4, 4, 9), {"heads": 2, "page": 4, "window": 1}),
        Sample(_near(_call([1, 70, 3], [130, 90, 2], 6, 2, 9, 16, 30), 5, 9), {"heads": 6}),  # distances of 5 and more
        Sample(_near(_call([9, 1], [9, 7], 2, 2, 4, 4, 9), 20, 4), {"heads": 2, "page": 4, "window": 3}),
    ],
    errors=[
        Bad(_changed(4, np.array([[0, 1], [5, 2]])), AttributeValueError, r"tables\[1, 0\] is 5 but the cache", SMALL),
        Bad(_changed(4, np.array([[0, 1], [-1, 2]])), AttributeValueError, r"tables\[1, 0\] is -1", SMALL),
        Bad(_changed(5, np.array([3, 5])), AttributeValueError, r"lengths\[1\] is 5 but a sequence's pages", SMALL),
        Bad(_changed(3, np.array([0, 2, 1])), AttributeValueError, "offsets must not fall", SMALL),
        Bad(_changed(3, np.array([0, 3])), ShapeError, "tables .* has 2 rows but offsets cut 1", SMALL),
        Bad(_changed(5, np.array([3])), ShapeError, "lengths has shape", SMALL),
        Bad(_changed(0, normal(3, 7)), AttributeValueError, "heads is 2 but must divide D, which is 7", SMALL),
        Bad(_changed(0, normal(3, 6)), ShapeError, "a head of q .* has 3", SMALL),
        Bad(_call([1], [1], 3, 2, 4, 2, 2), ShapeError, "whose number divides 3", {"heads": 3, "page": 2}),
        Bad(_changed(1, integers(0, 3, 10, 4)), DTypeError, "keys is int64 but q is float", SMALL),
        Bad(_changed(2, normal(8, 4)), ShapeError, "values has shape", SMALL),
        Bad(_call([1], [1], 2, 2, 4, 2, 2), AttributeValueError, "page is 3 but must divide", {"heads": 2, "page": 3}),
        Bad(_near(_changed(0, normal(3, 8)), 1, 4)[:7], AttributeValueError, "near_keys without the other", SMALL),
        Bad(_near(_changed(0, normal(3, 8)), 1, 3), ShapeError, r"near_keys .* must be \[2 F \+ 1, 4\]", SMALL),
    ],
)


def _weights(q, keys, offsets, tables, lengths, page=16, scale=0.0):
    found = np.zeros((len(q), len(tables[0]) * page if len(tables) else page))
    for b, (begin, end) in enumerate(pairwise(offsets)):
        for t in range(begin, end):
            seen = [tables[b][j // page] * page + j % page for j in range(lengths[b] - (end - t) + 1)]
            if seen:
                s = (scale or q.shape[1] ** -0.5) * keys[seen] @ q[t]
                found[t, : len(seen)] = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
    return found


def _weights_call(*how, **changes):
    q, keys, _, offsets, tables, lengths = _call(*how)
    found = {"q": q, "keys": keys, "offsets": offsets, "tables": tables, "lengths": lengths}
    return list((found | changes).values())


spec(
    "paged_weights",
    reference=_weights,
    gradient=False,
    roundings=64,
    samples=[
        Sample(_weights_call([1, 1, 1], [5, 1, 130], 1, 1, 24, 16, 30)),
        Sample(_weights_call([70, 0, 3], [70, 4, 90], 1, 1, 9, 8, 40), {"page": 8}),
        Sample(_weights_call([3], [2], 1, 1, 4, 2, 4), {"page": 2, "scale": 0.7}),  # the first query sees nothing
        Sample(_weights_call([], [], 1, 1, 4, 2, 3), {"page": 2}),
    ],
    errors=[
        Bad(_weights_call([1], [3], 1, 1, 4, 2, 5, tables=np.array([[0, 5]])), AttributeValueError,
            r"tables\[0, 1\] is 5 but the cache", TWO),
        Bad(_weights_call([1], [3], 1, 1, 4, 2, 5, lengths=np.array([5])), AttributeValueError,
            r"lengths\[0\] is 5 but a sequence's pages", TWO),
        Bad(_weights_call([1], [3], 1, 1, 4, 2, 5, q=normal(1, 3)), ShapeError, "must have the same columns", TWO),
    ],
)  # fmt: skip


def _page_rows(offsets, tables, lengths, like, keys, page=16):
    rows, places = [], []
    for begin, end, table, length in zip(offsets[:-1], offsets[1:], tables, lengths, strict=True):
        own = range(length - (end - begin), length)
        places += own
        rows += [table[place // page] * page + place % page for place in own]
    return np.array(rows, np.int64), np.array(places, np.int64)


def _rows_call(queries, lengths, page, pages, **changes):
    q, keys, _, offsets, tables, long = _call(queries, lengths, 1, 1, 1, page, pages)
    found = {"offsets": offsets, "tables": tables, "lengths": long, "like": q, "keys": keys}
    return list((found | changes).values())


spec(
    "page_rows",
    reference=_page_rows,
    gradient=False,
    exact=True,
    samples=[
        Sample(_rows_call([1, 0, 4], [5, 3, 33], 4, 30), {"page": 4}),
        Sample(_rows_call([40], [40], 16, 3)),
        Sample(_rows_call([], [], 2, 3), {"page": 2}),
    ],
    errors=[
        Bad(_rows_call([3], [2], 2, 3), AttributeValueError, r"lengths\[0\] is 2 but the sequence has 3", TWO),
        Bad(_rows_call([1], [2], 2, 3, tables=np.array([[3]])), AttributeValueError, r"tables\[0, 0\] is 3", TWO),
        Bad(_rows_call([1], [3], 2, 3, tables=np.array([[1]])), AttributeValueError, r"lengths\[0\] is 3", TWO),
        Bad(_rows_call([1], [1], 2, 3, offsets=np.array([0, 2])), AttributeValueError, "offsets ends at 2", TWO),
        Bad(_rows_call([1], [1], 2, 3), AttributeValueError, "page is 4 but must divide", {"page": 4}),
        Bad(_rows_call([1], [1], 2, 3, tables=np.array([0])), ShapeError, "tables has 1 axes", {"page": 2}),
    ],
)


def _linear(x, weight, bias=None, scale=None):
    if scale is not None:
        scale = np.repeat(scale.astype(np.float64), weight.shape[1] // scale.shape[1], axis=1)
    y = x @ (weight if scale is None else weight * scale).T
    return y if bias is None else y + bias


def _bytes(rows, columns, groups):
    """Weights of 8 bits and their scales."""
    scale = (np.abs(normal(rows, groups, seed=4)) + 0.1).astype(np.float32)
    return [integers(-127, 128, rows, columns).astype(np.int8), None, scale]


_X = normal(5, 12)

spec(
    "linear_by_rows",
    reference=_linear,
    gradient=False,
    roundings=16,
    samples=[
        Sample([normal(1, 33), normal(70, 33, seed=2), None, None]),
        Sample([normal(7, 40), normal(9, 40, seed=2), normal(9, seed=3), None]),
        Sample([normal(70, 5), normal(3, 5, seed=2), None, None]),
        Sample([normal(0, 5), normal(3, 5, seed=2), None, None]),
        Sample([normal(3, 0), normal(4, 0, seed=2), normal(4, seed=3), None]),
    ],
    errors=[
        Bad([_X, normal(4, 11), None, None], ShapeError, "x has 12 columns .* but weight has 11"),
        Bad([_X, integers(0, 3, 4, 12), None, None], DTypeError, "weight is int64 but x is float"),
        Bad([_X, normal(4, 12), normal(3), None], ShapeError, "bias has shape"),
        Bad([_X, normal(4, 12), None, np.ones((4, 1), np.float32)], DTypeError, "int8 weights have one, others none"),
        Bad([_X.astype(np.float32), _bytes(4, 12, 1)[0], None, None], DTypeError, "there is no scale"),
        Bad([_X.astype(np.float32), *_bytes(4, 12, 5)], ShapeError, "where G divides 12"),
        Bad([normal(12), normal(4, 12), None, None], ShapeError, "x has 1 axes"),
        Bad([integers(0, 3, 2, 12), normal(4, 12), None, None], DTypeError, "x is int64"),
    ],
)
