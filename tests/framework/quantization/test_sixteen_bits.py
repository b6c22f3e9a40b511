"""Layers that read 16 bits among those of 8: which they are, how near they are, what is said of the others."""

import numpy as np
import pytest

from framework import ops
from framework.control import while_loop
from framework.errors import AttributeValueError
from framework.graph.files import load_program, save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES
from framework.predictor import Predictor
from framework.quantization import AdaRound, quantize, sensitivity
from framework.quantization.weights import widest
from tests.framework.quantization.helpers import constant, normal
from tests.framework.quantization.test_images import filters, names, report, run, static, traced
from tests.framework.quantization.test_reconstruction import uneven

FIRST, DEPTH = filters(16, 3, 3, name="first"), filters(16, 3, 1, seed=1, name="depth")
SECOND, LAST = filters(16, 1, 16, seed=2, name="second"), filters(8, 3, 16, seed=3, name="last")
LAST_OF_16 = filters(8, 3, 16, seed=4, name="words")
B = constant(normal(16, scale=0.1))
X = normal(2, 12, 12, 3)


def network(x):
    x = ops.relu(ops.conv2d(x, FIRST, B, padding=1))
    y = ops.relu6(ops.conv2d(x, DEPTH, padding=1, groups=16))
    return ops.conv2d(ops.conv2d(y, SECOND, B) + x, LAST, padding=1)


def convolutions(p):
    return {op.inputs[1].name.removesuffix(".int8"): op for op in p.block if op.name == "quantized_conv2d"}


@pytest.mark.parametrize("passes", [INFERENCE_PASSES, EXPORT_PASSES])
def test_a_named_convolution_reads_float32_and_gives_what_the_next_layer_reads(passes):
    got = static(traced(network, X, passes=passes), X, sixteen=["second"])
    found = convolutions(got)
    assert [found[name].inputs[0].dtype for name in ("first", "depth", "second", "last")] == [
        "uint8", "uint8", "float32", "uint8"
    ]  # fmt: skip
    assert found["second"].attr("dtype") == found["second"].input("residual").dtype == "uint8"
    assert "dequantize_linear" not in names(got)
    (said,) = (line for line in report(got).matched if "16 bits" in line)
    assert "'second'" in said and "static (16 bits to 32767)" in said and not report(got).missed


@pytest.mark.parametrize("name", ["first", "last"])
def test_the_first_and_the_last_convolution_may_read_16_bits(name):
    whole = traced(network, X)
    got, plain = static(whole, X, sixteen=[name]), static(whole, X)
    wanted = run(whole, X)[0]
    assert convolutions(got)[name].inputs[0].dtype == "float32"
    assert np.abs(run(got, X)[0] - wanted).std() < 1.1 * np.abs(run(plain, X)[0] - wanted).std()


def test_what_a_layer_of_8_bits_reads_too_is_read_as_those_8_bits():
    def f(x):
        x = ops.relu(ops.conv2d(x, FIRST, B))
        return ops.conv2d(x, LAST, padding=1) + ops.conv2d(x, LAST_OF_16, padding=1)

    whole = traced(f, X)
    got = static(whole, X, sixteen=["words"])
    assert names(got).count("dequantize_linear") == 1
    assert convolutions(got)["last"].inputs[0].dtype == "uint8"
    wanted = run(whole, X)[0]
    assert 0 < np.abs(run(got, X)[0] - wanted).std() < 0.05 * wanted.std()


def test_with_weights_that_8_bits_hold_only_the_input_is_rounded():
    """By half of a step for each weight, a step being twice the largest input / the largest number."""
    w = np.random.default_rng(0).integers(-127, 128, (5, 3, 3, 4)).astype(np.float32)
    w[:, 0, 0, 0] = 127
    x, weight = normal(1, 9, 9, 4), constant(w, "w")
    whole = traced(lambda x: ops.conv2d(x, weight), x)
    got = static(whole, x, sixteen=["w"])
    (op,) = convolutions(got).values()
    step, sums = op.attr("x_scale"), np.abs(w).sum(axis=(1, 2, 3))
    assert step == pytest.approx(2 * np.abs(x).max() / 32767, rel=1e-6)
    error = np.abs(run(got, x)[0] - run(whole, x)[0])
    assert (error <= 0.5 * step * sums + 36 * 2**-23 * np.abs(x).max() * sums).all()
    assert np.abs(run(static(whole, x), x)[0] - run(whole, x)[0]).max() > 20 * error.max()


