"""Passes that took shapes for equal: what other shapes refute is traced again until it holds, and eager agrees."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import ShapeError
from framework.graph import passes


def ones(*shape):
    return framework.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


SCALE, BIAS = ones(4), ones(4)


def norm(x):
    return ops.layer_norm(x, SCALE, BIAS)[0]


def two_norms(x, z):
    total = x + z
    return norm(total) + norm(x + total * 1.5)


def agrees(program, function, *args, tolerance=1e-6):
    np.testing.assert_allclose(program(*args).numpy(), function(*args).numpy(), rtol=tolerance, atol=tolerance)


def test_each_refuted_assumption_is_dropped_until_all_shapes_work():
    program = framework.program(two_norms)
    rows = [(1, 1), (3, 3), (3, 1), (1, 3), (2, 2), (1, 5)]
    for x, z in rows:
        agrees(program, two_norms, ones(x, 4), ones(z, 4))
    assert program.traces_made <= 3
    made = program.traces_made
    for x, z in rows:
        agrees(program, two_norms, ones(x, 4), ones(z, 4))
    assert program.traces_made == made


def test_only_what_relied_on_a_refuted_assumption_is_given_up():
    def f(x, y, z):
        return norm(x + y) * norm(x + z)

    program = framework.program(f)
    agrees(program, f, ones(2, 4), ones(2, 4), ones(2, 4))
    agrees(program, f, ones(2, 4), ones(2, 4), ones(1, 4))
    after = program.program_for(ones(2, 4), ones(2, 4), ones(1, 4)).program
    assert [op.name for op in after.block].count("residual_layer_norm") == 1


@pytest.mark.parametrize("names", [("fuse_bias", "fuse_residual"), ("fuse_residual",), ("accumulate_products",)])
def test_a_residual_of_the_traces_shape_may_broadcast_later(names):
    weights = ones(4, 4)
    weights.persistable = True

    def f(x, z):
        return ops.matmul(x, weights) + z

    program = framework.program(f, pass_names=names)
    for x, z in ((3, 3), (3, 1), (1, 3), (2, 2)):
        agrees(program, f, ones(x, 4), ones(z, 4))


def test_a_vector_is_no_bias_where_the_channels_may_vary():
    vector = ones(4)
    vector.persistable = True

    def f(x, y):
        return ops.matmul(x, y) + vector

    program = framework.program(f, pass_names=("fuse_bias",))
    for n in (4, 1):
        agrees(program, f, ones(2, 3), ones(3, n))


def test_an_assumption_in_a_block_is_traced_again_too():
    def f(x, z, flag):
        return framework.cond(flag, lambda: norm(x + z) * 2.0, lambda: norm(z + x))

    program = framework.program(f)
    yes = framework.tensor(np.array(True))
    for x, z in ((2, 2), (2, 1), (1, 2), (3, 3)):
        agrees(program, f, ones(x, 4), ones(z, 4), yes)


def test_shapes_that_eager_refuses_are_refused_and_the_line_is_named():
    program = framework.program(two_norms)
    program(ones(2, 4), ones(2, 4))
    with pytest.raises(ShapeError, match=r"test_assumptions\.py"):
        program(ones(2, 4), ones(3, 4))
    agrees(program, two_norms, ones(2, 4), ones(2, 4))


def test_a_summand_or_scale_made_from_the_value_itself_is_not_fused_with_it():
    weights = ones(4, 4)
    weights.persistable = True

    def product(x):
        y = ops.matmul(x, weights)
        return y + ops.full_like(y, value=1.0) * x

    def normed(x):
        total = x + x * 2.0
        return ops.layer_norm(total, total[0] * 0.0 + 2.0, total[0])[0]

    for f in (product, normed):
        for names in (passes.TRAINING_PASSES, passes.INFERENCE_PASSES):
            agrees(framework.program(f, pass_names=names), f, ones(3, 4))
