"""Every way a matrix product is computed, by random shapes against float64: few rows, small ones in batches, deep sums,
large ones; with epilogues, on every instruction set, and with the same bits on one thread and two."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.ops import internal

EPS = np.finfo(np.float32).eps
# (rows, columns, depth) of each way: vectors, one block of one thread, long sums of few elements, by rows, by blocks.
WAYS = {
    "few rows": [(1, 64, 1), (2, 700, 130), (3, 1100, 600), (4, 65, 3000), (4, 2100, 129)],
    "small": [(5, 7, 3), (33, 70, 256), (64, 64, 64), (1, 63, 200), (97, 17, 31)],
    "deep": [(9, 20, 2500), (40, 33, 4000)],
    "large": [(150, 210, 300), (7, 900, 700)],
    "weight gradients of a batch": [(80, 200, 512), (200, 445, 512), (100, 33, 1030)],
}


def operands(rng, m, n, k, ta, tb, batch=()):
    a = rng.standard_normal((*batch, k, m) if ta else (*batch, m, k), np.float32)
    b = rng.standard_normal((*batch, n, k) if tb else (*batch, k, n), np.float32)
    return a, b


def product64(a, b, ta, tb):
    a, b = (np.swapaxes(x, -1, -2).astype(np.float64) if t else x.astype(np.float64) for x, t in ((a, ta), (b, tb)))
    return a @ b


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_shapes(isa, way, ta, tb):
    rng = np.random.default_rng(0)
    for m, n, k in WAYS[way]:
        a, b = operands(rng, m, n, k, ta, tb)
        bias, residual = rng.standard_normal(n, np.float32), rng.standard_normal((m, n), np.float32)
        exact = product64(a, b, ta, tb) + bias + residual
        how = {"transpose_a": ta, "transpose_b": tb}
        got = ops.matmul(a, b, bias, residual, **how).numpy()
        # k products and sums of terms around 1, in any order: far fewer roundings than k of the largest partial sum.
        bound = EPS * (np.sqrt(k) + 4) * 4 * np.sqrt(k + 2)
        np.testing.assert_allclose(got, exact, rtol=0, atol=bound, err_msg=str((m, n, k)))
        gelu = ops.matmul(a, b, bias, residual, activation="gelu", **how)
        alone = ops.gelu(got).numpy()
        assert gelu.numpy().tobytes() == alone.tobytes()
        slope = internal.gelu_grad(ops.matmul(a, b, **how), residual).numpy()
        assert internal.matmul_activation_grad(a, b, residual, **how).numpy().tobytes() == slope.tobytes()


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_batches_of_small_products(isa, ta, tb):
    rng = np.random.default_rng(1)
    for m, n, k in [(24, 24, 32), (5, 100, 64), (3, 65, 7), (128, 300, 16)]:
        a, b = operands(rng, m, n, k, ta, tb, batch=(9,))
        residual = rng.standard_normal((9, m, n), np.float32)
        how = {"transpose_a": ta, "transpose_b": tb}
        got = ops.matmul(a, b, None, residual, **how).numpy()
        bound = EPS * (np.sqrt(k) + 4) * 4 * np.sqrt(k + 2)
        np.testing.assert_allclose(got, product64(a, b, ta, tb) + residual, rtol=0, atol=bound)
        tanh = ops.matmul(a, b, None, residual, activation="tanh", **how).numpy()
        assert tanh.tobytes() == ops.tanh(got).numpy().tobytes()
        shared = ops.matmul(a, b[0], **how).numpy()
        np.testing.assert_allclose(shared, product64(a, b[0], ta, tb), rtol=0, atol=bound)


def test_one_thread_gives_the_bits_of_two():
    rng = np.random.default_rng(2)
    threads = framework.num_threads()
    for shapes in WAYS.values():
        for m, n, k in shapes:
            for ta, tb in ((False, False), (False, True), (True, False)):
                a, b = operands(rng, m, n, k, ta, tb)
                found = set()
                for count in (1, 2):
                    framework.set_num_threads(count)
                    y = ops.matmul(a, b, transpose_a=ta, transpose_b=tb, activation="silu")
                    found.add(y.numpy().tobytes())
                assert len(found) == 1, (m, n, k, ta, tb)
    framework.set_num_threads(threads)


def test_values_outside_of_an_operand_stay_outside():
    """NaN next to the operands, as the neighbours of a slice, reaches no result."""
    frame = np.full((40, 40), np.nan, np.float32)
    frame[:3, :35], row = 1.0, np.ones((2, 3), np.float32)
    inner = np.ascontiguousarray(frame[:3, :35])
    assert (ops.matmul(row, inner).numpy() == 3).all()
    assert (ops.matmul(np.ones((7, 3), np.float32), inner, activation="relu").numpy() == 3).all()
