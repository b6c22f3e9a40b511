"""Convolutions of a Program in 8 bits: what stays in 8 bits from layer to layer, how near it is, and bad data."""

import numpy as np
import pytest

import framework
from framework import no_grad, ops, program
from framework.errors import AttributeValueError, NumericsError
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.files import load_program, save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES
from framework.quantization import METHODS, AdaRound, quantize
from tests.framework.quantization.helpers import constant, normal


def filters(k, size, c, seed=0, name=None):
    return constant(normal(k, size, size, c, seed=seed, scale=(2 / (size * size * c)) ** 0.5), name)


W = [filters(16, 3, 3), filters(16, 3, 1, seed=1), filters(16, 1, 16, seed=2), filters(16, 3, 16, seed=3)]
B = [constant(normal(16, seed=i, scale=0.1)) for i in range(4)]
X = normal(2, 20, 20, 3)


def network(x):
    """A strided convolution, a depthwise block with a residual, pooling, enlarging and a concatenation."""
    x = ops.relu(ops.conv2d(x, W[0], B[0], stride=2, padding=1))
    y = ops.relu6(ops.conv2d(x, W[1], B[1], padding=1, groups=16))
    x = ops.conv2d(y, W[2], B[2]) + x
    small = ops.max_pool2d(x, 2)
    return ops.conv2d(ops.concat([ops.resize_nearest(small, scale=2.0), x], 3), W4, padding=1)


W4 = filters(8, 3, 32, seed=4)


def traced(function, *inputs, passes=INFERENCE_PASSES):
    tensors = [framework.from_numpy(x) for x in inputs]
    with no_grad():
        return program(function, pass_names=passes).program_for(*tensors).program


def run(p, *inputs):
    return [t.numpy() for t in CompiledProgram(p).run([framework.from_numpy(x) for x in inputs])]


def static(p, *batches, **settings):
    return quantize(p, mode="static", calibration=[[b] for b in batches], **settings)


def names(p):
    return [op.name for op in p.block]


def report(p):
    return explain(p)["quantize"]


@pytest.mark.parametrize("passes", [INFERENCE_PASSES, EXPORT_PASSES])
def test_values_stay_in_8_bits_from_the_first_convolution_to_the_last(passes):
    got = static(traced(network, X, passes=passes), X)
    assert sorted(names(got)) == sorted(
        ["quantize_linear", *["quantized_conv2d"] * 4, "max_pool2d", "resize_nearest", "concat"]
    )
    made = {v: op for op in got.block for v in op.outputs}
    assert [made[v].attr("dtype") for v in got.results] == ["float32"]
    assert all(v.dtype == "uint8" for v in made if v not in got.results)
    assert len(report(got).matched) == 4 and not report(got).missed


@pytest.mark.parametrize("method", METHODS)
def test_the_result_stays_near_float32(method):
    """Each layer's rounding is noise of a step / sqrt(12): by these ranges below a hundredth of what a layer gives."""
    whole = traced(network, X)
    (wanted,), (found,) = run(whole, X), run(static(whole, X, method=method), X)
    assert 0 < np.abs(found - wanted).std() < (0.1 if method == "kl" else 0.05) * wanted.std()


def test_weights_and_inputs_that_8_bits_hold_come_out_exactly():
    w = np.random.default_rng(0).integers(-127, 128, (5, 3, 3, 4)).astype(np.float32)
    w[:, 0, 0, 0] = 127
    x = np.random.default_rng(1).integers(0, 256, (1, 6, 7, 4)).astype(np.float32)
    x[0, 0, 0, :2] = 0, 255
    weight = constant(w)
    whole = traced(lambda x: ops.conv2d(x, weight), x)
    np.testing.assert_array_equal(run(static(whole, x, bias_correction=False), x)[0], run(whole, x)[0])


def test_values_with_one_range_have_one_scale():
    got = static(traced(network, X), X)
    concat = next(op for op in got.block if op.name == "concat")
    made = {v: op for op in got.block for v in op.outputs}
    residual = next(op for op in got.block if op.name == "quantized_conv2d" and op.input("residual"))
    last = next(op for op in got.block if op.outputs[0] is got.results[0])
    steps = (residual.attr("y_scale"), residual.attr("y_zero"))
    assert made[concat.inputs[1]] is residual and (last.attr("x_scale"), last.attr("x_zero")) == steps


def test_a_sum_of_two_8_bit_values_is_one():
    def f(x):
        a = ops.relu(ops.conv2d(x, W[0], padding=1))
        b = ops.max_pool2d(a, 3, stride=1, padding=1)
        return ops.conv2d(a + b, W[2]), a

    whole = traced(f, X)
    got = static(whole, X)
    assert names(got).count("quantized_add") == 1 and names(got).count("dequantize_linear") == 1
    for found, wanted in zip(run(got, X), run(whole, X), strict=True):
        assert np.abs(found - wanted).std() < 0.02 * wanted.std()


def test_bias_correction_takes_the_mean_error_away():
    """On the inputs of calibration, with one layer and no border, all of it: what is left is the float's rounding."""
    x = np.abs(normal(1, 12, 12, 16)) + 1
    whole = traced(lambda x: ops.conv2d(x, W[2], B[2]), x)

    def mean_error(**settings):
        error = run(static(whole, x, **settings), x)[0] - run(whole, x)[0]
        return np.abs(error.mean(axis=(0, 1, 2))).max()

    step = float(x.max()) / 255 * float(np.abs(W[2].numpy()).sum(axis=(1, 2, 3)).max())
    assert mean_error(bias_correction=True) < 0.1 * step / 12**0.5  # the mean of 144 roundings of x
    assert mean_error(bias_correction=True) < 0.5 * mean_error(bias_correction=False)


