"""QDQ files, float operators between DequantizeLinear and QuantizeLinear: they run on the file's own whole numbers."""

import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import framework
from framework import nn, ops
from framework.errors import NotSupportedError, NumericsError
from framework.graph import explain
from framework.graph.compiled import CompiledProgram
from framework.onnx import EXPORT_PASSES, Session, export, load, open_model
from framework.ops import internal
from tests.framework.onnx.models import model, weights


class File:
    """Nodes of a QDQ file; values are called by what `x`, `layer` and their like return."""

    def __init__(self, dtype="uint8"):
        self.dtype, self.nodes, self.given = dtype, [], {}

    def constant(self, array):
        name = f"c{len(self.given)}"
        self.given[name] = np.asarray(array)
        return name

    def node(self, op, inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def steps(self, scale, zero):
        return [self.constant(np.float32(scale)), self.constant(np.array(zero, self.dtype))]

    def rounded(self, x, scale, zero):
        """x as 8-bit numbers, `zero` as of uint8, and these as fractions again."""
        steps = self.steps(scale, zero - 128 if self.dtype == "int8" else zero)
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *steps]), *steps])

    def weight(self, w, axis=0, dtype="int8", zero=0, spread=True, late=False):
        """Weights of float32 in 8 bits, with a scale for each filter or one for all."""
        over = tuple(a for a in range(w.ndim) if a != axis) if spread else None
        scale = (np.abs(w).max(axis=over) / 127).astype(np.float32)
        full = np.expand_dims(scale, over) if spread else scale
        q = (np.clip(np.rint(w / full), -127, 127) + zero).astype(dtype)
        zeros = np.full(np.shape(scale), zero, dtype)
        steps = [self.constant(scale), self.constant(zeros)]
        rounded = self.node("QuantizeLinear", [self.constant(w), *steps], axis=axis) if late else self.constant(q)
        return self.node("DequantizeLinear", [rounded, *steps], axis=axis), scale

    def bias(self, b, x_scale, scale):
        steps = (np.broadcast_to(scale, b.shape) * np.float32(x_scale)).astype(np.float32)
        inputs = [np.rint(b / steps).astype(np.int32), steps, np.zeros(b.shape, np.int32)]
        return self.node("DequantizeLinear", [self.constant(v) for v in inputs], axis=0)

    def model(self, y, *shape):
        return model(self.nodes, {"x": shape}, [y], self.given, opset=21)


def steps_between(a, b, scale):
    return np.rint(np.abs(a.astype(np.float64) - b) / scale).astype(int)


def names(program):
    return [op.name for op in program.block]


def run(program, x):
    return [y.numpy() for y in CompiledProgram(program).run([framework.from_numpy(x)])]


