"""Convolution, matrix products, movement and indexing in a Program: one trace, with gradients, serves every extent."""

import numpy as np
import pytest

import framework
from framework import graph, ops
from framework.autograd.tape import gradients

RNG = np.random.default_rng(0)
INDICES = framework.tensor(np.array([1, 0, 1]))
WEIGHT = framework.tensor(RNG.standard_normal((4, 3, 3, 2)))
MATRIX = framework.tensor(RNG.standard_normal((2, 3)))

FUNCTIONS = {
    "brackets": lambda x: x[:, ::-2, None, 1, ..., -1] * 2.0,
    "gather": lambda x: x[INDICES],
    "concat": lambda x: ops.concat([x * x, x[:, :1], x], axis=1),
    "split": lambda x: ops.split(x, axis=1, sizes=(1, -1))[1] * 3.0,
    "stack": lambda x: ops.stack([x, x * x], axis=2),
    "pad": lambda x: ops.pad(x, pads=(0, 0, 1, 2, 0, 1, 0, 0), mode="reflect"),
    "tile": lambda x: ops.tile(ops.flip(x * x, axes=1), repeats=(1, 2, 1, 1)),
    "transpose": lambda x: ops.transpose(x * x, perm=(0, 3, 1, 2)),
    "topk": lambda x: ops.topk(ops.flatten(x), k=3)[0],
    "take": lambda x: ops.take_along_axis(x, ops.sort(x, axis=1)[1], axis=1),
    "conv2d": lambda x: ops.conv2d(x, WEIGHT, padding=1, activation="leaky_relu"),
    "conv2d_transpose": lambda x: ops.conv2d_transpose(x, ops.transpose(WEIGHT, perm=(3, 1, 2, 0)), stride=2),
    "matmul": lambda x: ops.matmul(x, MATRIX, activation="relu"),
    "positions": lambda x: x * ops.expand_dims(ops.positions(x, axis=2), axis=1) / ops.extent(x, axis=1),
}


def _value_and_gradient(function):
    def run(x):
        y = function(x)
        return [y, *gradients([y], [x], [y], create_graph=False)]

    return run


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_equals_eager_for_every_extent_from_one_trace(name):
    run = _value_and_gradient(FUNCTIONS[name])
    traced = graph.program(run)
    for shape in [(2, 5, 4, 2), (3, 4, 6, 2), (2, 5, 4, 2)]:
        a = RNG.standard_normal(shape)
        expected = run(framework.tensor(a, requires_grad=True))
        for got, e in zip(traced(framework.tensor(a, requires_grad=True)), expected, strict=True):
            assert got.numpy().tobytes() == e.numpy().tobytes()
    assert traced.traces_made == 1


def test_a_lookups_gradient_adds_into_the_zeros_in_place():
    traced = graph.program(_value_and_gradient(lambda x: ops.gather(x, INDICES)))
    x = framework.tensor(RNG.standard_normal((2, 3)), requires_grad=True)
    compiled = traced.program_for(x)
    assert [op.name for op in compiled.program.block].count("scatter_add") == 1
    twice = graph.program(lambda t: ops.exp(_value_and_gradient(lambda x: ops.gather(x, INDICES))(t)[1]))
    assert twice.program_for(x).memory_report([x]).in_place_count >= 1
