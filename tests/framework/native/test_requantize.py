"""Sums of 8-bit convolutions and their scaling by whole numbers: the definition's bits on every instruction set."""

import numpy as np
import pytest

from framework import _core
from framework.ops import internal
from tests.framework.native.test_int8_products import WAYS, instruction_set
from tests.framework.ops.specs.quantized_conv import requantized, sums_of


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
@pytest.mark.parametrize("groups", [1, 35], ids=["dense", "depthwise"])
def test_sums_are_exact(isa, algorithm, groups):
    rng = np.random.default_rng(groups)
    x = rng.integers(-128, 128, (2, 9, 8, 35)).astype(np.int8)
    weight = rng.integers(-128, 128, (35, 3, 3, 35 // groups)).astype(np.int8)
    with instruction_set(isa):
        found = internal.quantized_conv2d(
            x, weight, np.ones(35, np.float32), stride=2, padding=1, groups=groups, x_zero=-9, dtype="int32",
            algorithm=algorithm,
        ).numpy()  # fmt: skip
    np.testing.assert_array_equal(found, sums_of(x, weight, -9, 2, 1, 1, groups))


@pytest.mark.parametrize("isa", _core.supported_isas())
def test_scaled_sums_have_the_bits_of_the_definition(isa):
    rng = np.random.default_rng(3)
    for scale in (0.5, 0.25, 1.0, 2.0**-20, 0.75, *rng.uniform(1e-6, 0.1, 4)):
        x = rng.integers(-(2**24), 2**24, (5, 37)).astype(np.int32)
        x[0, :9] = (-5, -4, -3, -2, -1, 0, 1, 2, 3)
        bias, factors = rng.integers(-999, 999, 37).astype(np.int32), np.full(37, scale)
        with instruction_set(isa):
            found = internal.requantize(x, factors, bias, y_zero=4, low=-90, high=100).numpy()
        np.testing.assert_array_equal(found, requantized(x, factors, bias, 4, -90, 100, "int8"))
