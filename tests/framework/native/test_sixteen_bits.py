"""Inputs of 16 bits with weights of 8: the same bits as the definition, whatever instructions and threads compute."""

import numpy as np
import pytest

import framework
from framework.errors import NumericsError
from framework.ops import internal
from tests.framework.native.test_int8_products import WAYS, instruction_set, product
from tests.framework.ops.specs.quantized import reference
from tests.framework.ops.specs.quantized_conv import convolution

MOST = 32767


def most_of(weight):
    """The largest input with which 32 bits hold every sum."""
    return int(min(MOST, (2**31 - 1) // max(np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1))))


def image_and_filters(seed):
    """A random convolution: channels that fill pairs and others, groups, borders, strides, holes, all kinds of ends."""
    rng = np.random.default_rng([16, seed])
    size, groups = int(rng.choice([1, 1, 3, 5])), int(rng.choice([1, 1, 2, 3]))
    channels, filters = groups * int(rng.integers(1, 40)), groups * int(rng.integers(1, 70))
    x = (rng.standard_normal((int(rng.integers(1, 3)), 12, int(rng.integers(11, 16)), channels)) * 9).astype(np.float32)
    weight = rng.integers(-128, 128, (filters, size, size, channels // groups)).astype(np.int8)
    most = most_of(weight)
    attrs = {
        "x_scale": float(np.float32(np.abs(x).max() * rng.uniform(0.5, 2) / most)), "x_most": most,
        "stride": int(rng.integers(1, 3)), "padding": int(rng.integers(0, 3)), "groups": groups,
        "dilation": int(rng.integers(1, 3)), "activation": ("none", "relu", "relu6", "leaky_relu")[seed % 4],
        "dtype": ("float32", "uint8", "int32", "int8")[seed % 5 % 4], "y_scale": 0.5, "y_zero": 7,
    }  # fmt: skip
    bias = rng.standard_normal(filters).astype(np.float32)
    if attrs["dtype"] == "int32":
        attrs["activation"], bias = "none", None
    return [x, weight, rng.uniform(1e-4, 1e-3, filters).astype(np.float32), bias], attrs


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_random_convolutions_have_the_bits_of_the_definition(isa, algorithm):
    with instruction_set(isa):
        for seed in range(40):
            inputs, attrs = image_and_filters(seed)
            got = internal.quantized_conv2d(*inputs, algorithm=algorithm, **attrs).numpy()
            np.testing.assert_array_equal(got, convolution(*inputs, **attrs), err_msg=f"seed {seed}")


def depthwise(seed):
    """A random depthwise convolution: channels that fill blocks of vectors and others, windows to 5 x 5, all ends."""
    inputs, attrs = image_and_filters(seed)
    rng = np.random.default_rng([17, seed])
    x, channels, size = inputs[0], int(rng.choice([1, 3, 8, 16, 31, 32, 33, 64, 70, 96])), int(rng.choice([1, 2, 3, 5]))
    x = (rng.standard_normal((*x.shape[:3], channels)) * 9).astype(np.float32)
    weight = rng.integers(-128, 128, (channels, size, size, 1)).astype(np.int8)
    scale = rng.uniform(1e-4, 1e-3, channels).astype(np.float32)
    bias = None if inputs[3] is None else rng.standard_normal(channels).astype(np.float32)
    x_scale = float(np.float32(np.abs(x).max() * rng.uniform(0.5, 2) / MOST))
    return [x, weight, scale, bias], attrs | {"groups": channels, "x_most": MOST, "x_scale": x_scale}


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_random_depthwise_convolutions_have_the_bits_of_the_definition(isa, algorithm):
    with instruction_set(isa):
        for seed in range(60):
            inputs, attrs = depthwise(seed)
            wanted = convolution(*inputs, **attrs)
            if seed % 3 == 0 and attrs["dtype"] != "int32":
                residual = np.random.default_rng(seed).integers(0, 256, wanted.shape).astype(np.uint8)
                inputs.append(residual if attrs["dtype"] != "float32" else residual.astype(np.float32))
                attrs |= {"residual_scale": 0.05, "residual_zero": 9} if attrs["dtype"] != "float32" else {}
                wanted = convolution(*inputs, **attrs)
            got = internal.quantized_conv2d(*inputs, algorithm=algorithm, **attrs).numpy()
            np.testing.assert_array_equal(got, wanted, err_msg=f"seed {seed}")


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_depthwise_convolutions_of_bad_input_are_errors(isa, algorithm):
    """A NaN anywhere, and a window of 23 x 23, whose largest sums 32 bits would not hold."""
    x, weight = np.ones((1, 30, 30, 33), np.float32), np.full((33, 23, 23, 1), 127, np.int8)
    how = {"groups": 33, "algorithm": algorithm, "dtype": "int32"}
    with instruction_set(isa):
        sums = internal.quantized_conv2d(x * 31964, weight, np.ones(33, np.float32), x_most=31964, **how)
        np.testing.assert_array_equal(sums.numpy(), 31964 * 127 * 529)
        with pytest.raises(NumericsError, match="numbers up to 31964, not to x_most = 31965"):
            internal.quantized_conv2d(x, weight, np.ones(33, np.float32), x_most=31965, **how)
        x[0, 29, 29, 32] = np.nan
        with pytest.raises(NumericsError, match="x holds a NaN"):
            internal.quantized_conv2d(x, weight, np.ones(33, np.float32), x_most=100, **how)


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_random_products_have_the_bits_of_the_definition(isa, algorithm):
    with instruction_set(isa):
        for seed in range(40):
            given = product(seed, MOST)
            most = most_of(given["weight"])
            got = internal.quantized_matmul(**given, x_most=most, algorithm=algorithm).numpy()
            np.testing.assert_array_equal(got, reference(**given, x_most=most))


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
@pytest.mark.parametrize(("depth", "most"), [(516, 32767), (4608, 3669), (1 << 16, 258)])
def test_the_largest_sums_fill_32_bits_and_do_not_overflow(isa, algorithm, depth, most):
    """The largest input for the deepest sum of weights of 127; one step more is an error."""
    weight, scale = np.full((17, depth), 127, np.int8), np.ones(17, np.float32)
    assert most == most_of(weight)
    with instruction_set(isa):
        for sign in (1, -1):
            x = np.full((1, 2, 3, depth), np.float32(sign * most))
            sums = internal.quantized_conv2d(
                x, weight.reshape(17, 1, 1, -1), scale, x_most=most, dtype="int32", algorithm=algorithm
            )
            np.testing.assert_array_equal(sums.numpy(), np.full((1, 2, 3, 17), sign * most * 127 * depth))
            rows = internal.quantized_matmul(x, weight, scale, x_scale=1.0, x_most=most, algorithm=algorithm)
            np.testing.assert_array_equal(rows.numpy(), np.full((1, 2, 3, 17), np.float32(sign * most * 127 * depth)))
        if most < MOST:
            with pytest.raises(NumericsError, match=f"numbers up to {most}, not to x_most = {most + 1}"):
                internal.quantized_matmul(x, weight, scale, x_most=most + 1, algorithm=algorithm)


def test_one_and_two_threads_give_the_same_bits_where_the_work_is_split():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 40, 40, 48)).astype(np.float32)
    weight = rng.integers(-127, 128, (130, 3, 3, 48)).astype(np.int8)
    before, results = framework.num_threads(), []
    try:
        for threads in (1, 2):
            framework.set_num_threads(threads)
            y = internal.quantized_conv2d(x, weight, np.ones(130, np.float32), x_scale=1e-4, dtype="float32")
            results.append(y.numpy().tobytes())
    finally:
        framework.set_num_threads(before)
    assert results[0] == results[1]


def test_filters_packed_by_a_program_are_those_of_its_instruction_set():
    inputs, attrs = image_and_filters(0)
    constants = [framework.tensor(v) for v in inputs[1:]]
    for t in constants:
        t.persistable = True
    run = framework.program(lambda x: internal.quantized_conv2d(x, *constants, **attrs), pass_names=("freeze_states",))
    wanted = convolution(*inputs, **attrs)
    for isa in dict.fromkeys(isa for isa, _ in WAYS):
        with instruction_set(isa):
            for _ in range(2):
                np.testing.assert_array_equal(run(inputs[0]).numpy(), wanted)
