"""Products with 8-bit weights: the same bits as the definition, whatever instructions and threads compute them."""

from contextlib import contextmanager

import numpy as np
import pytest

import framework
from framework import _core
from framework.ops import internal
from tests.framework.ops.specs.quantized import reference

WAYS = [(isa, algorithm) for isa in _core.supported_isas() for algorithm in ("auto", "widening")]


@contextmanager
def instruction_set(isa):
    before = _core.active_isa()
    _core.use_isa(isa)
    try:
        yield
    finally:
        _core.use_isa(before)


def product(seed, most=127):
    """Arguments of a random product: every remainder of rows, columns and depth comes up, and long rows."""
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(rng.integers(1, n)) for n in ((420 if seed % 8 == 0 else 30), 200, 300))
    x = (rng.standard_normal((rows, depth)) * 10 ** rng.uniform(-6, 6)).astype(np.float32)
    return {
        "x": x,
        "weight": rng.integers(-128, 128, (columns, depth)).astype(np.int8),
        "weight_scale": rng.uniform(0.001, 1, columns).astype(np.float32),
        "bias": rng.standard_normal(columns).astype(np.float32) if seed % 2 else None,
        "residual": rng.standard_normal((rows, columns)).astype(np.float32) if seed % 3 == 0 else None,
        "x_scale": np.abs(x).max() * rng.uniform(0.3, 1.2) / most if seed % 4 == 0 else None,
    }


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_random_products_have_the_bits_of_the_definition(isa, algorithm):
    with instruction_set(isa):
        for seed in range(40):
            given = product(seed)
            activation = ("none", "relu", "relu6")[seed % 3]
            got = internal.quantized_matmul(**given, activation=activation, algorithm=algorithm).numpy()
            np.testing.assert_array_equal(got, reference(**given, activation=activation))


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_sums_of_the_largest_products_do_not_saturate(isa, algorithm):
    """Pairs of 127 * 127, which the byte products of AVX2 cut at 32767, and the deepest sum that 32 bits hold."""
    with instruction_set(isa):
        for x, w, depth in ((127, 127, 4000), (-127, 127, 4000), (127, -128, 1 << 17), (-127, -128, 1 << 17)):
            rows, weight = np.full((7, depth), x, np.float32), np.full((17, depth), w, np.int8)
            y = internal.quantized_matmul(rows, weight, np.ones(17, np.float32), algorithm=algorithm).numpy()
            np.testing.assert_array_equal(y, np.full((7, 17), np.float32(x * w * depth)))


@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_one_and_two_threads_give_the_same_bits_where_the_work_is_split(activation):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 384)).astype(np.float32)
    w, scale = rng.integers(-127, 128, (700, 384)).astype(np.int8), rng.uniform(0, 1, 700).astype(np.float32)
    before, results = framework.num_threads(), []
    try:
        for threads in (1, 2):
            framework.set_num_threads(threads)
            results.append(internal.quantized_matmul(x, w, scale, activation=activation).numpy().tobytes())
    finally:
        framework.set_num_threads(before)
    assert results[0] == results[1]


def test_a_row_does_not_depend_on_the_rows_beside_it():
    """Each has its own scale; so a batch may be cut anywhere."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((23, 70)).astype(np.float32) * np.geomspace(1e-3, 1e3, 23, dtype=np.float32)[:, None]
    w, scale = rng.integers(-127, 128, (130, 70)).astype(np.int8), np.ones(130, np.float32)
    whole = internal.quantized_matmul(x, w, scale).numpy()
    for i in range(len(x)):
        np.testing.assert_array_equal(internal.quantized_matmul(x[i], w, scale).numpy(), whole[i])


def test_weights_packed_by_a_program_are_those_of_its_instruction_set():
    given = product(5)
    run = framework.program(lambda x: internal.quantized_matmul(x, **constants), pass_names=("freeze_states",))
    constants = {k: framework.tensor(v) for k, v in given.items() if v is not None and k != "x"}
    for t in constants.values():
        t.persistable = True
    expected = reference(**given)
    for isa in (*_core.supported_isas(), _core.active_isa()):
        with instruction_set(isa):
            for _ in range(2):
                np.testing.assert_array_equal(run(given["x"]).numpy(), expected)
