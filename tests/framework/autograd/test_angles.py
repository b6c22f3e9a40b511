"""The slope of an angle, also where there is none."""

import numpy as np

from framework import ops, tensor


def test_atan2_has_the_gradient_0_at_the_origin():
    a, b = tensor([0.0, 1.0, 0.0]), tensor([0.0, 0.0, 2.0])
    a.requires_grad = b.requires_grad = True
    ops.sum(ops.atan2(a, b)).backward()
    np.testing.assert_array_equal(a.grad.numpy(), [0, 0, 0.5])
    np.testing.assert_array_equal(b.grad.numpy(), [0, -1, 0])
