"""Tensors: to and from NumPy and DLPack without copies, numbers as operands, clear errors."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import DTypeError, GradientError, ShapeError


def test_tensor_copies_and_from_numpy_shares():
    a = np.zeros(4, dtype=np.float32)
    copied, shared = framework.tensor(a), framework.from_numpy(a)
    a[0] = 7
    assert copied.numpy()[0] == 0 and shared.numpy()[0] == 7
    shared.numpy()[1] = 5
    assert a[1] == 5


def test_from_numpy_copies_what_it_cannot_share():
    a = np.arange(6.0).reshape(2, 3)
    for other in (a.T, a[:, ::2]):
        t = framework.from_numpy(other)
        np.testing.assert_array_equal(t.numpy(), other)
    a.flags.writeable = False
    assert framework.from_numpy(a).numpy().flags.writeable


def test_the_array_outlives_whoever_made_it():
    view = framework.tensor(np.arange(100_000.0)).numpy()
    np.testing.assert_array_equal(view, np.arange(100_000.0))
    t = framework.from_numpy(np.arange(100_000.0))
    np.testing.assert_array_equal(ops.copy(t).numpy(), np.arange(100_000.0))


def test_dlpack_shares_memory_both_ways():
    t = framework.tensor(np.arange(6, dtype=np.int32).reshape(2, 3))
    view = np.from_dlpack(t)
    view[0, 0] = 9
    assert t.numpy()[0, 0] == 9
    back = framework.from_dlpack(view)
    assert back.dtype == "int32" and back.shape == (2, 3)
    back.numpy()[1, 1] = 8
    assert t.numpy()[1, 1] == 8


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_every_numpy_type_comes_back_as_it_went_in(dtype):
    a = np.array([[0, 1], [1, 0]]).astype(dtype)
    t = framework.tensor(a)
    assert t.dtype == dtype and t.numpy().dtype == a.dtype
    np.testing.assert_array_equal(t.numpy(), a)


def test_types_that_the_core_lacks_are_refused_by_name():
    with pytest.raises(DTypeError, match="complex128 is not a type of the core; it has float32"):
        framework.tensor(np.zeros(2, dtype=complex))
    with pytest.raises(DTypeError, match="'float12' is not a type of the core"):
        framework.tensor([1.0], "float12")


def test_python_numbers_take_the_tensors_type():
    x = framework.tensor(np.ones(2, dtype=np.float64))
    assert (x + 1).dtype == "float64" and (2.5 * x).dtype == "float64"
    with pytest.raises(DTypeError, match=r"a Python float \(0.5\) does not fit a tensor of int64"):
        framework.tensor([1, 2]) * 0.5


def test_mixed_types_are_refused_by_name():
    with pytest.raises(DTypeError, match="add: b is float64 but a is float32; cast one"):
        framework.tensor([1.0]) + framework.tensor([1.0], "float64")


def test_item_and_len_refuse_what_they_cannot_answer():
    with pytest.raises(ShapeError, match=r"item: the tensor has shape \[2\]"):
        framework.tensor([1.0, 2.0]).item()
    with pytest.raises(ShapeError, match="len: a tensor without axes"):
        len(framework.tensor(1.0))


def test_set_replaces_the_value_and_keeps_shape_and_type():
    x = framework.tensor([1.0, 2.0])
    new = framework.tensor([3.0, 4.0])
    x.set(new)
    new.numpy()[0] = 99
    assert x.tolist() == [3.0, 4.0]
    with pytest.raises(ShapeError, match="cannot replace"):
        x.set(framework.tensor([1.0]))


def test_backward_explains_itself():
    x = framework.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="does not depend on anything"):
        framework.tensor([1.0]).backward()
    with pytest.raises(GradientError, match="only a scalar"):
        (x * 2.0).backward()
    y = ops.sum(x * x)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(GradientError, match="was freed by an earlier backward"):
        y.backward()


def test_gradients_reach_a_result_in_the_middle_and_stop_there():
    x = framework.tensor([2.0, -1.0], requires_grad=True)
    y = x * x
    to_y, to_x, to_y_again = framework.gradients([ops.sum(y * y) + ops.sum(x)], [y, x, y])
    np.testing.assert_array_equal(to_y.numpy(), [8.0, 2.0])
    np.testing.assert_array_equal(to_y_again.numpy(), [8.0, 2.0])
    np.testing.assert_array_equal(to_x.numpy(), [1.0, 1.0])  # not through y


def test_gradients_add_up_over_uses_and_calls():
    x = framework.tensor([2.0], requires_grad=True)
    ops.sum(x * x + x).backward()
    ops.sum(x * 3.0).backward()
    assert x.grad.tolist() == [8.0]


def test_no_grad_leaves_no_history():
    x = framework.tensor([2.0], requires_grad=True)
    with framework.no_grad():
        assert not (x * x).requires_grad
    assert (x * x).requires_grad


def test_a_gradient_penalty_can_be_trained():
    x = framework.tensor([0.5, -1.0], requires_grad=True)
    (g,) = framework.gradients([ops.sum(x * x * x)], [x], create_graph=True)
    ops.sum(g * g).backward()
    # d/dx (3x^2)^2 = 36 x^3
    np.testing.assert_allclose(x.grad.numpy(), 36 * np.array([0.5, -1.0]) ** 3, rtol=1e-6)
