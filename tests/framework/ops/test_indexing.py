"""x[index] as NumPy has it, its errors and gradients; stack and unstack; orders with NaN and ties; all types."""

import itertools

import numpy as np
import pytest

import framework
from framework import ops
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError, NotSupportedError, ShapeError

X = np.arange(120.0).reshape(2, 3, 4, 5)

INDICES = [
    0,
    -1,
    (1, 2),
    (..., 0),
    (slice(None), slice(None), 1),
    (None, ..., None),
    slice(None, None, -1),
    (0, slice(1, None, 2), ...),
    (slice(None), slice(None, None, -2), None, -1),
    slice(5, None),
    (slice(None), slice(-2, None), slice(3, 0, -1)),
    (),
    ...,
    (0, None, 1, ..., 2, None),
    np.int64(1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_brackets_read_what_numpy_reads(index):
    np.testing.assert_array_equal(framework.tensor(X)[index].numpy(), X[index])


@pytest.mark.parametrize("before", [(), (slice(None, None, 2),), (None, slice(None)), (1,)], ids=str)
@pytest.mark.parametrize("indices", [np.array(-1), np.array([1, 0, 0]), np.array([[1, -2], [0, 1]], np.int32)], ids=str)
def test_an_integer_tensor_gathers_on_its_axis(before, indices):
    after = (slice(1, None), None)
    got = framework.tensor(X)[(*before, framework.tensor(indices), *after)]
    np.testing.assert_array_equal(got.numpy(), X[(*before, indices, *after)])


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (2, AttributeValueError, "index 2 is out of range for axis 0 of extent 2"),
        ((0, -4), AttributeValueError, "index -4 is out of range for axis 1 of extent 3"),
        ((0,) * 5, ShapeError, "5 indices for a tensor of 4 axes"),
        ((..., ...), AttributeValueError, "at most one"),
        (1.5, AttributeValueError, "1.5 is no index"),
        (True, AttributeValueError, "True is no index"),
        (slice(None, None, 0), AttributeValueError, "step 0 on axis 0"),
        ((0, [True, False]), NotSupportedError, "bool beside others; a mask stands alone"),
        (([0], [1]), NotSupportedError, "one Tensor at most"),
    ],
)
def test_what_is_no_index_is_refused(index, error, match):
    with pytest.raises(error, match="getitem: .*" + match):
        framework.tensor(X)[index]


def test_brackets_have_gradients():
    check_gradients(lambda x: x[::-2, None, 1] * x[framework.tensor(np.array(1)), 0, None], [X[0] / 60], order=2)


def test_stack_and_unstack_undo_each_other():
    xs = [framework.tensor(X[i]) for i in range(2)]
    for axis in (0, 1, -1):
        stacked = ops.stack(xs, axis=axis)
        np.testing.assert_array_equal(stacked.numpy(), np.stack(list(X), axis))
        for part, x in zip(ops.unstack(stacked, axis=axis), xs, strict=True):
            np.testing.assert_array_equal(part.numpy(), x.numpy())
    check_gradients(lambda a, b: ops.stack([a * b, b], axis=1), [X[0] / 60, X[1] / 60], order=2)
    with pytest.raises(ShapeError, match="stack: there is nothing to join"):
        ops.stack([])
    with pytest.raises(ShapeError, match="unstack: a tensor without axes"):
        ops.unstack(framework.tensor(1.0))


def test_nan_is_above_all_numbers_and_equal_values_keep_their_order():
    x = framework.tensor(np.array([1.0, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, 1.0]))
    assert ops.sort(x)[1].tolist() == [2, 3, 4, 0, 7, 5, 1, 6]
    assert ops.sort(x, descending=True)[1].tolist() == [1, 6, 5, 0, 7, 3, 4, 2]
    assert ops.topk(x, k=4)[1].tolist() == [1, 6, 5, 0]
    assert ops.topk(x, k=4, largest=False)[1].tolist() == [2, 3, 4, 0]


TYPES = [np.float16, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float32, np.float64]


@pytest.mark.parametrize("dtype", TYPES)
def test_elements_of_every_type_are_moved(dtype):
    a = (np.arange(60).reshape(3, 4, 5) % 7).astype(dtype)
    x, i = framework.tensor(a), framework.tensor(np.array([2, 0]))
    moved = {
        "transpose": (ops.transpose(x, perm=(1, 2, 0)), a.transpose(1, 2, 0)),
        "swap": (ops.transpose(x, perm=(0, 2, 1)), a.transpose(0, 2, 1)),
        "concat": (ops.concat([x, x], axis=1), np.concatenate([a, a], 1)),
        "split": (ops.split(x, axis=2, sizes=(2, -1))[1], a[:, :, 2:]),
        "slice": (x[:, ::-2, 1:3], a[:, ::-2, 1:3]),
        "pad": (ops.pad(x, pads=(0, 1, 1, 0, 2, 2), value=1), np.pad(a, ((0, 1), (1, 0), (2, 2)), constant_values=1)),
        "flip": (ops.flip(x), np.flip(a)),
        "tile": (ops.tile(x, repeats=(2, 1, 3)), np.tile(a, (2, 1, 3))),
        "gather": (ops.gather(x, i, axis=1), a[:, [2, 0]]),
        "sort": (ops.sort(x, axis=0)[0], np.sort(a, 0)),
    }
    for name, (got, expected) in moved.items():
        assert got.numpy().dtype == a.dtype, name
        np.testing.assert_array_equal(got.numpy(), expected, err_msg=name)


def test_large_transposes_equal_numpy_for_every_permutation_of_four_axes():
    a = np.random.default_rng(0).standard_normal((3, 37, 18, 65)).astype(np.float32)
    x = framework.tensor(a)
    for perm in itertools.permutations(range(4)):
        np.testing.assert_array_equal(ops.transpose(x, perm=perm).numpy(), a.transpose(perm))
