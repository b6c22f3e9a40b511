"""x[index] = value: as in NumPy, eagerly and in Programs, with gradients."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import GradientError, NotSupportedError, ShapeError, TraceError

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INDEXES = [
    (0, 5.0),
    ((1, 2), -1.0),
    ((slice(None), 1), np.array([1, 2, 3, 4], np.float32)),
    ((Ellipsis, slice(1, 3)), 7),
    ((slice(None), slice(None, None, -2), 0), np.array([[1.0], [2.0]], np.float32)),
    ((0, None, -1), np.ones((1, 4), np.float32)),
    ((slice(None), np.array([2, 0])), 9.0),
    (slice(0, 0), 3.0),
]


@pytest.mark.parametrize(("index", "value"), INDEXES, ids=str)
def test_assignment_is_numpys(index, value):
    expected = A.copy()
    expected[index] = value
    x = framework.tensor(A)
    x[index] = value
    np.testing.assert_array_equal(x.numpy(), expected)

    @framework.program
    def f(x):
        y = x * 1.0
        y[index] = value
        return y

    np.testing.assert_array_equal(f(A).numpy(), expected)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)], ids=str)
def test_assignment_to_a_part_of_nothing_is_numpys(shape):
    x = framework.tensor(np.zeros(shape, np.float32))
    for index in (slice(0, 1), Ellipsis, (Ellipsis, slice(0, 2)), np.zeros(shape) == 0):
        x[index] = 1
    assert x.shape == shape and np.array_equal(framework.program(lambda x: assigned(x * 1.0))(x).numpy(), x.numpy())
    with pytest.raises(ShapeError, match="broadcast"):
        x[...] = np.zeros(7, np.float32)


def assigned(x):
    x[0:1] = 1
    return x


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 4)], ids=str)
def test_a_mask_picks_and_assigns_as_in_numpy(shape):
    mask = np.random.default_rng(0).random(shape) < 0.5
    for index in (mask, framework.tensor(mask)):
        x = framework.tensor(A)
        np.testing.assert_array_equal(x[index].numpy(), A[mask])
        x[index] = -1.0
        expected = A.copy()
        expected[mask] = -1.0
        np.testing.assert_array_equal(x.numpy(), expected)
        x[index] = -A[mask]  # a value for each place
        expected[mask] = -A[mask]
        np.testing.assert_array_equal(x.numpy(), expected)


def test_a_mask_assigns_in_a_program_and_does_not_pick_there():
    mask = A > 7

    @framework.program
    def f(x, mask):
        y = x * 1.0
        y[mask] = 0.0
        return y

    np.testing.assert_array_equal(f(A, mask).numpy(), np.where(mask, 0, A))
    with pytest.raises(NotSupportedError, match=r"getitem: a mask gives a shape that depends on data"):
        framework.program(lambda x, m: x[m])(A, mask)


def test_gradients_flow_to_what_stays_and_to_the_value():
    x, v = framework.tensor(A, requires_grad=True), framework.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1.0
    y[:, 0, 0] = v
    (y * y).sum().backward()
    expected = 2 * A
    expected[:, 0, 0] = 0
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    np.testing.assert_array_equal(v.grad.numpy(), [4.0, 6.0])


def test_the_gradient_of_a_masked_pick_goes_back_to_its_places():
    x = framework.tensor(A, requires_grad=True)
    x[framework.tensor(A > 20)].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), (A > 20).astype(np.float32))


def test_what_was_made_before_keeps_its_value_and_its_gradient():
    x = framework.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1.0
    z = y * y
    y[0] = 10.0
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


def test_a_leaf_is_assigned_to_in_no_grad_only():
    w = framework.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"assign: this tensor is a leaf .* no_grad"):
        w[0] = 5.0
    with framework.no_grad():
        w[0] = 5.0
    assert w.tolist() == [5.0, 2.0] and w.requires_grad and w.node is None


def test_a_state_is_updated_in_a_program():
    seen = framework.tensor(np.zeros(4, np.float32))
    seen.persistable = True

    @framework.program
    def mark(i):
        seen[1:3] = i
        return ops.sum(seen)

    assert mark(framework.tensor(2.0)).item() == 4.0
    assert seen.tolist() == [0.0, 2.0, 2.0, 0.0]


def test_types_follow_the_tensor_assigned_to():
    x = framework.tensor([1, 2, 3])
    x[1] = 2.9
    assert x.dtype == "int64" and x.tolist() == [1, 2, 3]


def test_what_does_not_fit_is_refused():
    x = framework.tensor(A)
    with pytest.raises(ShapeError):
        x[0] = np.ones((5, 4), np.float32)
    with pytest.raises(ShapeError, match=r"a mask of shape \[3\] does not fit"):
        x[np.array([True, False, True])] = 0.0
    np.testing.assert_array_equal(x.numpy(), A)


def test_a_tensor_from_outside_of_a_program_is_an_error_to_use_after_it_was_assigned_to():
    outside = framework.zeros(2)

    @framework.program
    def f(x):
        outside[0] = x
        return outside * 1.0

    assert f(framework.tensor(3.0)).tolist() == [3.0, 0.0]
    with pytest.raises(TraceError, match="no longer traced"):
        outside + 1.0