def layer(
    file, *, filters, channels=8, kernel=3, ending=None, wholes=None, bias="int32", residual=False, y=0.031, **attrs
):
    """A convolution of x [N, channels, H, W], its sum with x, its activation; rounded on both sides."""
    x = file.rounded("x", 0.02, 131)
    if residual:  # as in a network, where images come from an operation on images
        x = file.rounded(file.node("MaxPool", [x], kernel_shape=[1, 1]), 0.02, 131)
    w = weights(filters, channels // attrs.get("group", 1), kernel, kernel)
    weight, scale = file.weight(w, **(wholes or {}))
    b = weights(filters, seed=3)
    more = {"int32": lambda: [file.bias(b, 0.02, scale)], "float": lambda: [file.constant(b)], None: list}[bias]()
    v = file.node("Conv", [x, weight, *more], **attrs)
    v = file.node("Add", [v, x]) if residual else v
    if ending == "Clip":
        v = file.node("Clip", [v, file.constant(np.float32(0)), file.constant(np.float32(6))])
    elif ending:
        v = file.node(ending, [v])
    return file.rounded(v, y, 120)


LAYERS = {
    "1x1": {"filters": 16, "kernel": 1},
    "3x3 strided": {"filters": 5, "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "one-sided padding": {"filters": 8, "pads": [0, 1, 2, 0]},
    "dilated": {"filters": 8, "dilations": [2, 2]},
    "grouped": {"filters": 8, "group": 4},
    "depthwise": {"filters": 8, "group": 8, "pads": [1, 1, 1, 1]},
    "relu": {"filters": 8, "ending": "Relu"},
    "relu6": {"filters": 8, "ending": "Clip"},
    "leaky relu": {"filters": 8, "ending": "LeakyRelu"},
    "a residual": {"filters": 8, "pads": [1, 1, 1, 1], "residual": True},
    "a residual and relu": {"filters": 8, "pads": [1, 1, 1, 1], "residual": True, "ending": "Relu"},
    "no bias": {"filters": 8, "bias": None},
    "a float bias": {"filters": 8, "bias": "float"},
    "one scale": {"filters": 8, "wholes": {"spread": False}},
    "uint8 weights": {"filters": 8, "wholes": {"spread": False, "dtype": "uint8", "zero": 128}},
    "weights that the file rounds": {"filters": 8, "wholes": {"late": True}},
    "uint8 weights each with a scale": {"filters": 8, "wholes": {"dtype": "uint8", "zero": 128}},
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("case", LAYERS)
def test_a_convolution_is_one_operation_and_differs_by_one_step_at_most(case, dtype):
    file, x = File(dtype), weights(2, 8, 9, 10)
    proto = file.model(layer(file, **LAYERS[case]), "N", 8, 9, 10)
    program = load(proto)
    assert [n for n in names(program) if n not in ("transpose", "max_pool2d")] == [
        "quantize_linear",
        "quantized_conv2d",
        "dequantize_linear",
    ]
    report = explain(program)["fuse_qdq"]
    assert len(report.matched) == 1 and not report.missed
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert steps_between(found, wanted, 0.031).max() <= 1
    assert len(np.unique(found)) > 20


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_convolution_whose_result_is_not_rounded_gives_float32_at_once(dtype):
    file, x = File(dtype), weights(1, 8, 6, 6)
    weight, _ = file.weight(weights(4, 8, 1, 1))
    proto = file.model(file.node("Sigmoid", [file.node("Conv", [file.rounded("x", 0.02, 131), weight])]), 1, 8, 6, 6)
    program = load(proto)
    assert "quantized_conv2d" in names(program) and "dequantize_linear" not in names(program)
    np.testing.assert_allclose(run(program, x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0], rtol=1e-5)


def test_a_convolution_of_one_axis_is_one_too():
    file, x = File(), weights(2, 8, 12)
    weight, _ = file.weight(weights(4, 8, 3))
    proto = file.model(file.rounded(file.node("Conv", [file.rounded("x", 0.02, 131), weight]), 0.03, 120), 2, 8, 12)
    program = load(proto)
    assert "quantized_conv2d" in names(program) and "conv2d" not in names(program)
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert steps_between(found, wanted, 0.03).max() <= 1


def test_whole_numbers_less_a_fraction_are_no_weights_in_8_bits():
    """Arithmetic that only looks like a DequantizeLinear."""
    q = np.random.default_rng(0).integers(-100, 100, (4, 1, 1, 8)).astype(np.int8)
    q, half, scale = (framework.from_numpy(np.asarray(v)) for v in (q, np.float32(0.5), np.float32(0.01)))
    q.persistable = True

    def call(x):
        x = internal.dequantize_linear(internal.quantize_linear(x, y_scale=0.02, y_zero=131), x_scale=0.02, x_zero=131)
        return ops.conv2d(x, (ops.cast(q, dtype="float32") - half) * scale)

    x = framework.from_numpy(weights(1, 5, 5, 8))
    with framework.no_grad():
        program = framework.program(call, pass_names=("freeze_states", "fuse_qdq")).program_for(x).program
        np.testing.assert_allclose(run(program, x.numpy())[0], call(x).numpy(), rtol=1e-5, atol=1e-6)
    assert "conv2d" in names(program)


def product(file, shape, *, gemm=False, turned=False, ending=None):
    x = file.rounded("x", 0.02, 131)
    w = weights(8, 5)
    weight, scale = file.weight(w.T.copy() if turned else w, axis=0 if turned else 1)
    if turned and not gemm:
        weight = file.node("Transpose", [weight], perm=[1, 0])
    if gemm:
        inputs = [x, weight, file.bias(weights(5, seed=1), 0.02, scale)]
        v = file.node("Gemm", inputs, transB=int(turned))
    else:
        v = file.node("MatMul", [x, weight])
    return file.rounded(file.node(ending, [v]) if ending else v, 0.05, 100)


PRODUCTS = {
    "rows": ([7, 8], {}),
    "sentences": ([2, 7, 8], {}),
    "four axes": ([2, 3, 7, 8], {}),
    "weights that a node turns": ([7, 8], {"turned": True}),
    "gemm": ([7, 8], {"gemm": True}),
    "gemm with turned weights and relu": ([7, 8], {"gemm": True, "turned": True, "ending": "Relu"}),
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_is_a_convolution_of_one_pixel(case, dtype):
    (shape, how), file = PRODUCTS[case], File(dtype)
    proto, x = file.model(product(file, shape, **how), *shape), weights(*shape)
    program = load(proto)
    assert "quantized_conv2d" in names(program) and "matmul" not in names(program)
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert found.shape == wanted.shape and steps_between(found, wanted, 0.05).max() <= 1


@pytest.mark.parametrize("ending", [None, "Relu"])
def test_a_sum_of_two_scales_is_one_operation(ending):
    file, x = File(), weights(2, 8, 5, 5)
    a = file.rounded("x", 0.02, 131)
    b = file.rounded(file.node("Neg", [a]), 0.013, 90)
    y = file.node("Add", [a, b])
    y = file.rounded(file.node(ending, [y]) if ending else y, 0.017, 128)
    proto = file.model(y, 2, 8, 5, 5)
    program = load(proto)
    assert "quantized_add" in names(program) and "add" not in names(program) and "relu" not in names(program)
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert steps_between(found, wanted, 0.017).max() <= 1


@pytest.mark.parametrize("op", ["Conv", "Add"])
def test_an_activation_that_turns_signs_stays_between_8_bits(op):
    file, x = File(), weights(1, 8, 5, 5)
    a = file.rounded("x", 0.02, 131)
    b = file.weight(weights(8, 8, 1, 1))[0] if op == "Conv" else file.rounded(file.node("Neg", [a]), 0.013, 90)
    y = file.node("LeakyRelu", [file.node(op, [a, b])], alpha=-0.5)
    proto = file.model(file.rounded(y, 0.03, 100), 1, 8, 5, 5)
    program = load(proto)
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert steps_between(found, wanted, 0.03).max() <= 1


def test_a_sum_whose_steps_are_too_large_beside_those_of_its_result_stays_in_float32():
    file, x = File(), weights(1, 8, 5, 5, seed=2) * np.float32(1e21)
    a = file.rounded("x", 1e20, 131)
    y = file.node("Add", [a, file.rounded(file.node("Neg", [a]), 1.5e20, 90)])
    program = load(file.model(file.rounded(y, 1e-20, 100), 1, 8, 5, 5))
    assert "too large beside those of its result, 1e-20" in explain(program)["fuse_qdq"].missed[0]
    assert set(np.unique(np.rint(run(program, x)[0] / 1e-20))) <= {-100, 0, 155}


MOVES = {
    "MaxPool": {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]},
    "Transpose": {"perm": [0, 3, 1, 2]},
    "Flatten": {},
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "Pad": {},
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("op", MOVES)
def test_what_moves_numbers_moves_those_of_8_bits_and_changes_nothing(op, dtype):
    file, x = File(dtype), weights(2, 8, 6, 5)
    more = {
        "Resize": lambda: ["", file.constant(np.array([1, 1, 2, 3], np.float32))],
        "Pad": lambda: [file.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1]))],
    }.get(op, list)()
    y = file.node(op, [file.rounded("x", 0.02, 131), *more], **MOVES[op])
    proto = file.model(file.rounded(y, 0.02, 131), 2, 8, 6, 5)
    program = load(proto)
    assert names(program).count("quantize_linear") == names(program).count("dequantize_linear") == 1
    (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)


def test_concatenated_inputs_of_other_scales_are_rounded_to_the_scale_of_the_result():
    file, x = File(), weights(1, 8, 5, 5)
    a = file.rounded("x", 0.02, 131)
    y = file.node("Concat", [a, file.rounded(file.node("Neg", [a]), 0.013, 90)], axis=1)
    proto = file.model(file.rounded(y, 0.02, 131), 1, 8, 5, 5)
    program = load(proto)
    report = explain(program)["fuse_qdq"]
    assert "its inputs are rounded to the scale 0.02" in report.matched[0]
    assert names(program).count("quantize_linear") == 3  # of the first input none
    assert all(v.dtype == "uint8" for op in program.block if op.name == "concat" for v in op.inputs)
    np.testing.assert_array_equal(run(program, x)[0], ReferenceEvaluator(proto).run(None, {"x": x})[0])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_result_in_8_bits_stays_one(dtype):
    file, x = File(dtype), weights(1, 8, 5, 5)
    layer(file, filters=4)
    *_, y = (node.output[0] for node in file.nodes if node.op_type == "QuantizeLinear")
    proto = file.model(y, 1, 8, 5, 5)
    (found,), (wanted,) = run(load(proto), x), ReferenceEvaluator(proto).run(None, {"x": x})
    assert found.dtype == wanted.dtype == dtype and np.abs(found.astype(int) - wanted).max() <= 1


def test_another_batch_and_size_run_without_a_new_trace():
    file = File()
    proto = file.model(layer(file, filters=8, pads=[1, 1, 1, 1], residual=True), "N", 8, "H", "W")
    program, x = load(proto, {"x": (1, 8, 5, 5)}), weights(3, 8, 7, 9)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    assert steps_between(run(program, x)[0], wanted, 0.031).max() <= 1


# -- what does not fit
def by_channel(file):
    """An image with a scale for each channel."""
    steps = [file.constant(np.linspace(0.01, 0.03, 8, dtype=np.float32)), file.constant(np.full(8, 131, np.uint8))]
    q = file.node("QuantizeLinear", ["x", *steps], axis=1)
    return file.node("DequantizeLinear", [q, *steps], axis=1)


def odd_zero(file):
    q = np.random.default_rng(0).integers(0, 256, (4, 8, 3, 3)).astype(np.uint8)
    inputs = [file.constant(q), file.constant(np.float32(0.01)), file.constant(np.uint8(3))]
    return file.node("DequantizeLinear", inputs)


MISFITS = {
    "an image with a scale for each channel": (
        by_channel,
        lambda file: file.weight(weights(4, 8, 3, 3))[0],
        "its input is not in 8 bits of one scale",
    ),
    "a zero point beyond int8": (
        lambda file: file.rounded("x", 0.02, 131),
        odd_zero,
        "its weights less their zero points reach from -3 to 252, beyond int8",
    ),
    "a scale for each channel of the input": (
        lambda file: file.rounded("x", 0.02, 131),
        lambda file: file.weight(weights(4, 8, 3, 3), axis=1)[0],
        "its weights are no constants in 8 bits with a scale for each filter",
    ),
    "float weights": (
        lambda file: file.rounded("x", 0.02, 131),
        lambda file: file.constant(weights(4, 8, 3, 3)),
        "its weights are no constants in 8 bits with a scale for each filter",
    ),
    "a scale that is not finite": (
        lambda file: file.rounded("x", 0.02, 131),
        lambda file: file.node("DequantizeLinear", [file.constant(np.ones((4, 8, 3, 3), np.int8)),
                               file.constant(np.full(4, np.inf, np.float32))], axis=0),
        "its weights or biases are not finite in steps of its result",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_stays_in_float32_and_the_report_says_why(case):
    (image, weight, why), file, x = MISFITS[case], File(), weights(1, 8, 6, 6)
    y = file.rounded(file.node("Conv", [image(file), weight(file)]), 0.05, 120)
    proto = file.model(y, 1, 8, 6, 6)
    program = load(proto)
    assert "conv2d" in names(program) and "quantized_conv2d" not in names(program)
    (line,) = explain(program)["fuse_qdq"].missed
    assert "stays in float32: " + why in line
    if "finite" not in why:
        (found,), (wanted,) = run(program, x), ReferenceEvaluator(proto).run(None, {"x": x})
        assert steps_between(found, wanted, 0.05).max() <= 1


def test_int4_weights_are_refused_by_name():
    file = File()
    y = file.node("Conv", [file.rounded("x", 0.02, 131), "w"])
    proto = file.model(y, 1, 8, 6, 6)
    proto.graph.node.insert(0, helper.make_node("DequantizeLinear", ["q", "s"], ["w"]))
    q = helper.make_tensor("q", onnx.TensorProto.INT4, [4, 8, 1, 1], np.ones(32, np.int8))
    proto.graph.initializer.extend([q, numpy_helper.from_array(np.float32(0.1), "s")])
    with pytest.raises(NotSupportedError, match="the weight 'q' is int4; the core has no such"):
        load(proto)


def test_a_nan_in_an_image_is_an_error():
    file, x = File(), weights(1, 8, 6, 6)
    x[0, 1, 2, 3] = np.nan
    with pytest.raises(NumericsError, match="quantize_linear: x holds a NaN"):
        run(load(file.model(layer(file, filters=4), 1, 8, 6, 6)), x)


def test_a_file_with_gradients_goes_by_its_arithmetic():
    file = File()
    flat = file.node("GlobalAveragePool", [layer(file, filters=4)])
    y = file.node("MatMul", [file.node("Flatten", [flat]), file.constant(weights(4, 3))])
    net = open_model(file.model(y, 1, 8, 6, 6))
    (head,) = (t for _, t in net.named_parameters())
    (out,) = net(framework.from_numpy(weights(1, 8, 6, 6)))
    ops.sum(out).backward()
    assert head.grad is not None and np.abs(head.grad.numpy()).sum() > 0


# -- files of ONNX Runtime's quantizer
def network():
    """Convolutions of several kinds, a sum, pooling, a concatenation, resizing, a product."""
    first, depth = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
    wide, third, last = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(32, 8, 1)
    head = nn.Linear(8, 10)

    def call(x):
        c = wide(ops.relu(depth(ops.relu6(first(x)))))
        d = ops.max_pool2d(ops.relu(third(c) + c), kernel=2, stride=2)
        e = ops.concat([c, ops.resize_nearest(d, scale=[2, 2])], axis=3)
        return head(ops.mean(ops.relu(last(e)), axes=[1, 2]))

    return call


@pytest.fixture(scope="module")
def float_file(tmp_path_factory):
    framework.manual_seed(0)
    x = weights(1, 16, 16, 3)
    with framework.no_grad():
        compiled = framework.program(network(), pass_names=EXPORT_PASSES).program_for(framework.from_numpy(x))
    path = tmp_path_factory.mktemp("qdq") / "float.onnx"
    export(compiled.program, path)
    return path


def multiplies_bytes():
    """Whether the processor has dot products of bytes (VNNI, or those of ARM)."""
    told = Path("/proc/cpuinfo")
    return told.exists() and not {"avx512_vnni", "avx_vnni", "asimddp"}.isdisjoint(told.read_text().split())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["QUInt8", "QInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_file_of_onnx_runtime_s_quantizer_has_its_whole_numbers(float_file, tmp_path, kind, per_channel):
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    tool = pytest.importorskip("onnxruntime.quantization", reason="the package onnxruntime is not installed")
    runtime.set_default_logger_severity(4)
    name = onnx.load(float_file).graph.input[0].name

    class Pictures(tool.CalibrationDataReader):
        def __init__(self):
            self.left = [{name: weights(1, 16, 16, 3, seed=i)} for i in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    try:
        tool.quantize_static(
            str(float_file),
            str(tmp_path / "qdq.onnx"),
            Pictures(),
            quant_format=tool.QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=tool.QuantType[kind],
            weight_type=tool.QuantType.QInt8,
        )
    finally:
        logging.disable(logging.NOTSET)
    proto = onnx.load(tmp_path / "qdq.onnx")
    program = load(proto, {name: (1, 16, 16, 3)})
    assert names(program).count("quantized_conv2d") == 6 and "conv2d" not in names(program)
    scales = {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}
    scale = float(next(scales[n.input[1]] for n in reversed(proto.graph.node) if n.op_type == "DequantizeLinear"))
    levels = [runtime.GraphOptimizationLevel.ORT_DISABLE_ALL]
    if multiplies_bytes():  # without the instruction its 8-bit kernels saturate sums of two products
        levels.append(runtime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    for level in levels:
        options = runtime.SessionOptions()
        options.graph_optimization_level = level
        session = runtime.InferenceSession(str(tmp_path / "qdq.onnx"), options, providers=["CPUExecutionProvider"])
        for seed in range(10, 13):
            x = weights(1, 16, 16, 3, seed=seed)
            (found,), (wanted,) = run(program, x), session.run(None, {name: x})
            assert steps_between(found, wanted, scale).max() <= 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["QUInt8", "QInt8"])
def test_a_file_that_rounds_by_what_it_sees_gives_what_onnx_runtime_does(float_file, tmp_path, kind):
    """`quantize_dynamic`: ConvInteger and MatMulInteger behind DynamicQuantizeLinear."""
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    tool = pytest.importorskip("onnxruntime.quantization", reason="the package onnxruntime is not installed")
    runtime.set_default_logger_severity(4)
    path, x = str(tmp_path / "dynamic.onnx"), weights(1, 16, 16, 3, seed=10)
    logging.disable(logging.WARNING)
    try:
        tool.quantize_dynamic(str(float_file), path, weight_type=tool.QuantType[kind])
    finally:
        logging.disable(logging.NOTSET)
    assert any(node.op_type == "ConvInteger" for node in onnx.load(path).graph.node)
    (found,) = Session(open_model(path)).run([x])
    (wanted,) = ReferenceEvaluator(path).run(None, {onnx.load(path).graph.input[0].name: x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_the_session_runs_it_in_8_bits_too():
    file, x = File(), weights(1, 8, 6, 6)
    proto = file.model(layer(file, filters=4), 1, 8, 6, 6)
    session = Session(open_model(proto))
    np.testing.assert_array_equal(session.run([x])[0], run(load(proto), x)[0])
    assert not session.is_eager
