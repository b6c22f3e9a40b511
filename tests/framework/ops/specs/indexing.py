"""framework/native/ops/indexing.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec

I23 = integers(-4, 4, 2, 3)  # indices into an axis of 4, some negative, some twice


def _scatter_add(x, indices, updates, axis=0):
    y = x.copy()
    np.add.at(y, (slice(None),) * (axis % x.ndim) + (indices,), updates)
    return y


def _put_along(x, indices, updates, axis):
    y = x.copy()
    grid = list(np.indices(indices.shape))
    grid[axis] = indices
    np.add.at(y, tuple(grid), updates)
    return y


def _embedding(weight, ids, padding_idx=-1):
    return np.where((ids == padding_idx)[..., None], 0.0, weight[ids])


def _embedding_grad(dy, ids, like, padding_idx=-1):
    dw = np.zeros(like.shape)
    np.add.at(dw, ids, np.where((ids == padding_idx)[..., None], 0.0, dy))
    return dw


spec(
    "gather",
    reference=lambda x, indices, axis=0: np.take(x, indices % max(1, x.shape[axis]), axis),
    exact=True,
    samples=[
        Sample([normal(4, 3), I23]),
        Sample([normal(2, 4, 3), I23.astype(np.int32)], {"axis": 1}),
        Sample([normal(5, 4), np.array(-1)], {"axis": -1}),
        Sample([normal(3, 4, 2), np.zeros(0, np.int64)], {"axis": 1}),
        Sample([integers(0, 99, 4, 3).astype(np.uint8), I23]),
    ],
    errors=[
        Bad(
            [normal(4, 3), np.array([[0, 1], [4, 0]])],
            AttributeValueError,
            r"indices\[1, 0\] is 4 but the axis has 4; it must lie in \[-4, 3\]",
        ),
        Bad([normal(4, 3), np.array([0, -5])], AttributeValueError, r"indices\[1\] is -5"),
        Bad([normal(0, 3), np.array(0)], AttributeValueError, "indices is 0 but the axis has 0"),
        Bad([normal(4, 3), normal(2)], DTypeError, "indices is float32 but must be int32 or int64"),
    ],
)
spec(
    "scatter_add",
    reference=_scatter_add,
    samples=[
        Sample([normal(4, 3), I23, normal(2, 3, 3)]),
        Sample([normal(2, 4, 3), I23, normal(2, 2, 3, 3)], {"axis": 1}),
        Sample([normal(3, 4), np.array(-1), normal(3)], {"axis": -1}),
        Sample([normal(4, 2), np.zeros(0, np.int32), normal(0, 2)]),
        Sample([integers(0, 9, 4), I23, integers(0, 9, 2, 3)]),
    ],
    errors=[
        Bad([normal(4, 3), np.array([4]), normal(1, 3)], AttributeValueError, r"indices\[0\] is 4 but the axis has 4"),
        Bad(
            [normal(4, 3), np.array([1]), normal(2, 3)], ShapeError, r"updates has shape \[2, 3\] but must .* \[1, 3\]"
        ),
        Bad([normal(4, 3), np.array([1]), integers(0, 2, 1, 3)], DTypeError, "updates is int64 but x is float32"),
        Bad(
            [integers(0, 9, 4).astype(np.uint8), np.array([1]), integers(0, 9, 1).astype(np.uint8)],
            DTypeError,
            "x is uint8 but must be float32",
        ),
    ],
)
spec(
    "take_along_axis",
    reference=lambda x, indices, axis: np.take_along_axis(x, indices, axis),
    exact=True,
    samples=[
        Sample([normal(4, 3), integers(-4, 4, 2, 3)], {"axis": 0}),
        Sample([normal(2, 4), integers(-4, 4, 2, 6)], {"axis": -1}),
        Sample([normal(2, 4, 3), integers(0, 4, 2, 1, 3).astype(np.int32)], {"axis": 1}),
        Sample([integers(0, 9, 2, 4).astype(np.uint8), integers(0, 4, 2, 6)], {"axis": -1}),
    ],
    errors=[
        Bad([normal(4, 3), np.full((1, 3), 4)], AttributeValueError, r"indices\[0, 0\] is 4", {"axis": 0}),
        Bad([normal(4, 3), np.zeros((1, 2), int)], ShapeError, "may differ on axis 0 only", {"axis": 0}),
    ],
)
spec(
    "put_along_axis_add",
    reference=_put_along,
    samples=[
        Sample([normal(4, 3), integers(-4, 4, 2, 3), normal(2, 3)], {"axis": 0}),
        Sample([normal(2, 4), integers(-4, 4, 2, 6), normal(2, 6)], {"axis": -1}),
        Sample([normal(2, 4, 3), integers(0, 4, 2, 5, 3), normal(2, 5, 3)], {"axis": 1}),
    ],
    errors=[
        Bad([normal(2), np.array([-3]), normal(1)], AttributeValueError, r"indices\[0\] is -3", {"axis": 0}),
        Bad(
            [normal(2), np.array([0]), normal(2)],
            ShapeError,
            r"updates has shape \[2\] but must have \[1\]",
            {"axis": 0},
        ),
    ],
)
spec(
    "embedding",
    reference=_embedding,
    exact=True,
    samples=[
        Sample([normal(5, 3), integers(0, 5, 2, 4)]),
        Sample([normal(5, 3), integers(0, 5, 7).astype(np.int32)], {"padding_idx": 2}),
        Sample([normal(5, 1), np.array(3)]),
    ],
    errors=[
        Bad([normal(5, 3), np.array([0, 5])], AttributeValueError, r"ids\[1\] is 5 but weight has 5; .* in \[0, 4\]"),
        Bad([normal(5, 3), np.array([-1])], AttributeValueError, r"ids\[0\] is -1"),
        Bad([normal(5, 3), np.array([0])], AttributeValueError, "padding_idx is 5 but must be -1", {"padding_idx": 5}),
        Bad([normal(5), np.array([0])], ShapeError, "weight has 1 axes"),
    ],
)
spec(
    "embedding_grad",
    reference=_embedding_grad,
    samples=[
        Sample([normal(2, 4, 3), integers(0, 5, 2, 4), normal(5, 3)]),
        Sample([normal(40, 3), integers(0, 5, 40), normal(5, 3)], {"padding_idx": 2}),
        Sample([normal(0, 3), np.zeros(0, np.int32), normal(5, 3)]),
    ],
    roundings=40,  # terms of one sum at most
    errors=[
        Bad([normal(1, 3), np.array([5]), normal(5, 3)], AttributeValueError, r"ids\[0\] is 5 but weight has 5"),
        Bad([normal(2, 3), np.array([1]), normal(5, 3)], ShapeError, r"dy has shape \[2, 3\] but must have \[1, 3\]"),
    ],
)


def _embedding_grad_rows(dy, ids, like, padding_idx=-1):
    flat, dy = ids.reshape(-1), dy.reshape(-1, like.shape[1])
    rows, values = np.full(len(flat), -1), np.zeros(dy.shape)
    for v in set(flat.tolist()) - {padding_idx}:
        (places,) = np.nonzero(flat == v)
        rows[places[0]], values[places[0]] = v, dy[places].sum(0)
    return rows, values


spec(
    "embedding_grad_rows",
    reference=_embedding_grad_rows,
    gradient=False,
    samples=[
        Sample([normal(2, 4, 3), integers(0, 5, 2, 4), normal(5, 3)]),
        Sample([normal(40, 3), integers(0, 5, 40), normal(5, 3)], {"padding_idx": 2}),
        Sample([normal(300, 70), integers(0, 500, 300).astype(np.int32), normal(500, 70)]),
        Sample([normal(0, 3), np.zeros(0, np.int32), normal(5, 3)]),
    ],
    roundings=40,
    errors=[
        Bad([normal(1, 3), np.array([5]), normal(5, 3)], AttributeValueError, r"ids\[0\] is 5 but weight has 5"),
        Bad([normal(2, 3), np.array([1]), normal(5, 3)], ShapeError, r"dy has shape \[2, 3\] but must have \[1, 3\]"),
    ],
)
spec(
    "one_hot",
    reference=lambda ids, depth, dtype="float32": np.eye(depth, dtype=dtype)[ids],
    exact=True,
    gradient=False,
    samples=[
        Sample([integers(0, 4, 2, 3)], {"depth": 4}),
        Sample([integers(0, 4, 5).astype(np.int32)], {"depth": 6, "dtype": "int64"}),
        Sample([np.array(1)], {"depth": 2, "dtype": "bool"}),
        Sample([np.zeros((0, 2), np.int64)], {"depth": 3, "dtype": "float16"}),
    ],
    errors=[
        Bad([np.array([0, 4])], AttributeValueError, r"ids\[1\] is 4 but depth has 4", {"depth": 4}),
        Bad([np.array([0])], AttributeValueError, "depth is -1", {"depth": -1}),
    ],
)


def _apart(*shape):
    """Values in any order, so far from each other that no small step changes it."""
    return 0.01 * (np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape) - 100.0)


def _sorted(x, axis=-1, descending=False, count=None):
    # NumPy's stable sort puts NaN last; descending order is that of the reversed array, read backwards.
    if descending:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(x.shape[axis] if count is None else count), axis)
    return np.take_along_axis(x, order, axis), order


spec(
    "sort",
    reference=_sorted,
    exact=True,
    samples=[
        Sample([normal(3, 7)]),
        Sample([normal(3, 7, 2)], {"axis": 1, "descending": True}),
        Sample([integers(-3, 3, 20, 3)], {"axis": 0}),
        Sample([integers(0, 9, 2, 9).astype(np.uint8)], {"descending": True}),
        Sample([normal(0, 3)], {"axis": 0}),
        Sample([_apart(2, 300)]),  # long lines are sorted by digits
        Sample([_apart(400, 3)], {"axis": 0, "descending": True}),
        Sample([integers(-3, 3, 2, 600)], {"descending": True}),
        Sample([np.array([0.0, -0.0, np.inf, -np.inf, np.nan] * 60, np.float32)]),
        Sample([np.array([0.0, -0.0, np.inf, -np.inf, np.nan] * 60, np.float32)], {"descending": True}),
    ],
    errors=[Bad([normal(3)], AttributeValueError, r"axis is 1 but must lie in \[-1, 0\]", {"axis": 1})],
)
spec(
    "topk",
    reference=lambda x, k, axis=-1, largest=True: _sorted(x, axis, largest, k),
    exact=True,
    samples=[
        Sample([normal(3, 7)], {"k": 3}),
        Sample([normal(9, 2)], {"k": 4, "axis": 0, "largest": False}),
        Sample([integers(-3, 3, 4, 30)], {"k": 12}),
        Sample([normal(2, 5)], {"k": 5}),
        Sample([normal(2, 5)], {"k": 0}),
    ],
    errors=[
        Bad([normal(2, 5)], AttributeValueError, r"k is 6 but must lie in \[0, 5\], axis 1 of \[2, 5\]", {"k": 6}),
        Bad([normal(2, 5)], AttributeValueError, "k is -1", {"k": -1}),
    ],
)


def _scatter(x, indices, updates, axis=0):
    """One index after the other."""
    y = np.moveaxis(x.copy(), axis, 0)
    k = axis % x.ndim
    rows = np.moveaxis(updates, tuple(range(k, k + indices.ndim)), tuple(range(indices.ndim)))
    for place in np.ndindex(*indices.shape):
        y[indices[place]] = rows[place]
    return np.moveaxis(y, 0, axis)


def _scatter_pick(x, indices, axis=0):
    flat = indices.reshape(-1) % max(1, x.shape[axis])
    counts = np.array([i not in flat[k + 1 :] for k, i in enumerate(flat)], bool).reshape(indices.shape)
    taken = np.take(x, indices % max(1, x.shape[axis]), axis)
    k = axis % x.ndim
    counts = counts.reshape((1,) * k + indices.shape + (1,) * (x.ndim - k - 1))
    return np.where(counts, taken, 0).astype(x.dtype)


def _scatter_nd(x, indices, updates):
    y = x.copy()
    np.add.at(y, tuple(np.moveaxis(indices, -1, 0)), updates)
    return y


def _tuples(*extents, count=(), seed=0):
    """Tuples of indices, some negative, some twice."""
    return np.stack([integers(-n, n, *count, seed=seed + i) for i, n in enumerate(extents)], -1)


spec(
    "scatter",
    reference=_scatter,
    exact=True,
    samples=[
        Sample([normal(4, 3), I23, normal(2, 3, 3)]),
        Sample([normal(2, 4, 3), I23.astype(np.int32), normal(2, 2, 3, 3)], {"axis": 1}),
        Sample([normal(3, 4), np.array(-1), normal(3)], {"axis": -1}),
        Sample([normal(4, 2), np.zeros(0, np.int32), normal(0, 2)]),
        Sample([integers(0, 9, 4).astype(np.uint8), I23, integers(0, 9, 2, 3).astype(np.uint8)]),
    ],
    errors=[
        Bad([normal(4, 3), np.array([4]), normal(1, 3)], AttributeValueError, r"indices\[0\] is 4 but the axis has 4"),
        Bad(
            [normal(4, 3), np.array([1]), normal(2, 3)], ShapeError, r"updates has shape \[2, 3\] but must .* \[1, 3\]"
        ),
        Bad([normal(4, 3), np.array([1]), integers(0, 2, 1, 3)], DTypeError, "updates is int64 but x is float32"),
        Bad([normal(0, 3), np.array([0]), normal(1, 3)], AttributeValueError, r"indices\[0\] is 0 but the axis has 0"),
    ],
)
spec(
    "scatter_pick",
    reference=_scatter_pick,
    exact=True,
    samples=[
        Sample([normal(4, 3), I23]),
        Sample([normal(2, 4, 3), I23], {"axis": 1}),
        Sample([normal(3, 4), np.array(-1)], {"axis": -1}),
    ],
    errors=[Bad([normal(4, 3), np.array([-5])], AttributeValueError, r"indices\[0\] is -5 but the axis has 4")],
)
ND_ERRORS = [
    Bad(
        [normal(4, 3), np.array([[0, 3]])],
        AttributeValueError,
        r"indices\[0, 1\] is 3 but axis 1 of x \[4, 3\] has 3; it must lie in \[-3, 2\]",
    ),
    Bad([normal(4), np.array([[0, 0]])], ShapeError, r"tuples of 2 numbers \(axis -1\) but x \[4\] has 1 axes"),
    Bad([normal(4), np.array(0)], ShapeError, "indices has 0 axes .* needs at least 1"),
    Bad([normal(4), normal(1, 1)], DTypeError, "indices is float32 but must be int32 or int64"),
]
spec(
    "gather_nd",
    reference=lambda x, indices: x[tuple(np.moveaxis(indices, -1, 0))],
    exact=True,
    samples=[
        Sample([normal(4, 3), _tuples(4, 3, count=(5,))]),
        Sample([normal(2, 4, 3), _tuples(2, 4, count=(2, 3)).astype(np.int32)]),
        Sample([normal(5, 2), _tuples(5, count=(7,))]),
        Sample([normal(3, 2), np.zeros((0, 2), np.int64)]),
        Sample([integers(0, 99, 4, 3).astype(np.uint8), np.array([-1, 2])]),
    ],
    errors=ND_ERRORS,
)
spec(
    "scatter_nd_add",
    reference=_scatter_nd,
    samples=[
        Sample([normal(4, 3), _tuples(4, 3, count=(9,)), normal(9)]),
        Sample([normal(2, 4, 3), _tuples(2, 4, count=(2, 3)), normal(2, 3, 3)]),
        Sample([integers(0, 9, 5, 2), _tuples(5, count=(7,)), integers(0, 9, 7, 2)]),
    ],
    errors=[
        Bad([*bad.inputs, normal(1)], bad.error, bad.match) for bad in ND_ERRORS[:1]
    ] + [Bad([normal(4, 3), np.array([[1]]), normal(1, 2)], ShapeError, r"updates has shape \[1, 2\] but must have")],
)  # fmt: skip
