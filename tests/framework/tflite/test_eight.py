"""Files of 8-bit numbers: the integers that TensorFlow Lite's reference gives, by their definition."""

import zlib

import numpy as np
import pytest

from framework import tensor
from framework.errors import CheckpointError, NotSupportedError
from framework.graph.compiled import CompiledProgram
from framework.tflite import Session, load, open_model
from tests.framework.ops.specs.quantized_conv import requantized, sums_of
from tests.framework.tflite.models import File, single, small_eight

RNG = np.random.default_rng(5)


def octets(*shape, dtype="int8"):
    low = -128 if dtype == "int8" else 0
    return RNG.integers(low, low + 256, shape).astype(dtype)


def steps(scale, zero=0):
    return {"scale": scale, "zero": zero}


def run(file, *given):
    model = open_model(file)
    (found,) = Session(model).run(given)
    (eager,) = model(*map(tensor, given))
    np.testing.assert_array_equal(eager.numpy(), found)
    return found


def as_reference(sums, factor, zero, dtype="int8", low=None, high=None, bias=None):
    info = np.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return requantized(sums, np.atleast_1d(np.float64(factor)), bias, zero, low, high, dtype)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
def test_a_convolution_with_a_scale_a_filter(depthwise):
    x, bias = octets(1, 7, 6, 8), RNG.integers(-5000, 5000, 8).astype(np.int32)
    weight = octets(1, 3, 3, 8) if depthwise else octets(8, 3, 3, 8)
    scales = RNG.uniform(0.001, 0.01, 8).astype(np.float32)
    w = (weight, {"scale": scales, "axis": 3 if depthwise else 0})
    op, more = ("DEPTHWISE_CONV_2D", {"multiplier": 1}) if depthwise else ("CONV_2D", {})
    file = single(op, [("int8", x.shape, steps(0.02, -5)), w, bias], [1, 7, 6, 8], "int8", steps(0.11, 4),
                  padding="SAME", stride_h=1, stride_w=1, activation="RELU6", **more)  # fmt: skip
    kernel = weight.transpose(3, 1, 2, 0) if depthwise else weight
    sums = sums_of(x, kernel, -5, 1, 1, 1, 8 if depthwise else 1)
    factors = np.float64(np.float32(0.02)) * scales.astype(np.float64) / np.float64(np.float32(0.11))
    high = 4 + round(6 / 0.11)
    np.testing.assert_array_equal(run(file, x), as_reference(sums, factors, 4, low=4, high=high, bias=bias))


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
def test_uint8_weights_with_a_zero_point_need_nine_bits_and_stay_exact(depthwise):
    x = octets(1, 6, 6, 5, dtype="uint8")
    weight = octets(1, 3, 3, 5, dtype="uint8") if depthwise else octets(7, 3, 3, 5, dtype="uint8")
    weight.reshape(-1)[:2] = 0, 255
    filters = 5 if depthwise else 7
    op, more = ("DEPTHWISE_CONV_2D", {"multiplier": 1}) if depthwise else ("CONV_2D", {})
    file = single(op, [("uint8", x.shape, steps(0.02, 131)), (weight, steps(0.01, 66)), None], [1, 3, 3, filters],
                  "uint8", steps(0.5, 100), padding="SAME", stride_h=2, stride_w=2, **more)  # fmt: skip
    kernel = weight.astype(np.int64) - 66
    kernel = kernel.transpose(3, 1, 2, 0) if depthwise else kernel
    sums = sums_of(x, kernel, 131, 2, (0, 1, 0, 1), 1, 5 if depthwise else 1)
    factor = np.float64(np.float32(0.02) * np.float32(0.01)) / np.float64(np.float32(0.5))
    np.testing.assert_array_equal(run(file, x), as_reference(sums, factor, 100, "uint8"))


