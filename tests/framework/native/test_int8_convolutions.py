"""Convolutions of 8-bit images: the bits of the definition, whatever instructions and threads compute them."""

import numpy as np
import pytest

import framework
from framework import Profile, _core
from framework.ops import internal
from tests.framework.native.test_int8_products import instruction_set
from tests.framework.ops.specs.quantized_conv import convolution

CASES, SLOW_CASES = 60, 3000
F32 = np.float32
WAYS = [(isa, way) for isa in _core.supported_isas() for way in ("auto", "widening", "winograd")]


def octets(rng, shape, dtype):
    """Random numbers; at times of one value, or of the two extremes alone."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    kind = rng.integers(10)
    if kind < 2:
        return np.full(shape, (low, high)[kind], dtype)
    return (rng.choice([low, high], size=shape) if kind == 2 else rng.integers(low, high + 1, shape)).astype(dtype)


def channels_of(rng):
    """Groups, channels and filters: dense, grouped, depthwise, and depthwise with several filters a channel."""
    kind = rng.integers(6)
    if kind < 2:
        odd = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 33, 64, 65, 130]
        return 1, int(rng.choice(odd)), int(rng.choice([1, 3, 5, 16, 17, 31, 32, 33, 63, 64, 65, 129, 200]))
    if kind == 2:
        groups = int(rng.choice([2, 3, 5]))
        return groups, groups * int(rng.integers(1, 20)), groups * int(rng.integers(1, 40))
    if kind == 3:
        channels = int(rng.choice([1, 2, 3, 5, 17, 33]))
        return channels, channels, channels * int(rng.integers(1, 5))
    channels = int(rng.choice([1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 96, 127, 128, 130, 257]))
    return channels, channels, channels


def convolved(seed):
    """Arguments of a random quantized_conv2d, whose results spread over their range; each fifth suits Winograd."""
    rng = np.random.default_rng([8, seed])
    groups, channels, filters = channels_of(rng)
    taps, dilation = rng.choice([1, 1, 2, 3, 3, 5, 7], size=2), rng.choice([1, 1, 2, 3], size=2)
    stride, padding = rng.choice([1, 1, 2, 3, 5], size=2), rng.integers(0, 5, 4) * rng.integers(0, 2)
    if seed % 5 == 0:
        groups, taps, stride = 1, np.array([3, 3]), np.array([1, 1])
        dilation = dilation if seed % 2 else np.array([1, 1])
    reach = (taps - 1) * dilation + 1
    least = np.maximum(reach - padding.reshape(2, 2).sum(axis=1), 1)
    size = np.maximum(least, rng.integers(1, 22, 2))
    if rng.integers(20) == 0:
        size[rng.integers(2)] = 300
    x_type, y_type = rng.choice(["uint8", "int8"]), str(rng.choice(["uint8", "int8", "float32", "int32", "uint8"]))
    x = octets(rng, (int(rng.integers(0, 4)), *size, channels), x_type)
    weight = octets(rng, (filters, *taps, channels // groups), np.int8)
    scale = (10 ** rng.uniform(-4, -2) * np.exp(rng.standard_normal(filters))).astype(F32)
    x_scale = float(F32(10 ** rng.uniform(-4, 1)))
    usual = x_scale * float(scale.mean()) * 6000 * np.sqrt(weight[0].size)
    tiny = 1e-6 if rng.integers(10) == 0 else 1.0  # of steps that leave the range of 32 bits
    y_scale = float(F32(usual * tiny * 10 ** rng.uniform(-4, -2)))
    attrs = {
        "stride": stride.tolist(), "padding": padding.tolist(), "dilation": dilation.tolist(), "groups": groups,
        "x_scale": x_scale, "x_zero": zero_of(rng, x_type), "dtype": y_type,
    }  # fmt: skip
    if y_type == "int32":
        return [x, weight, scale, None, None], attrs
    attrs |= {"activation": str(rng.choice(["none", "relu", "relu6", "leaky_relu"])), "slope": 0.1}
    if y_type != "float32":
        attrs |= {"y_scale": y_scale, "y_zero": zero_of(rng, y_type)}
    bias = (rng.standard_normal(filters) * y_scale * 50).astype(F32) if rng.integers(3) else None
    p, q = (size + padding.reshape(2, 2).sum(axis=1) - reach) // stride + 1
    return [x, weight, scale, bias, residual_of(rng, (len(x), p, q, filters), attrs)], attrs


def zero_of(rng, dtype):
    """What stands for 0: any number, often the lowest, as behind a relu."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return low if rng.integers(4) == 0 else int(rng.integers(low, high + 1))


def residual_of(rng, shape, attrs):
    kind = rng.integers(5)
    if kind > 1:
        return None
    attrs["residual_last"] = bool(rng.integers(2))
    if kind == 0 and attrs["dtype"] == "float32":
        return rng.standard_normal(shape).astype(F32)
    dtype = str(rng.choice(["uint8", "int8"]))
    attrs |= {"residual_scale": float(F32(rng.uniform(0.01, 0.1))), "residual_zero": zero_of(rng, dtype)}
    return octets(rng, shape, dtype)


