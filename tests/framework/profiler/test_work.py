"""Flops and bytes of operators, against numbers worked out by hand."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.ops import internal
from framework.ops.registry import OPS
from framework.profiler import Profile


def ones(*shape: int) -> framework.Tensor:
    return framework.tensor(np.ones(shape, np.float32))


def work_of(function, *args, **attrs):
    with Profile() as p:
        function(*args, **attrs)
    (call,) = p.calls
    return call.work


def test_convolution_counts_two_per_multiply_add_of_the_definition():
    x, w, y = ones(2, 9, 9, 4), ones(6, 3, 3, 4), ones(2, 4, 4, 6)
    flops = 2 * (2 * 4 * 4 * 6) * (3 * 3 * 4)
    for function, args, traffic in [
        (ops.conv2d, (x, w), x.size + w.size + y.size),
        (internal.conv2d_grad_input, (y, w, x), y.size + w.size + x.size),
        (internal.conv2d_grad_weight, (x, y, w), x.size + y.size + w.size),
    ]:
        got = work_of(function, *args, stride=2)
        assert (got.flops, got.bytes) == (flops, 4 * traffic)


def test_depthwise_and_transposed_convolution():
    x = ones(1, 8, 8, 16)
    assert work_of(ops.conv2d, x, ones(16, 3, 3, 1), padding=1, groups=16).flops == 2 * 8 * 8 * 16 * 9
    # Each of the 8 * 8 * 16 numbers of x meets 2 * 2 taps of 5 channels.
    assert work_of(ops.conv2d_transpose, x, ones(16, 2, 2, 5), stride=2).flops == 2 * (8 * 8 * 16) * (2 * 2 * 5)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_matmul(ta, tb):
    a, b = ones(4, 7, 3) if ta else ones(4, 3, 7), ones(5, 7) if tb else ones(7, 5)
    got = work_of(ops.matmul, a, b, transpose_a=ta, transpose_b=tb)
    assert (got.flops, got.bytes) == (4 * 2 * 3 * 7 * 5, 4 * (4 * 21 + 35 + 4 * 15))


def test_a_separable_convolution_counts_both_parts():
    got = work_of(
        internal.separable_conv2d, ones(2, 8, 8, 16), ones(16, 3, 3, 1), ones(5, 1, 1, 16), padding=1, groups=16
    )
    assert got.flops == 2 * 2 * 8 * 8 * 16 * (9 + 5)


def test_recurrent_layers_count_the_products_of_every_row_with_the_recurrent_weights():
    offsets = framework.tensor([0, 4, 10])
    for function, gates in ((ops.lstm, 4), (ops.gru, 3)):
        x, weight = ones(10, 2 * gates * 5), ones(2, gates * 5, 5)
        assert work_of(function, x, weight, offsets, direction="both").flops == 2 * 10 * 2 * (gates * 5) * 5


def test_element_wise_operators_are_memory_traffic_only():
    got = work_of(ops.add, ones(3, 5), ones(5))
    assert (got.flops, got.bytes) == (0, 4 * (15 + 5 + 15))


def test_inputs_read_for_their_shape_only_and_absent_ones_are_no_traffic():
    got = work_of(ops.full_like, ones(3, 5), value=1.0)
    assert got.bytes == 4 * 15


def test_every_operator_that_multiplies_matrices_has_a_formula():
    heavy = {name for name, op in OPS.items() if op.family in ("conv", "matmul", "recurrent")}
    without = {name for name in heavy if not OPS[name].heavy}
    assert not without, f"{without}: declare flops() in their blocks"
