"""Numbers below 2^-126: exact unless they are asked to be zero, and then in every thread and nowhere else."""

import platform

import numpy as np
import pytest

import framework
from framework import ops, program

SMALL = np.float32(1e-30)
N = 1_000_000  # elements that threads share out

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="this processor's switch is not known here"
)


@pytest.fixture(autouse=True)
def restore_threads():
    before = framework.num_threads()
    yield
    framework.set_num_threads(before)


def products(factor):
    x = framework.tensor(np.full(N, SMALL))
    yield ops.mul(x, np.float32(factor)).numpy()
    yield program(lambda x: ops.mul(x, np.float32(factor)))(x).numpy()


@pytest.mark.parametrize("threads", [1, 2])
def test_results_and_operands_are_zero_where_that_is_asked_for(threads):
    framework.set_num_threads(threads)
    framework.set_flush_subnormals(True)
    for y in products(1e-10):
        assert (y == 0).all()
    assert (ops.mul(framework.tensor(np.full(N, 1e-40, np.float32)), np.float32(1e30)).numpy() == 0).all()
    for y in products(1e-7):  # 1e-37 is normal
        np.testing.assert_array_equal(y, SMALL * np.float32(1e-7))


@pytest.mark.parametrize("threads", [1, 2])
def test_they_are_exact_otherwise_and_outside_of_kernels(threads):
    framework.set_num_threads(threads)
    framework.set_flush_subnormals(True)
    list(products(1e-10))
    assert SMALL * np.float32(1e-10) > 0  # this thread's own arithmetic
    framework.set_flush_subnormals(False)
    for y in products(1e-10):
        np.testing.assert_array_equal(y, SMALL * np.float32(1e-10))
        assert (y > 0).all()
