"""nn.unit: vectors of length 1, and of nearly nothing."""

import numpy as np

import framework
from framework import nn


def test_vectors_have_length_one_and_none_becomes_nan():
    x = np.array([[3.0, 4.0], [1e-9, 0.0], [0.0, 0.0]], np.float32)
    y = nn.unit(framework.tensor(x)).numpy()
    np.testing.assert_allclose(y, [[0.6, 0.8], [1e-3, 0.0], [0.0, 0.0]], rtol=4 * np.finfo(np.float32).eps)