def test_an_image_that_is_never_negative_uses_all_256_numbers():
    got = static(traced(network, X), X)
    first = next(op for op in got.block if op.name == "quantized_conv2d")
    assert first.attr("activation") == "relu" and first.attr("y_zero") == 0 and 64 < first.attr("x_zero") < 192


def test_what_is_to_be_kept_stays_in_float32():
    weight = filters(16, 1, 16, name="head.weight")

    def f(x):
        return ops.conv2d(ops.conv2d(x, W[0]), weight)

    got = static(traced(f, X), X, keep=["head.*"])
    assert names(got) == ["quantize_linear", "quantized_conv2d", "conv2d"]
    assert len(report(got).missed) == 1 and report(got).missed[0].endswith("stays in float32: it is to be kept")


def test_dynamic_ranges_leave_convolutions_and_say_so():
    got = quantize(traced(lambda x: ops.conv2d(x, W[0]), X))
    assert names(got) == ["conv2d"]
    assert report(got).missed[0].endswith("convolutions have ranges that calibration finds; take mode 'static'")


def test_an_input_that_is_always_zero_leaves_its_convolution_in_float32():
    def f(x):
        return ops.conv2d(ops.relu(ops.conv2d(x, W[0]) - 1000.0), W[3])

    got = static(traced(f, X), X)
    assert names(got).count("conv2d") == 1 and names(got).count("quantized_conv2d") == 1
    assert report(got).missed[0].endswith("stays in float32: its input was 0 all through calibration")


def test_an_input_that_never_varies_is_held_exactly():
    x = np.full((1, 8, 8, 3), 3.0, np.float32)
    whole = traced(lambda x: ops.conv2d(x, W[0], B[0]), x)
    step = np.abs(W[0].numpy()).max() / 127 / 2 * 27 * 3  # of the weights
    assert np.abs(run(static(whole, x), x)[0] - run(whole, x)[0]).max() < step


@pytest.mark.parametrize("value", [0.0, 0.7, -2.0])
def test_weights_of_one_value_come_out(value):
    weight = constant(np.full((4, 3, 3, 3), value, np.float32))
    whole = traced(lambda x: ops.conv2d(x, weight), X)
    wanted, found = run(whole, X)[0], run(static(whole, X), X)[0]
    assert np.abs(found - wanted).max() <= 27 * abs(value) * np.ptp(X) / 255 + 1e-5


def test_weights_that_are_not_finite_stay_in_float32():
    weight = constant(np.full((4, 3, 3, 3), np.inf, np.float32))
    got = static(traced(lambda x: ops.conv2d(x, weight), X), X)
    assert names(got) == ["conv2d"] and report(got).missed[0].endswith("its weights are not all finite")


def test_calibration_that_leads_to_infinities_is_refused():
    whole = traced(network, X)
    with pytest.raises(NumericsError, match=r"calibration batch 1: the input of .* has a NaN or an infinity"):
        static(whole, X, np.full_like(X, np.inf))
    with pytest.raises(AttributeValueError, match="calibration has no batch"):
        static(whole)


def test_other_sizes_and_batches_need_no_new_calibration():
    got = static(traced(network, X), X)
    x = normal(3, 28, 24, 3)
    wanted, found = run(traced(network, x), x)[0], run(got, x)[0]
    assert found.shape == wanted.shape and np.abs(found - wanted).std() < 0.05 * wanted.std()


def test_a_saved_program_gives_the_same_bits(tmp_path):
    got = static(traced(network, X), X)
    save_program(got, tmp_path)
    np.testing.assert_array_equal(run(load_program(tmp_path)[0], X)[0], run(got, X)[0])


def test_a_separable_convolution_that_stays_in_float32_stays_whole():
    def f(x):
        return ops.conv2d(ops.relu(ops.conv2d(x, W[1], padding=1, groups=16)), W[2])

    x = normal(1, 9, 9, 16)
    got = static(traced(f, x), x, keep=lambda op: op.name == "conv2d")
    assert names(got) == ["separable_conv2d"]


@pytest.mark.parametrize("adaround", [None, AdaRound(steps=1)])
def test_weights_that_convolutions_share_are_stored_once(adaround):
    weight = filters(8, 3, 3, name="head.weight")

    def levels(x):
        return ops.conv2d(x, weight, padding=1), ops.conv2d(ops.relu(x * 0.1), weight, padding=1)

    small = static(traced(levels, X), X, adaround=adaround)
    convolutions = [op for op in small.block if op.name == "quantized_conv2d"]
    assert len(convolutions) == 2 and convolutions[0].attr("x_scale") != convolutions[1].attr("x_scale")
    if adaround is None:  # else each learns its own
        assert convolutions[0].inputs[1:3] == convolutions[1].inputs[1:3]
        assert len([v for v in small.constants if v.dtype == "int8"]) == 1
    first, second = run(small, X)
    wanted = run(traced(levels, X), X)
    assert all(np.abs(a - b).max() < 0.02 * np.abs(b).max() for a, b in zip((first, second), wanted, strict=True))
