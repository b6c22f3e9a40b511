"""How much faster layers are with 16 bits: which have a figure, and that it comes from both Programs' times."""

import numpy as np

import framework
from framework import ops
from framework.control import while_loop
from framework.quantization import speed
from framework.quantization.speed import speedups
from tests.framework.quantization.helpers import constant, normal
from tests.framework.quantization.test_images import traced
from tests.framework.quantization.test_sixteen_bits import ROWS, X, network


def test_layers_with_both_forms_have_a_figure():
    """A depthwise convolution has none, a product has one by the name of its weights as they were."""
    found = speedups(traced(network, X), [[X]])
    assert sorted(found) == ["first", "last", "second"] and all(v > 0 for v in found.values())
    for turned in (False, True):
        shape = (64, 128) if turned else (128, 64)
        weight = constant(normal(*shape), "w")
        whole = traced(lambda x, w=weight, t=turned: ops.matmul(x, w, transpose_b=t), ROWS)
        assert list(speedups(whole, [[ROWS]])) == ["w"]


def test_layers_inside_of_control_flow_have_none():
    inner, outer = constant(normal(64, 64, scale=0.1), "inner"), constant(normal(64, 64, scale=0.1), "outer")
    i, x = np.array(0, np.int64), normal(5, 64)

    def f(i, x):
        x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, ops.matmul(x, inner)), [i, x])[1]
        return ops.matmul(x, outer)

    assert list(speedups(traced(f, i, x), [[framework.from_numpy(i), x]])) == ["outer"]


def test_the_figure_is_float32_s_time_over_that_of_16_bits(monkeypatch):
    """Medians of all rounds, of layers that share weights together."""
    times = iter([{"a": t, "b": 1.0} for t in (6.0, 6.0, 99.0, 6.0, 1.0, 6.0, 6.0)])
    wide = iter([{"a": 3.0}] * 7)
    monkeypatch.setattr(speed, "_seconds", lambda compiled, kinds, inputs: next(times if "conv2d" in kinds else wide))
    assert speedups(traced(network, X), [[X]]) == {"a": 2.0}