def test_values_twice_as_large_as_calibration_saw_are_not_cut():
    x, weight = np.abs(normal(1, 6, 6, 8)), filters(4, 1, 8, name="w")
    whole = traced(lambda x: ops.conv2d(x, weight), x)
    found, wanted = run(static(whole, x, sixteen=["w"]), 2 * x)[0], run(whole, 2 * x)[0]
    half = np.abs(weight.numpy()).max() / 254  # of a step of the weights
    assert np.abs(found - wanted).max() < 8 * half * 2 * x.max()


def test_deep_sums_have_fewer_steps_so_that_32_bits_hold_them():
    """Also after AdaRound, which makes a weight larger by 1 at most."""
    x, weight = np.ones((1, 2, 2, 2048), np.float32), constant(np.full((4, 1, 1, 2048), 0.5, np.float32), "w")
    got = static(traced(lambda x: ops.conv2d(x, weight), x), x, sixteen=["w"])
    (op,) = convolutions(got).values()
    assert op.attr("x_most") == (2**31 - 1) // (127 * 2048) == 8256
    np.testing.assert_allclose(run(got, x)[0], 1024.0, rtol=1e-4)
    assert widest(np.zeros((3, 1, 1, 5), np.int8)) == 32767 and widest(np.zeros((0, 4), np.int8)) == 32767
    assert widest(np.full((1, 40000), -1, np.int8)) == (2**31 - 1) // 80000


def test_a_depthwise_convolution_reads_16_bits_too():
    whole, only = traced(network, X), ["depth"]
    got, wanted = static(whole, X, sixteen=["*"]), run(whole, X)[0]
    assert sorted(convolutions(got)) == ["depth", "first", "last", "second"] and not report(got).missed
    assert {op.inputs[0].dtype for op in convolutions(got).values()} == {"float32"}
    assert np.abs(run(got, X)[0] - wanted).std() < 0.7 * np.abs(run(static(whole, X), X)[0] - wanted).std()
    found = convolutions(static(whole, X, sixteen=only))
    assert [name for name, op in found.items() if op.inputs[0].dtype == "float32"] == only


def test_what_is_to_be_kept_stays_in_float32_though_named():
    got = static(traced(network, X), X, keep=["second"], sixteen=["second"])
    assert sorted(convolutions(got)) == ["depth", "first", "last"]


def test_a_name_that_fits_nothing_is_an_error():
    with pytest.raises(AttributeValueError, match="quantize: sixteen has 'heads', which fits no weight; there are"):
        static(traced(network, X), X, sixteen=["heads"])


def test_an_input_that_is_always_zero_leaves_its_convolution_in_float32():
    def f(x):
        return ops.conv2d(ops.relu(ops.conv2d(x, FIRST) - 1000.0), LAST)

    got = static(traced(f, X), X, sixteen=["last"])
    assert names(got).count("conv2d") == 1
    assert report(got).missed[0].endswith("stays in float32: its input was 0 all through calibration")


ROWS = normal(9, 128)
SQUARE = filters(8, 3, 8, name="square")


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_products_read_16_bits_too(mode):
    """Weights of whole numbers are held exactly, so that a product is as near as the input's rounding leaves it."""
    w = np.random.default_rng(1).integers(-127, 128, (128, 64)).astype(np.float32)
    w[0] = 127
    weight = constant(w, "w")
    whole = traced(lambda x: ops.matmul(x, weight), ROWS)
    got = quantize(whole, mode=mode, calibration=[[ROWS]], sixteen=["w"])
    (op,) = got.block.ops
    assert op.name == "quantized_matmul" and op.attr("x_most") == 32767
    assert report(got).matched[0].endswith(", 16 bits to 32767")
    step = 2 * np.abs(ROWS).max() / 32767
    sums = np.abs(w).sum(axis=0)
    error = np.abs(run(got, ROWS)[0] - run(whole, ROWS)[0])
    assert (error <= 0.5 * step * sums + 128 * 2**-23 * np.abs(ROWS).max() * sums).all()


