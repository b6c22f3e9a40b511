"""framework/autograd/check.py: finds a gradient that is slightly wrong, of either order, and a kink."""

import re
from pathlib import Path

import numpy as np
import pytest

from framework import ops
from framework.autograd.check import check_gradients
from framework.autograd.rule_table import RULES
from framework.errors import GradientError
from framework.ops import internal

X = np.random.default_rng(0).standard_normal((3, 4))


@pytest.fixture
def with_rule(monkeypatch):
    """Replaces an operator's formula for the time of a test."""

    def replace(name, formula):
        inputs, _, needs = RULES.rules[name].formulas[0]
        monkeypatch.setattr(RULES.rules[name], "formulas", [(inputs, formula, needs)])

    return replace


def test_right_gradients_pass():
    check_gradients(lambda x, y: (ops.exp(x * y), ops.sum(ops.tanh(x), axes=(0,))), [X, X.T.reshape(3, 4)], order=2)


def test_a_first_derivative_that_is_wrong_in_the_seventh_digit_is_found(with_rule):
    with_rule("tanh", lambda dy, y: internal.tanh_grad(dy, y) * (1.0 + 1e-7))
    with pytest.raises(AssertionError, match=r"gradient .* but central difference"):
        check_gradients(ops.tanh, [X])


def test_a_second_derivative_that_is_wrong_is_found(with_rule):
    with_rule("tanh", lambda dy, y: internal.tanh_grad(dy, y.detach()))  # the first derivative is right
    check_gradients(ops.tanh, [X])
    with pytest.raises(AssertionError, match=r"gradient .* but central difference"):
        check_gradients(ops.tanh, [X], order=2)


def test_a_gradient_by_one_of_several_inputs_is_found_beside_larger_ones():
    with pytest.raises(AssertionError, match=r"gradient .* but central difference"):
        check_gradients(lambda x, y: 1e6 * ops.exp(x) + y.detach(), [X, X])


def test_a_kink_is_refused():
    at_zero = X.copy()
    at_zero[1, 1] = 1e-6
    with pytest.raises(AssertionError, match=r"a kink is within 1\.2e-05"):
        check_gradients(ops.relu, [at_zero])


def test_an_operator_with_a_gradient_of_first_order_only_says_so(monkeypatch):
    monkeypatch.setitem(RULES.first_order_only, "tanh_grad", "the test says so")
    check_gradients(ops.tanh, [X])
    with pytest.raises(GradientError, match="tanh_grad: there is no gradient of this gradient: the test says so"):
        check_gradients(ops.tanh, [X], order=2)


def test_the_example_of_the_documentation_runs():
    text = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "testing.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(source, "docs/explanation/testing.md", "exec"), {})
