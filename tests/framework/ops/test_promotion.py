"""Arithmetic of tensors of two types: one table, eagerly and in Programs, with gradients."""

import itertools
import operator

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import DTypeError, ShapeError
from framework.ops.promotion import result_type

INTEGERS = ("int8", "uint8", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
OPERATORS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
PAIRS = list(itertools.product(INTEGERS, INTEGERS))


def of(values, dtype):
    return framework.tensor(np.array(values, np.int64)).astype(dtype)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize("operation", OPERATORS, ids=lambda f: f.__name__)
def test_integers_of_two_types_compute_as_in_numpy(operation, a, b):
    x, y = [1, 7, 100, 127], [3, 2, 100, 5]
    found = operation(of(x, a), of(y, b))
    expected = operation(np.array(x, a), np.array(y, b))
    assert found.dtype == ("int32" if expected.dtype == np.int16 else expected.dtype.name)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("integer", ("bool", *INTEGERS))
@pytest.mark.parametrize("float_type", FLOATS)
def test_an_integer_beside_a_float_takes_the_floats_type(integer, float_type):
    x, y = of([0, 1, 1], integer), of([3, 4, 5], float_type)
    assert [(x + y).dtype, (y * x).dtype, (x < y).dtype] == [float_type, float_type, "bool"]
    np.testing.assert_array_equal((x + y).tolist(), [3, 5, 6])  # exact in every float type


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(FLOATS, 2)))
def test_two_float_types_meet_in_one_that_holds_both(a, b):
    expected = "float64" if "float64" in (a, b) else "float32"
    assert (of([1], a) + of([2], b)).dtype == result_type(a, b) == expected


@pytest.mark.parametrize("dtype", INTEGERS)
def test_true_division_of_integers_gives_float32(dtype):
    quotient = of([7, 1], dtype) / of([2, 4], dtype)
    assert quotient.dtype == "float32" and quotient.tolist() == [3.5, 0.25]


def test_python_numbers_have_no_type_of_their_own():
    counts, flags = framework.tensor([1, 2]), framework.tensor([True, False])
    assert (counts * 2.5).dtype == "float32" and (counts * 2.5).tolist() == [2.5, 5.0]
    assert (2 * of([1, 2], "uint8")).dtype == "uint8" and (flags + 1).dtype == "int64"
    assert (flags * 0.5).tolist() == [0.5, 0.0]
    assert ops.where(flags, 1, 2.5).dtype == "float32"


def test_eight_bits_wrap_as_in_numpy():
    assert (of([250], "uint8") + 10).tolist() == [4]
    assert (of([100], "int8") * of([2], "int8")).tolist() == [-56]


def test_bools_have_no_arithmetic_among_themselves():
    flags = framework.tensor([True, False])
    for operation in (operator.add, operator.sub, operator.mul, operator.truediv):
        with pytest.raises(DTypeError, match="a is bool but must be"):
            operation(flags, flags)


def test_a_program_promotes_as_eager_does():
    def f(x, n, flag):
        return x * n + flag, n / 2, n // 2

    args = framework.tensor([1.5, 2.5]), framework.tensor([3, 4]), framework.tensor([True, False])
    for found, expected in zip(framework.program(f)(*args), f(*args), strict=True):
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_the_gradient_goes_to_the_float_in_its_own_type():
    x = framework.tensor([1.5, 2.0], requires_grad=True)
    weight = of([1, 3], "bfloat16")
    weight.requires_grad = True
    (x * framework.tensor([2, 3]) * weight).sum().backward()
    assert x.grad.tolist() == [2.0, 9.0] and weight.grad.tolist() == [3.0, 6.0]
    assert (x.grad.dtype, weight.grad.dtype) == ("float32", "bfloat16")


def test_shapes_that_do_not_fit_are_still_refused():
    with pytest.raises(ShapeError, match="do not broadcast"):
        framework.tensor([1, 2]) + framework.tensor([1.0, 2.0, 3.0])
