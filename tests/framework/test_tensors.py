"""Tensors: to and from NumPy and DLPack without copies, numbers as operands, clear errors."""

import ml_dtypes
import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, DTypeError, GradientError, ShapeError


def test_tensor_copies_and_from_numpy_shares():
    a = np.zeros(4, dtype=np.float32)
    copied, shared = framework.tensor(a), framework.from_numpy(a)
    a[0] = 7
    assert copied.numpy()[0] == 0 and shared.numpy()[0] == 7
    shared.numpy()[1] = 5
    assert a[1] == 5


def test_an_array_that_is_not_aligned_is_copied():
    data = bytearray(b"x" + np.arange(5, dtype=np.float32).tobytes())
    array = np.frombuffer(data, np.float32, offset=1)
    assert array.flags.writeable and not array.flags.aligned
    for make in (framework.from_numpy, framework.from_dlpack):
        t = make(array)
        assert t.array().address % 4 == 0 and (t * 2.0).numpy().tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


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
    assert (framework.tensor([1, 2]) + 1).dtype == "int64"


def test_python_ints_are_exact_beside_int64():
    x = framework.tensor([2**53, 2**53 + 1])
    assert (x == 2**53 + 1).tolist() == [False, True]
    assert (x + 1).tolist() == [2**53 + 1, 2**53 + 2]
    assert (framework.tensor([2**63 - 1]) == 2**63 - 1).tolist() == [True]


def test_a_python_int_that_a_type_cannot_hold_is_refused():
    for dtype, number in (("uint8", 256), ("uint8", -1), ("int32", 2**31), ("int64", 2**63)):
        with pytest.raises(DTypeError, match=f"the Python int {number} does not fit a tensor of {dtype}"):
            framework.tensor([1], dtype) + number


def test_zero_and_minus_zero_stay_apart():
    x = framework.tensor([1.0])
    assert np.signbit((x * -0.0).numpy()[0]) and not np.signbit((x * 0.0).numpy()[0])


def test_bfloat16_shows_its_values_and_not_its_bits():
    t = framework.tensor([1.0, -2.5], "bfloat16")
    assert repr(t) == "Tensor([ 1.  -2.5], dtype=bfloat16)" and t.tolist() == [1.0, -2.5]
    assert np.asarray(t).dtype == ml_dtypes.bfloat16 and np.asarray(t, np.float32).tolist() == [1.0, -2.5]


def test_bfloat16_goes_to_numpy_and_back_on_the_same_memory():
    t = framework.tensor([1.0, 2.0], "bfloat16")
    back = framework.from_numpy(t.numpy())
    back.numpy()[0] = 7
    assert back.dtype == "bfloat16" and t.tolist() == [7.0, 2.0]
    assert framework.tensor(t.numpy()).dtype == "bfloat16"


def test_products_of_mixed_types_are_refused_by_name():
    with pytest.raises(DTypeError, match="matmul: b is float64 but a is float32; cast one"):
        framework.tensor([[1.0]]) @ framework.tensor([[1.0]], "float64")


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


def test_a_gradient_is_that_of_the_values_before_set():
    x, w = framework.tensor([2.0], requires_grad=True), framework.tensor([3.0], requires_grad=True)
    y = x * w
    w.set(framework.tensor([100.0]))
    y.backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([3.0], [2.0])


def test_a_second_derivative_is_that_of_the_values_before_set():
    x, w = framework.tensor([2.0], requires_grad=True), framework.tensor([3.0], requires_grad=True)
    y = x * x * w
    w.set(framework.tensor([100.0]))
    (dx,) = framework.gradients([y], [x], create_graph=True)  # 2 x w
    to_w, to_x = framework.gradients([dx], [w, x])
    assert (dx.tolist(), to_w.tolist(), to_x.tolist()) == ([12.0], [4.0], [6.0])


def test_no_two_leaves_share_the_memory_of_a_gradient():
    a, b = (framework.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    given = framework.tensor([1.0, 1.0])
    (a + b).backward(given)
    a.grad.numpy()[0] = 99
    assert b.grad.tolist() == [1.0, 1.0] and given.tolist() == [1.0, 1.0]


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


@pytest.mark.parametrize("name", ("sum", "mean", "max", "min"))
def test_axis_is_another_name_of_axes(name):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = getattr(np, name)(x, axis=1, keepdims=True)
    for found in (
        getattr(framework.tensor(x), name)(axis=1, keepdims=True),
        getattr(framework.ops, name)(x, axis=1, keepdims=True),
        getattr(framework.ops, name)(x, axes=1, keepdims=True),
    ):
        np.testing.assert_array_equal(found.numpy(), expected)
    with pytest.raises(AttributeValueError, match=rf"{name}: axes=0 and axis=1 are both given"):
        getattr(framework.tensor(x), name)(0, axis=1)


def test_bools_have_exclusive_or():
    a, b = framework.tensor([True, True, False]), framework.tensor([True, False, False])
    assert (a ^ b).tolist() == [False, True, False]


def test_what_an_operator_returns_has_every_attribute_that_the_constructor_sets():
    """`dispatch.apply` sets them itself, to save the constructor's call."""
    made = ops.neg(framework.tensor([1.0, 2.0]))
    plain = framework.Tensor(made._data)
    names = set(vars(plain)) if hasattr(plain, "__dict__") else set()
    names |= {name for kind in type(plain).__mro__ for name in getattr(kind, "__slots__", ()) if name != "__weakref__"}
    assert names and all(getattr(made, name) is getattr(plain, name) for name in names)


@pytest.mark.parametrize("other", [np.int64(3), np.float32(3), np.array([3, 4]), np.array(3)], ids=repr)
def test_numpys_numbers_and_arrays_are_compared_element_by_element(other):
    t = framework.tensor([3, 5])
    expected = np.array([3, 5]) == other
    assert (t == other).tolist() == expected.tolist() and (t != other).tolist() == (~expected).tolist()
    assert framework.program(lambda x: x == other)(t).tolist() == expected.tolist()
    assert (t == "3") is False and (t != None) is True  # noqa: E711


def test_no_two_gradients_of_one_call_share_memory():
    a, b = (framework.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    da, db = framework.gradients([a + b], [a, b], [framework.tensor([1.0, 1.0])])
    da.numpy()[0] = 9.0
    assert db.tolist() == [1.0, 1.0]


def test_whole_numbers_that_were_made_to_require_a_gradient_are_refused_with_it():
    t = framework.tensor([1, 2])
    t.requires_grad = True
    with pytest.raises(GradientError, match="a tensor of type int64 has requires_grad set"):
        t.backward(framework.tensor([1, 1]))
    with pytest.raises(AttributeValueError, match="the type is int64; what is trained has a floating-point type"):
        nn.parameter(np.array([1, 2]))
