"""What batch normalisation promises beyond its reference: bits that can be computed again, and gradients in place."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.ops import internal
from tests.framework.ops.harness import normal

SHAPES = [(3, 9, 9, 5), (2, 33, 17, 64), (300, 130), (1, 1, 2, 3)]


def f32(*shape, seed=0):
    return framework.tensor(normal(*shape, seed=seed).astype(np.float32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_output_can_be_computed_again_from_the_statistics_bit_for_bit(shape, isa):
    x, scale, bias = f32(*shape), f32(shape[-1], seed=1), f32(shape[-1], seed=2)
    residual = f32(*shape, seed=3)
    for attrs in ({}, {"activation": "relu"}, {"activation": "leaky_relu", "slope": 0.1}, {"activation": "relu6"}):
        for extra in (None, residual):
            y, mean, var = ops.batch_norm(x, scale, bias, extra, **attrs)
            again = ops.batch_norm_inference(x, scale, bias, mean, var, extra, **attrs)
            assert y.numpy().tobytes() == again.numpy().tobytes()


@pytest.mark.parametrize("activation", ["relu", "relu6", "leaky_relu"])
def test_the_gradient_masks_exactly_where_the_activation_cut(activation, isa):
    x, scale, bias = f32(2, 33, 17, 24), f32(24, seed=1), f32(24, seed=2)
    dy = f32(2, 33, 17, 24, seed=4)
    z, mean, var = ops.batch_norm(x, scale, bias)
    slope = {"slope": 0.1} if activation == "leaky_relu" else {}
    masked = getattr(internal, f"{activation}_grad")(dy, z, **slope)
    apart = internal.batch_norm_grad(masked, x, scale, mean, var)
    fused = internal.batch_norm_activation_grad(dy, x, scale, bias, mean, var, activation=activation, **slope)
    by_y = internal.batch_norm_residual_grad(
        dy, getattr(ops, activation)(z, **slope), x, scale, mean, var, activation=activation, **slope
    )
    for a, b, c in zip(apart, fused, by_y, strict=False):
        assert a.numpy().tobytes() == b.numpy().tobytes() == c.numpy().tobytes()
    assert by_y[3].numpy().tobytes() == masked.numpy().tobytes()


def test_a_gradient_through_a_composition_counts_an_input_given_twice():
    def f(x):
        scale, bias = ops.sum(x * 0.1, axes=(0,)) + 1.0, ops.mean(x, axes=(0,))
        _, mean, var = ops.batch_norm(x, scale, bias)
        dx, dscale, dbias = internal.batch_norm_activation_grad(x, x, scale, bias, mean, var, activation="leaky_relu")
        return ops.sum(ops.square(dx)) + ops.sum(dscale * dbias)

    from framework.autograd.check import check_gradients

    check_gradients(f, [normal(7, 3)], order=2)
