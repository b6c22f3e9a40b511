"""pixel_shuffle and pixel_unshuffle against their formula."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import normal


def shuffled(x, r):
    n, h, w, c = x.shape
    y = np.zeros((n, h * r, w * r, c // (r * r)))
    for i, j, k in np.ndindex(r, r, y.shape[3]):
        y[:, i::r, j::r, k] = x[..., k * r * r + i * r + j]
    return y


@pytest.mark.parametrize(("shape", "r"), [((2, 3, 4, 8), 2), ((1, 2, 1, 18), 3), ((1, 3, 2, 5), 1), ((0, 2, 2, 4), 2)])
def test_shuffle_is_its_formula_and_unshuffle_undoes_it(shape, r):
    x = normal(*shape)
    y = ops.pixel_shuffle(framework.tensor(x), r)
    np.testing.assert_array_equal(y.numpy(), shuffled(x, r))
    np.testing.assert_array_equal(ops.pixel_unshuffle(y, r).numpy(), x)
    if x.size:
        check_gradients(lambda t: ops.pixel_shuffle(t, r), [x], order=2)


def test_one_trace_serves_other_image_sizes():
    program = framework.program(lambda x: ops.pixel_unshuffle(ops.pixel_shuffle(x, 2), 2))
    for shape in ((1, 2, 3, 4), (2, 5, 1, 4)):
        x = normal(*shape)
        np.testing.assert_array_equal(program(framework.tensor(x)).numpy(), x)
    assert program.traces_made == 1


@pytest.mark.parametrize(("function", "shape", "r", "error", "message"), [
    (ops.pixel_shuffle, (1, 2, 2, 6), 2, ShapeError, "6 channels .* no multiple of factor.2 = 4"),
    (ops.pixel_shuffle, (2, 2, 4), 2, ShapeError, "x has 3 axes but must have 4"),
    (ops.pixel_shuffle, (1, 2, 2, 4), 0, AttributeValueError, "factor is 0 but must be at least 1"),
    (ops.pixel_unshuffle, (1, 3, 2, 1), 2, ShapeError, "height 3, which is no multiple of factor 2"),
    (ops.pixel_unshuffle, (1, 2, 3, 1), 2, ShapeError, "width 3, which is no multiple of factor 2"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(function, shape, r, error, message):
    with pytest.raises(error, match=message):
        function(framework.tensor(normal(*shape)), r)