def test_a_product():
    x, weight, bias = octets(3, 50), octets(4, 50), RNG.integers(-900, 900, 4).astype(np.int32)
    file = single("FULLY_CONNECTED", [("int8", x.shape, steps(0.02, 7)), (weight, steps(0.01)), bias], [3, 4], "int8",
                  steps(0.3, -2), activation="RELU")  # fmt: skip
    sums = (x.astype(np.int64) - 7) @ weight.T.astype(np.int64)
    factor = np.float64(np.float32(0.02)) * np.float64(np.float32(0.01)) / np.float64(np.float32(0.3))
    np.testing.assert_array_equal(run(file, x), as_reference(sums, factor, -2, low=-2, bias=bias))


def test_a_sum_a_difference_and_a_product_of_numbers_with_other_steps():
    a, b = octets(2, 3, 5), octets(1, 3, 1)
    given = [("int8", a.shape, steps(0.04, 3)), ("int8", b.shape, steps(0.07, -9))]
    x, y = 0.04 * (a.astype(float) - 3), 0.07 * (b.astype(float) + 9)
    # A product in steps of 0.0028 loses half of a 32nd before the last rounding: 0.031 is 2^-5.
    for op, exact, early in (("ADD", x + y, 1e-4), ("SUB", x - y, 1e-4), ("MUL", x * y, 2**-6 + 1e-4)):
        found = run(single(op, given, [2, 3, 5], "int8", steps(0.09, 11)), a, b)
        wanted = np.clip(exact / 0.09 + 11, -128, 127)
        assert np.abs(found - wanted).max() <= 0.5 + early