def test_products_inside_of_control_flow_read_16_bits_too():
    weight = constant(normal(64, 64, scale=0.1), "w")
    i, x = np.array(0, np.int64), normal(5, 64)

    def f(i, x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, ops.matmul(x, weight)), [i, x])[1]

    got = quantize(traced(f, i, x), sixteen=["w"])
    assert "16 bits to 32767" in report(got).matched[0]
    assert np.abs(run(got, i, x)[0] - run(traced(f, i, x), i, x)[0]).max() < 0.05


@pytest.mark.parametrize("kind", ["image", "rows"])
def test_a_saved_program_gives_the_same_bits_in_the_native_predictor(tmp_path, kind):
    weight = constant(normal(128, 64, scale=0.1), "w")
    x = X if kind == "image" else ROWS
    whole = traced(network if kind == "image" else lambda x: ops.matmul(x, weight), x)
    got = static(whole, x, sixteen=["second", "last"] if kind == "image" else ["w"])
    save_program(got, tmp_path)
    wanted = run(got, x)[0]
    np.testing.assert_array_equal(run(load_program(tmp_path)[0], x)[0], wanted)
    np.testing.assert_array_equal(Predictor(tmp_path).run([x])[0], wanted)


def test_layers_of_16_bits_learn_their_rounding():
    x, w = uneven()
    first, rows = constant(w.numpy(), "first"), constant(normal(8, 40, scale=0.3), "rows")
    for f in (lambda x: ops.conv2d(ops.relu(ops.conv2d(x, first)), SQUARE), lambda x: ops.matmul(x, rows)):
        whole = traced(f, x)
        wanted = run(whole, x)[0]
        plain, learnt = (
            static(whole, x, sixteen=["*"], smallest=1, adaround=how) for how in (None, AdaRound(steps=150))
        )
        assert all("16 bits" in line for line in report(learnt).matched)
        assert np.abs(run(learnt, x)[0] - wanted).std() < 0.9 * np.abs(run(plain, x)[0] - wanted).std()


def test_sensitivity_tells_what_16_bits_would_lose():
    rows = {row.name: row for row in sensitivity(traced(network, X), [[X]], sixteen=True)}
    for name in ("first", "depth", "second", "last"):
        assert 0 < rows[name].sixteen < rows[name].error
    assert all(row.sixteen is None for row in sensitivity(traced(network, X), [[X]]))


def test_an_exported_file_computes_the_same(tmp_path):
    """Other runtimes add in float32, and a rounding to 8 bits may turn: by a step of what the last layer reads."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from framework.onnx import Session, export, open_model

    got = static(traced(network, X, passes=EXPORT_PASSES), X, sixteen=["depth", "second"])
    export(got, tmp_path / "model.onnx")
    wanted = run(got, X)[0]
    op = convolutions(got)["last"]
    step = op.attr("x_scale") * np.abs(LAST.numpy()).sum(axis=(1, 2, 3)).max()
    assert np.abs(Session(open_model(tmp_path / "model.onnx")).run([X])[0] - wanted).max() < step
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: X})
    assert np.abs(found - wanted).max() < step


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_an_exported_product_has_the_same_sums(tmp_path, mode):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    from framework.onnx import export

    weight = constant(normal(128, 64, scale=0.1), "w")
    whole = traced(lambda x: ops.matmul(x, weight), ROWS, passes=EXPORT_PASSES)
    got = quantize(whole, mode=mode, calibration=[[ROWS]], sixteen=["w"])
    export(got, tmp_path / "model.onnx")
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: ROWS})
    np.testing.assert_allclose(found, run(got, ROWS)[0], rtol=4 * 2**-23)  # two products, rounded in float32
