"""Function: gradients of the user's own, of any order, eagerly and in a Program."""

import gc
import weakref

import numpy as np
import pytest

import framework
from framework import Function, TensorType, gradients, ops, program, py_func
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError, GradientError, ShapeError, UserFunctionError


class Cube(Function):
    """x ** 3 with a backward made of operators, so that it has gradients of any order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        return x * x * x

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved
        return 3.0 * x * x * dy


class Sigmoid(Function):
    """Saves its output; forward and backward are NumPy code."""

    @staticmethod
    def forward(ctx, x):
        y = py_func(lambda a: 1 / (1 + np.exp(-a)), [x], lambda t: t)
        ctx.save(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved
        return py_func(lambda a, b: a * b * (1 - b), [dy, y], lambda a, b: a)


class Split(Function):
    """Two outputs, an argument that is no tensor, and an attribute of the context."""

    @staticmethod
    def forward(ctx, x, factor, unused):
        ctx.factor = factor
        return x * factor, x

    @staticmethod
    def backward(ctx, d_scaled, d_same):
        assert ctx.wants_gradient == (True, False, False)
        return d_scaled * ctx.factor + d_same, None, None


X = np.array([0.5, -1.0, 2.0])


def test_gradients_of_both_orders_equal_central_differences():
    check_gradients(Cube.apply, [X], order=2)


def test_gradients_in_a_program_have_the_same_bits_as_eager():
    def second(x):
        (first,) = gradients([Cube.apply(x).sum()], [x], create_graph=True)
        return first, *gradients([first.sum()], [x])

    x = framework.tensor(X, requires_grad=True)
    for a, b, expected in zip(second(x), program(second)(x), (3 * X**2, 6 * X), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
        np.testing.assert_allclose(a.numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("wrap", [lambda f: f, program], ids=["eager", "program"])
def test_numpy_code_with_a_gradient_trains(wrap):
    weight = framework.tensor(np.array([0.1, -0.2, 0.3], np.float32), requires_grad=True)
    weight.persistable = True

    @wrap
    def step(x, t):
        weight.grad = None
        error = Sigmoid.apply(x * weight) - t
        loss = (error * error).sum()
        loss.backward()
        with framework.no_grad():
            weight.set(weight - weight.grad * 2.0)
        return loss

    x, t = framework.tensor([1.0, 2.0, -1.0]), framework.tensor([0.9, 0.1, 0.5])
    losses = [step(x, t).item() for _ in range(100)]
    assert losses[-1] < 0.01 * losses[0]


def test_several_outputs_and_other_arguments():
    x = framework.tensor(X, requires_grad=True)
    scaled, same = Split.apply(x, 4.0, "text")
    assert same is not x
    (g,) = gradients([(scaled + same).sum()], [x])
    np.testing.assert_array_equal(g.numpy(), np.full(3, 5.0))
    (g,) = gradients([Split.apply(x, 4.0, None)[0].sum()], [x])  # nothing depends on the other: zeros
    np.testing.assert_array_equal(g.numpy(), np.full(3, 4.0))


def test_nothing_is_remembered_without_need():
    assert Cube.apply(framework.tensor(X)).node is None
    with framework.no_grad():
        assert Cube.apply(framework.tensor(X, requires_grad=True)).node is None


def test_a_saved_output_is_freed_with_the_result():
    y = Sigmoid.apply(framework.tensor(X, requires_grad=True))
    gone = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert gone() is None  # no reference cycle keeps it until the collector runs
    finally:
        gc.enable()


def test_a_second_backward_pass_needs_create_graph():
    y = Cube.apply(framework.tensor(X, requires_grad=True)).sum()
    y.backward()
    with pytest.raises(GradientError, match="was freed by an earlier backward"):
        y.backward()


def function(forward=None, backward=None):
    class Custom(Function):
        pass

    Custom.forward = staticmethod(forward or (lambda ctx, x, y: x * y))
    if backward:
        Custom.backward = staticmethod(backward)
    return Custom


@pytest.mark.parametrize(
    ("backward", "error", "message"),
    [
        (lambda ctx, d: d, GradientError, r"Custom.backward \(.*returned 1 gradients; forward takes 2 arguments"),
        (lambda ctx, d: (d, 1.0), GradientError, "returned float as gradient 1; return a Tensor or None"),
        (lambda ctx, d: (d, d.sum()), ShapeError, "float64 of 0 axes as gradient 1 .* float64 of 1 axes"),
        (lambda ctx, d: (d, ops.concat([d, d], axis=0)), ShapeError, r"of an argument .* with shape \[3\]"),
        (lambda ctx, d: d.nonsense, UserFunctionError, r"Custom.backward \(.*\) raised AttributeError"),
        (lambda ctx, d: (ops.reshape(d, shape=(2, 2)), d), ShapeError, r"Custom.backward \(.*reshape: "),
        (None, UserFunctionError, r"raised NotImplementedError: write a static method backward"),
    ],
)
def test_a_wrong_backward_is_refused(backward, error, message):
    x = framework.tensor(X, requires_grad=True)
    with pytest.raises(error, match=message):
        function(backward=backward).apply(x, x).sum().backward()


@pytest.mark.parametrize(
    ("forward", "error", "message"),
    [
        (
            lambda ctx, x, y: x.numpy(),
            UserFunctionError,
            r"Custom.forward \(.*returned ndarray; it must return a Tensor",
        ),
        (lambda ctx, x, y: 1 / 0, UserFunctionError, r"Custom.forward \(.*raised ZeroDivisionError"),
        (lambda ctx, x, y: ctx.save(1), AttributeValueError, "save: takes tensors, not int"),
    ],
)
def test_a_wrong_forward_is_refused(forward, error, message):
    with pytest.raises(error, match=message) as caught:
        function(forward).apply(framework.tensor(X), None)
    assert error is not UserFunctionError or "returned" in message or caught.value.__cause__ is not None


def test_a_type_rule_may_name_a_fixed_type():
    y = py_func(lambda a: np.float32(a.max()), [X], TensorType((), "float32"))
    assert y.item() == 2.0
