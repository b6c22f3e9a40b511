"""Pooling of values that are not numbers or not finite."""

import numpy as np

import framework
from framework import ops


def test_a_nan_in_a_window_is_not_lost():
    x = np.arange(32.0).reshape(1, 4, 4, 2)
    x[0, 1, 2, 0] = np.nan
    y = ops.max_pool2d(framework.tensor(x), kernel=2).numpy()
    assert np.isnan(y[0, 0, 1, 0]) and np.isnan(y).sum() == 1


def test_a_window_of_minus_infinities_gives_minus_infinity_and_its_gradient_to_the_first():
    x = framework.tensor(np.full((1, 2, 2, 1), -np.inf), requires_grad=True)
    y = ops.max_pool2d(x, kernel=2)
    y.backward()
    assert y.numpy().item() == -np.inf
    assert x.grad.numpy().ravel().tolist() == [1, 0, 0, 0]