def test_means_are_the_exact_ones_with_halves_away_from_0():
    x = octets(1, 4, 6, 3)
    file = single("AVERAGE_POOL_2D", [("int8", x.shape, steps(0.1, 5))], [1, 2, 3, 3], "int8", steps(0.1, 5),
                  padding="VALID", stride_h=2, stride_w=2, filter_h=2, filter_w=2)  # fmt: skip
    sums = x.astype(int).reshape(1, 2, 2, 3, 2, 3).sum(axis=(2, 4))
    np.testing.assert_array_equal(run(file, x), np.sign(sums) * ((np.abs(sums) * 2 + 4) // 8))


def test_resizing_weighs_pixels_with_ten_bits():
    x = octets(1, 3, 3, 2, dtype="uint8")
    size = np.array([5, 5], np.int32)
    file = single("RESIZE_BILINEAR", [("uint8", x.shape, steps(0.1, 5)), size], [1, 5, 5, 2], "uint8", steps(0.1, 5),
                  align_corners=True)  # fmt: skip
    rows = np.array([x[0, p // 2] + x[0, (p + 1) // 2].astype(int) for p in range(5)])
    both = np.array([rows[:, q // 2] + rows[:, (q + 1) // 2] for q in range(5)]).transpose(1, 0, 2)
    np.testing.assert_array_equal(run(file, x)[0], (both + 2) // 4)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("middle", [False, True])
def test_resizing_of_uint8_rounds_float32_as_the_reference_does(align, middle):
    """A half more, without its fraction; LiteRT gives the same bits (see test_peers.py)."""
    if align and middle:
        return
    x = octets(2, 5, 7, 3, dtype="uint8")
    size = np.array([11, 4], np.int32)
    file = single("RESIZE_BILINEAR", [("uint8", x.shape, steps(0.1, 9)), size], [2, 11, 4, 3], "uint8", steps(0.1, 9),
                  align_corners=align, half_pixel=middle)  # fmt: skip
    f32 = np.float32
    places = []
    for extent, wanted in zip(x.shape[1:3], size, strict=True):
        scale = f32(extent - align) / f32(wanted - align)
        at = np.arange(wanted).astype(f32)
        at = (at + f32(0.5)) * scale - f32(0.5) if middle else at * scale
        low = np.maximum(np.floor(at), 0).astype(int)
        places.append((low, np.minimum(np.ceil(at), extent - 1).astype(int), at - low.astype(f32)))
    (top, bottom, v), (left, right, u) = places
    v, u, image = v[:, None, None], u[:, None], x.astype(f32)
    y = image[:, top][:, :, left] * (1 - v) * (1 - u) + image[:, bottom][:, :, left] * v * (1 - u)
    y = y + image[:, top][:, :, right] * (1 - v) * u + image[:, bottom][:, :, right] * v * u
    np.testing.assert_array_equal(run(file, x), np.floor(y + f32(0.5)).astype(np.uint8))


def test_uint8_weights_of_one_sign_are_taken():
    """255 less a zero point of 0 needs three terms of 8 bits."""
    x, weight = octets(2, 1, 3, 4, dtype="uint8"), octets(6, 1, 1, 4, dtype="uint8")
    weight[0], weight[1] = 255, 0
    for zero in (0, 255):
        w = (weight, steps(0.01, zero))
        file = single("CONV_2D", [("uint8", x.shape, steps(0.02, 5)), w, None], [2, 1, 3, 6], "uint8", steps(0.3, 100),
                      padding="VALID", stride_h=1, stride_w=1)  # fmt: skip
        sums = (x.astype(np.int64) - 5) @ (weight[:, 0, 0].astype(np.int64) - zero).T
        factor = np.float64(np.float32(0.02) * np.float32(0.01)) / np.float64(np.float32(0.3))
        np.testing.assert_array_equal(run(file, x), as_reference(sums, factor, 100, "uint8"))


@pytest.mark.parametrize(("stated", "match"), [
    (steps(0.0006), "its bias is in steps of 0.0006, and the sums are in steps of 0.0002"),
    (steps(0.0002, 7), "its bias has the zero point 7"),
])  # fmt: skip
def test_a_bias_in_other_steps_than_the_sums_is_refused(stated, match):
    bias = (np.arange(3, dtype=np.int32), stated)
    file = single("FULLY_CONNECTED", [("int8", [2, 4], steps(0.02)), (octets(3, 4), steps(0.01)), bias], [2, 3], "int8",
                  steps(0.1))  # fmt: skip
    with pytest.raises(NotSupportedError, match=match):
        Session(open_model(file)).run([octets(2, 4)])


def test_results_in_other_steps_than_what_is_moved_are_brought_to_them():
    """Each part of a split has its own; so have the results of pooling."""
    x = octets(1, 2, 2, 6)
    f = File()
    y = [f.tensor(name, "int8", [1, 2, 2, 3], **own) for name, own in (("a", steps(0.1, 3)), ("b", steps(0.2, -4)))]
    f.node(
        "SPLIT", [f.constant("axis", np.array(3, np.int32)), f.given("x", "int8", x.shape, **steps(0.1, 3))], y, count=2
    )
    first, second = Session(open_model(f.bytes(*y))).run([x])
    np.testing.assert_array_equal(first, x[..., :3])
    wanted = np.clip(np.rint((x[..., 3:].astype(np.float32) - 3) * np.float32(0.1) / np.float32(0.2)) - 4, -128, 127)
    np.testing.assert_array_equal(second, wanted)
    pads = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], np.int32)
    file = single("PAD", [("int8", x.shape, steps(0.1, 3)), pads], [1, 3, 2, 6], "int8", steps(0.2, -4))
    padded = run(file, x)
    np.testing.assert_array_equal(padded[:, :1], np.full((1, 1, 2, 6), -4))
    np.testing.assert_array_equal(padded[:, 1:, :, 3:], wanted)
    for op, pooled in (("MAX_POOL_2D", x.max((1, 2))), ("AVERAGE_POOL_2D", x.astype(np.float64).mean((1, 2)))):
        file = single(op, [("int8", x.shape, steps(0.1, 3))], [1, 1, 1, 6], "int8", steps(0.2, -4), padding="VALID",
                      stride_h=1, stride_w=1, filter_h=2, filter_w=2)  # fmt: skip
        wanted = np.clip((pooled - 3) / 2 - 4, -128, 127)
        assert np.abs(run(file, x)[:, 0, 0] - wanted).max() <= 1


def test_what_is_joined_is_brought_to_the_steps_of_the_result():
    a, b = octets(2, 3), octets(2, 3)
    file = single("CONCATENATION", [("int8", [2, 3], steps(0.1)), ("int8", [2, 3], steps(0.2, 4))], [4, 3], "int8",
                  steps(0.1), axis=0)  # fmt: skip
    wanted = np.concatenate([a, np.clip((b.astype(int) - 4) * 2, -128, 127)])
    np.testing.assert_array_equal(run(file, a, b), wanted)


def test_padding_stands_for_zero():
    x = octets(2, 2)
    pads = np.array([[1, 0], [0, 2]], np.int32)
    file = single("PAD", [("int8", [2, 2], steps(0.1, 9)), pads], [3, 4], "int8", steps(0.1, 9))
    np.testing.assert_array_equal(run(file, x), np.pad(x, pads, constant_values=9))


def test_a_function_of_8_bits_is_the_rounded_one_and_is_reported():
    x = octets(5, 40)
    file = single("LOGISTIC", [("int8", x.shape, steps(0.1, -3))], x.shape, "int8", steps(1 / 256, -128))
    wanted = np.clip(np.rint(256 / (1 + np.exp(-0.1 * (x + 3.0)))) - 128, -128, 127)
    np.testing.assert_array_equal(run(file, x), wanted)
    assert open_model(file).in_float() == ["LOGISTIC y"]
    assert open_model(small_eight()).in_float() == []


def test_8_bit_weights_of_a_float_network_are_made_float():
    x, weight = RNG.normal(size=(1, 4)).astype(np.float32), octets(3, 4)
    file = single("FULLY_CONNECTED", [("float32", [1, 4]), (weight, steps(0.5, 0)), None], [1, 3])
    exact = x.astype(np.float64) @ (weight * 0.5).T
    most = 2.0**-24 * 4 * (np.abs(x) @ np.abs(weight * 0.5).T)  # four products and their sums, each rounded once
    assert (np.abs(run(file, x) - exact) <= most).all()


@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
def test_a_program_and_a_batch_give_the_same_integers(signed):
    file = small_eight(signed)
    images = octets(4, 6, 6, 3, dtype="int8" if signed else "uint8")
    one_by_one = [run(file, image[None])[0] for image in images]
    name = open_model(file).input_names[0]
    found = CompiledProgram(load(file, {name: images.shape})).run([images])[0].numpy()
    np.testing.assert_array_equal(found, one_by_one)


def test_damaged_steps_are_refused():
    with pytest.raises(CheckpointError, match="tensor 'x0' has the scale -1"):
        open_model(single("ABS", [("int8", [4], steps(-1.0))], [4], "int8", steps(1.0)))
    with pytest.raises(CheckpointError, match="has 3 scales along axis 0"):
        open_model(single("ABS", [("int8", [4], steps([1.0, 1.0, 1.0]))], [4], "int8", steps(1.0)))
    x = ("int8", [1, 2, 2, 2], steps([1.0, 1.0]) | {"axis": 3})
    file = single("CONV_2D", [x, (octets(1, 1, 1, 2), steps(1.0)), None], [1, 2, 2, 1], "int8", steps(1.0),
                  padding="VALID", stride_h=1, stride_w=1)  # fmt: skip
    with pytest.raises(NotSupportedError, match=r"'x0' \(int8\) has no scale, or one a channel"):
        load(file)


# CRC-32 of what LiteRT 2.3.0's reference kernels (BUILTIN_REF) give for the picture below; see test_peers.py.
PUBLISHED = {
    "mobilenet_v2_1.0_224_quant": 2482445746,
    "deeplabv3_mnv2_pascal_quant": 4282812978,
    "movenet_single_pose_lightning_ptq": 3780944443,
}


def picture(model):
    """Smooth random colours."""
    _, height, width, _ = model.inputs[0].shape
    coarse = np.random.default_rng(11).integers(0, 256, (1, height // 16 + 1, width // 16 + 1, 3))
    return coarse.repeat(16, 1).repeat(16, 2)[:, :height, :width].astype(np.uint8)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_gives_the_integers_of_the_reference(name, shared_data):
    model = open_model(shared_data(f"weights/coral/{name}.tflite"))
    (found,) = Session(model).run([picture(model)])
    assert zlib.crc32(found.tobytes()) == PUBLISHED[name]


def test_an_operator_without_results_is_damage():
    f = File()
    x = f.given("x", "float32", [2])
    f.node("ABS", [x], [])
    with pytest.raises(CheckpointError, match="gives 0 results"):
        open_model(f.bytes(x))
