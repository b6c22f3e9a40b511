"""nonzero and unique eagerly, with a size, and in Programs."""

import ml_dtypes
import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import AttributeValueError, NotSupportedError
from tests.framework.ops.harness import integers, normal

SPARSE = np.where(normal(4, 5) > 0.3, normal(4, 5, seed=1), 0.0)


@pytest.mark.parametrize("x", [SPARSE, SPARSE > 0, np.zeros((2, 3)), np.zeros((0, 2)), np.array(1.0),
                               SPARSE.astype(ml_dtypes.bfloat16)], ids=str)  # fmt: skip
def test_nonzero_is_numpy_s_argwhere(x):
    np.testing.assert_array_equal(ops.nonzero(framework.tensor(x)).numpy(), np.argwhere(x))


@pytest.mark.parametrize("x", [integers(-3, 4, 3, 7), normal(9), np.array([np.nan, 1.0, np.nan, -0.0, 0.0]),
                               np.zeros(0), np.array(3)], ids=str)  # fmt: skip
def test_unique_is_numpy_s(x):
    got = ops.unique(framework.tensor(x))
    expected = np.unique(x, return_inverse=True, return_counts=True)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(g.numpy(), np.asarray(e).reshape(g.shape))


def test_the_inverse_puts_the_values_back():
    x = framework.tensor(integers(0, 5, 4, 6))
    values, inverse, counts = ops.unique(x)
    np.testing.assert_array_equal(ops.gather(values, inverse).numpy(), x.numpy())
    assert int(counts.sum()) == 24


def test_a_program_needs_a_size_and_fills_or_cuts_to_it():
    @framework.program
    def found(x):
        return ops.nonzero(x, size=3, fill=-1), *ops.unique(x, size=3, fill=9.0)

    few, many = (framework.tensor(np.array(x, np.float32)) for x in ([0, 2, 0], [5, 4, 3, 2, 1]))
    places, values, inverse, counts = (t.tolist() for t in found(few))
    assert (places, values, inverse, counts) == ([[1], [-1], [-1]], [0, 2, 9], [0, 1, 0], [2, 1, 0])
    places, values, inverse, counts = (t.tolist() for t in found(many))
    assert (places, values, inverse, counts) == ([[0], [1], [2]], [1, 2, 3], [3, 3, 2, 1, 0], [1, 1, 1])
    for function in (ops.nonzero, ops.unique):
        with pytest.raises(NotSupportedError, match=f"{function.__name__}: how much there is depends on the data"):
            framework.program(function)(few)


def test_a_cut_value_s_inverse_is_refused_by_gather():
    values, inverse, _ = ops.unique(framework.tensor(np.array([1, 2, 3])), size=2)
    with pytest.raises(AttributeValueError, match=r"indices\[2\] is 2 but the axis has 2"):
        ops.gather(values, inverse)