def expect_the_definition(isa, algorithm, seeds):
    before = framework.num_threads()
    with instruction_set(isa):
        try:
            for seed in seeds:
                inputs, attrs = convolved(seed)
                framework.set_num_threads(1 + seed % 2)
                got = internal.quantized_conv2d(*inputs, algorithm=algorithm, **attrs).numpy()
                np.testing.assert_array_equal(got, convolution(*inputs, **attrs), err_msg=f"seed {seed}")
        finally:
            framework.set_num_threads(before)


@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_random_convolutions_have_the_bits_of_the_definition(isa, algorithm):
    expect_the_definition(isa, algorithm, range(CASES))


@pytest.mark.slow
@pytest.mark.parametrize(("isa", "algorithm"), WAYS)
def test_thousands_of_convolutions_have_the_bits_of_the_definition(isa, algorithm):
    expect_the_definition(isa, algorithm, range(CASES, SLOW_CASES))


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("extreme", [(0, -128), (255, -128), (0, 127), (255, 127)])
def test_winograd_is_exact_for_the_largest_sums_it_takes(isa, extreme):
    """Every pixel and every weight at its end: nothing on the way is cut off, and 29 bits hold the sums."""
    pixel, weight = extreme
    x, w = np.full((1, 7, 5, 3640), pixel, np.uint8), np.full((2, 3, 3, 3640), weight, np.int8)
    with instruction_set(isa):
        for zero in (0, 255):
            y = internal.quantized_conv2d(
                x, w, np.ones(2, F32), padding=1, x_zero=zero, dtype="int32", algorithm="winograd"
            ).numpy()
            inside = (pixel - zero) * weight * 3640
            taps = np.outer([2, 3, 3, 3, 3, 3, 2], [2, 3, 3, 3, 2])
            np.testing.assert_array_equal(y[0, :, :, 1], taps * inside)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("far", [{"dilation": 30_000, "padding": 30_000}, {"stride": 30_000, "padding": 30_000}])
def test_windows_that_reach_far_out_of_a_picture_cost_no_more_than_their_results(isa, far):
    """A picture with its borders would have 10 GB, and there are 900 million remainders of such a dilation."""
    rng = np.random.default_rng(3)
    x, w = octets(rng, (1, 9, 8, 3), "uint8"), rng.integers(-128, 128, (5, 3, 3, 3)).astype(np.int8)
    attrs = {"x_zero": 7, "dtype": "int32"} | far
    with instruction_set(isa):
        for way in ("auto", "widening", "winograd"):
            y = internal.quantized_conv2d(x, w, np.ones(5, F32), algorithm=way, **attrs).numpy()
            np.testing.assert_array_equal(y, far_reference(x, w, **attrs))
            each = internal.quantized_conv2d(x, w[:3, :, :, :1], np.ones(3, F32), groups=3, algorithm=way, **attrs)
            own = np.where(np.eye(3, dtype=bool)[:, None, None], w[:3, :, :, :1], 0)
            np.testing.assert_array_equal(each.numpy(), far_reference(x, own, **attrs))


def far_reference(x, weight, x_zero, dtype, padding, stride=1, dilation=1):
    """Sums of windows whose taps may lie far outside, where the picture is 0."""
    (_, height, width, _), taps = x.shape, np.arange(3) * dilation - padding
    p, q = ((n + 2 * padding - 2 * dilation - 1) // stride + 1 for n in (height, width))
    y = np.zeros((1, p, q, len(weight)), dtype)
    for i, j, r, s in np.ndindex(p, q, 3, 3):
        h, v = i * stride + taps[r], j * stride + taps[s]
        if 0 <= h < height and 0 <= v < width:
            y[0, i, j] += weight[:, r, s].astype(np.int32) @ (x[0, h, v].astype(np.int32) - x_zero)
    return y


def names_of(x, weight, **attrs):
    """The ways that a convolution says it went."""
    with Profile() as profile:
        internal.quantized_conv2d(x, weight, np.ones(len(weight), F32), dtype="int32", **attrs)
    return profile.table(details=1)


def test_winograd_is_taken_where_it_exists_and_by_itself_where_it_pays():
    x, w = np.zeros((1, 14, 14, 64), np.uint8), np.zeros((16, 3, 3, 64), np.int8)
    with instruction_set("baseline"):
        assert "exact Winograd" in names_of(x, w)
        assert "exact Winograd" in names_of(x[:, :4, :4], w, algorithm="winograd")
        others = ((14, 64, {"stride": 2}), (14, 64, {"algorithm": "widening"}), (4, 64, {}), (14, 3, {}))
        for size, channels, attrs in others:
            text = names_of(x[:, :size, :size, :channels], w[..., :channels], **attrs)
            assert "Winograd" not in text
            assert "16-bit products" in text
