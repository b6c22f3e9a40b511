"""A Program in 8 bits: which products, how near to float32 it stays, and how it is saved and run."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, ops, program
from framework.errors import AttributeValueError, DTypeError, NumericsError, ShapeError
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES
from framework.onnx import load as load_onnx
from framework.onnx.export import to_model
from framework.predictor import Predictor
from framework.quantization import METHODS, quantize, quantize_trained, ranges_of
from tests.framework.quantization.helpers import constant


class Network(nn.Layer):
    """Two wide layers, a residual, and a head that is too small to matter."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 3)
        rng = np.random.default_rng(0)
        for name, p in self.named_parameters():
            p.name = name
            p.set(framework.tensor((rng.standard_normal(p.shape) / np.sqrt(p.shape[-1])).astype(np.float32)))

    def forward(self, x):
        return self.head(x + self.second(ops.gelu(self.first(x))))


def traced(function, *inputs, passes=INFERENCE_PASSES):
    tensors = [framework.from_numpy(x) for x in inputs]
    for i, t in enumerate(tensors):
        t.name = f"in{i}"
    with no_grad():
        return program(function, pass_names=passes).program_for(*tensors).program


def run(p, *inputs):
    return [t.numpy() for t in CompiledProgram(p).run([framework.from_numpy(x) for x in inputs])]


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def names(p):
    return [op.name for op in p.block]


def report(p):
    return explain(p)["quantize"]


X = normal(40, 64)


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_products_become_8_bit_and_stay_near(mode):
    """Each rounding is at most half of a step of largest / 127; over a sum of 64 or 128 such errors add as noise."""
    whole = traced(Network(), X)
    got = quantize(whole, mode=mode, calibration=[[X]])
    assert names(got).count("quantized_matmul") == 2 and names(got).count("matmul") == 1
    assert [m.split(": ")[-1].split(",")[0] for m in report(got).matched] == [
        mode + " (abs_max)" * (mode == "static")
    ] * 2
    assert report(got).missed == [m for m in report(got).missed if "it has 192 weights only (smallest=4096)" in m]
    (expected,), (found,) = run(whole, X), run(got, X)
    # 127 steps of x and of w are at most 4.5 and 4 deviations; a product has the error of both, uniform in a step.
    noise = np.sqrt((4.5**2 + 4**2) / 12) / 127
    assert 0 < np.abs(found - expected).std() < 2 * np.sqrt(2) * noise * expected.std()


def test_the_float_program_is_left_as_it_was():
    whole = traced(Network(), X)
    text = str(whole)
    quantize(whole)
    assert str(whole) == text and not report(whole).matched


def test_the_sums_are_those_of_the_rounded_weights():
    """Weights that are 8-bit numbers times a scale, and inputs that are too, come out exactly."""
    w = np.random.default_rng(0).integers(-127, 128, (80, 64)).astype(np.float32)
    w[:, 0] = 127
    layer = nn.Linear(64, 80, bias=False)
    layer.weight.set(framework.tensor(w))
    x = np.random.default_rng(1).integers(-127, 128, (9, 64)).astype(np.float32)
    x[:, 0] = 127
    np.testing.assert_array_equal(run(quantize(traced(layer, x)), x)[0], x @ w.T)


def test_bias_activation_and_residual_stay_in_the_product():
    w = [framework.tensor(normal(64, 64, seed=i)) for i in range(2)]
    b = framework.tensor(normal(64))
    for t in (*w, b):
        t.persistable = True

    def f(x):
        return ops.relu(ops.matmul(ops.relu(ops.matmul(x, w[0], b)), w[1], b, transpose_b=True) + x)

    whole = traced(f, X)
    got = quantize(whole)
    assert names(whole) == ["matmul"] * 2 and names(got) == ["quantized_matmul"] * 2
    assert [op.attr("activation") for op in got.block] == ["relu", "relu"]
    expected, found = run(whole, X)[0], run(got, X)[0]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_a_weight_that_two_products_share_is_stored_once():
    w = framework.tensor(normal(64, 64))
    w.persistable = True
    got = quantize(traced(lambda x: ops.matmul(ops.matmul(x, w), w), X))
    assert names(got) == ["quantized_matmul"] * 2
    assert sorted(v.dtype for v in got.constants) == ["float32", "int8"]


def test_a_table_that_is_also_a_product_s_weight_is_stored_once():
    """As a language model's words: rows of the table have the scales of the product's columns."""
    table = framework.tensor(normal(90, 64))
    table.persistable, table.name = True, "words"
    ids = np.array([3, 89, 0])
    whole = traced(lambda i: ops.matmul(ops.embedding(table, i), table, transpose_b=True), ids)
    got = quantize(whole)
    assert names(got) == ["quantized_embedding", "quantized_matmul"]
    assert {v.name: v.dtype for v in got.constants} == {"words.int8": "int8", "words.scale": "float32"}
    assert report(got).matched[0].endswith(f"'words' (test_quantize.py:{where(whole)}), int8[90, 64]: table")
    expected, found = run(whole, ids)[0], run(got, ids)[0]
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    kept = quantize(whole, tables=False)
    assert names(kept) == ["embedding", "quantized_matmul"]


def where(p):
    return int(p.block.ops[0].where.rsplit(":", 1)[1])


@pytest.mark.parametrize("keep", [["first.*"], lambda op: op.inputs[1].name == "first.weight"])
def test_what_is_kept_stays_in_float32(keep):
    got = quantize(traced(Network(), X), keep=keep)
    assert names(got).count("quantized_matmul") == 1
    assert any("'first.weight'" in m and m.endswith("it is to be kept") for m in report(got).missed)


@pytest.mark.parametrize("mode", [{}, {"mode": "static", "calibration": [[X]]}])
def test_all_of_a_network_can_be_kept_weights_without_a_name_too(mode):
    whole = traced(lambda x: ops.matmul(ops.matmul(x, constant(normal(64, 64), "named")), constant(normal(64, 64))), X)
    assert names(quantize(whole, keep=["named"], **mode)) == ["matmul", "quantized_matmul"]
    kept = quantize(whole, keep=["*"], **mode)
    assert names(kept) == ["matmul", "matmul"]
    np.testing.assert_array_equal(run(kept, X)[0], run(whole, X)[0])


def test_what_has_no_8_bit_form_is_told_with_the_reason():
    conv, product = nn.Conv2d(8, 16, 3), framework.tensor(normal(64, 64).astype(np.float64))
    product.persistable = True

    def f(x, image, wide):
        return ops.matmul(x, x, transpose_b=True), conv(image), ops.matmul(wide, product)

    got = quantize(traced(f, X, normal(1, 9, 9, 8), X.astype(np.float64)))
    assert not report(got).matched
    assert [m.split(" stays in float32: ")[1] for m in report(got).missed] == [
        "its second factor is computed, not a constant",
        "convolutions have ranges that calibration finds; take mode 'static'",
        "it is float64",
    ]


def test_weights_that_are_not_finite_are_not_hidden():
    layer = nn.Linear(64, 64)
    w = normal(64, 64)
    w[3, 4] = np.nan
    layer.weight.set(framework.tensor(w))
    assert "its weights are not all finite" in report(quantize(traced(layer, X))).missed[0]


def test_products_in_control_flow_are_dynamic():
    layer = nn.Linear(64, 64)

    def f(x):
        return framework.while_loop(
            lambda i, y: ops.less(i, 3), lambda i, y: (i + 1, layer(y)), (ops.full(shape=(), value=0, dtype="int64"), x)
        )[1]

    whole = traced(f, X)
    got = quantize(whole, mode="static", calibration=[[X]])
    (line,) = report(got).matched
    assert line.startswith("in loop") and line.endswith("dynamic, being inside control flow")
    expected, found = run(whole, X)[0], run(got, X)[0]
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


class Looks(nn.Layer):
    """A head of two convolutions and a product on some rows [N, 8, 8, 4] of all, in a block unless it is `flat`."""

    def __init__(self):
        super().__init__()
        self.before = nn.Conv2d(4, 4, 3, padding=1)
        self.first, self.second, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3), nn.Linear(512, 3)
        nn.init.initialize(self, 0)
        for name, p in self.named_parameters():
            p.name = name

    def looked(self, x):
        return self.last(ops.flatten(ops.relu(self.second(ops.relu(self.first(x))))))

    def forward(self, x, flat=False):
        x = ops.relu(self.before(x))
        if flat:
            return self.looked(x)

        def yes(row):
            return self.looked(ops.expand_dims(row, axis=0))

        def no(row):
            return ops.full(shape=(1, 3), value=0.0) + ops.sum(row) * 0.0

        def step(_, row):
            return (), framework.cond(ops.max(row) > 0.0, yes, no, row)

        return ops.squeeze(framework.scan(step, (), x)[1], axis=1)


ROWS = normal(6, 8, 8, 4)


def looked(flat=False, passes=INFERENCE_PASSES):
    layer = Looks()
    return traced(lambda x: layer(x, flat), ROWS, passes=passes)


@pytest.mark.parametrize("passes", [INFERENCE_PASSES, EXPORT_PASSES])
def test_layers_in_control_flow_have_the_ranges_of_the_network_without_it(passes):
    settings = {"mode": "static", "calibration": [[ROWS]], "smallest": 0, "bias_correction": False}
    whole = looked(passes=passes)
    got, flat = quantize(whole, flat=looked(True, passes), **settings), quantize(looked(True, passes), **settings)
    inside = [line for line in report(got).matched if line.startswith("in scan")]
    assert len(inside) == 3 and all("static (abs_max)" in line for line in inside) and not report(got).missed
    np.testing.assert_allclose(run(got, ROWS)[0], run(flat, ROWS)[0], rtol=0, atol=1e-6)
    alone = quantize(whole, **settings)
    assert not any("conv2d" in line for line in report(alone).matched if line.startswith("in scan"))


def test_layers_in_control_flow_are_in_8_bits_in_an_onnx_file_too():
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    how = {"mode": "static", "calibration": [[ROWS]], "smallest": 0, "flat": looked(True, EXPORT_PASSES)}
    got = quantize(looked(passes=EXPORT_PASSES), **how)
    again = load_onnx(to_model(got).SerializeToString(), {"in0": ROWS.shape})
    np.testing.assert_allclose(run(again, ROWS)[0], run(got, ROWS)[0], rtol=0, atol=1e-5)


def test_layers_in_control_flow_can_be_kept_or_read_16_bits():
    how = {"mode": "static", "calibration": [[ROWS]], "smallest": 0, "flat": looked(True)}
    lines = report(quantize(looked(), keep=("first.*",), sixteen=("second.*",), **how)).matched
    assert not any("'first.weight'" in line or "'second.weight'" in line for line in lines)
    assert any("'last.weight'" in line for line in lines)


def test_what_training_found_reaches_into_control_flow():
    ranges = ranges_of(looked(True), [[ROWS]], smallest=0)
    got, flat = (quantize_trained(looked(f), ranges) for f in (False, True))
    assert sum(line.startswith("in scan") for line in report(got).matched) == 3
    np.testing.assert_allclose(run(got, ROWS)[0], run(flat, ROWS)[0], rtol=0, atol=1e-6)
    some = [r for r in ranges if not any(role.startswith("last") for role in r.roles)]
    assert not any("'last.weight'" in line for line in report(quantize_trained(looked(), some)).matched)


def test_a_trained_layer_that_is_called_in_control_flow_and_elsewhere_is_one_error():
    layer = Looks()
    whole = traced(lambda x: [layer(x), layer.first(x)], ROWS)
    ranges = ranges_of(traced(lambda x: [layer(x, True), layer.first(x)], ROWS), [[ROWS]], smallest=0)
    with pytest.raises(AttributeValueError, match=r"'first.weight' was trained in 8 bits and is called 2 times"):
        quantize_trained(whole, ranges)


def test_a_trained_sum_in_control_flow_is_one_error():
    layer = Looks()
    layer.other, layer.end = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 8, 3)
    nn.init.initialize(layer, 0)
    for name, p in layer.named_parameters():
        p.name = name

    def summed(x):
        one, two = (ops.max_pool2d(part(x), kernel=1, stride=1) for part in (layer.before, layer.other))
        return layer.end(one + two)

    def chosen(x):
        return framework.cond(ops.max(x) > 0.0, summed, lambda x: ops.concat([x, x], axis=3), x)

    ranges = ranges_of(traced(summed, ROWS), [[ROWS]], smallest=0)
    with pytest.raises(AttributeValueError, match="sums of layers that were trained in 8 bits"):
        quantize_trained(traced(chosen, ROWS), ranges)


def test_a_saved_program_is_a_quarter_and_gives_the_same_bits(tmp_path):
    whole = traced(nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 64)), X)
    got = quantize(whole, mode="static", calibration=[[X]], method="mse")
    for p, folder in ((whole, tmp_path / "float"), (got, tmp_path / "int8")):
        save_program(p, folder)
    sizes = [(tmp_path / kind / "weights.safetensors").stat().st_size for kind in ("float", "int8")]
    assert sizes[1] < 0.3 * sizes[0]
    (found,) = Predictor(tmp_path / "int8").run([X])
    assert found.tobytes() == run(got, X)[0].tobytes()


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_onnx_holds_the_8_bit_weights_and_gives_the_same_bits(mode):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    import onnx.reference

    layer = nn.Linear(64, 80)
    layer.bias.set(framework.tensor(normal(80)))
    got = quantize(traced(layer, X, passes=EXPORT_PASSES), mode=mode, calibration=[[X * 0.7]])
    proto = to_model(got)
    stored = {i.name: i.data_type for i in proto.graph.initializer}
    assert onnx.TensorProto.INT8 in stored.values() and "MatMulInteger" in {n.op_type for n in proto.graph.node}
    (found,) = onnx.reference.ReferenceEvaluator(proto).run(None, {"in0": X})
    np.testing.assert_array_equal(found, run(got, X)[0])


@pytest.mark.parametrize("method", METHODS)
def test_static_ranges_come_from_all_batches(method):
    got = quantize(
        traced(Network(), X),
        mode="static",
        calibration=({"in0": normal(8, 64, seed=i)} for i in range(5)),
        method=method,
    )
    scales = [float(got_array(got, op.inputs[5])) for op in got.block if op.name == "quantized_matmul"]
    largest = max(float(np.abs(normal(8, 64, seed=i)).max()) for i in range(5))
    assert len(scales) == 2 and 0 < scales[0] <= np.float32(largest / 127)
    if method == "abs_max":
        assert scales[0] == np.float32(largest / 127)


def got_array(p, v):
    return framework.Tensor(p.constants[v]).numpy()


def test_an_input_that_calibration_never_sees_above_zero_stays_in_float():
    layer = nn.Linear(64, 64)
    got = quantize(traced(lambda x: layer(ops.relu(x)), X), mode="static", calibration=[[-np.abs(X)]])
    assert "its input was 0 all through calibration" in report(got).missed[0] and names(got)[-1] == "matmul"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"mode": "int8"}, AttributeValueError, "mode is 'int8'; takes 'dynamic', 'static'"),
        ({"method": "hist"}, AttributeValueError, "method is 'hist'; takes 'abs_max', 'average', 'percentile'"),
        ({"mode": "static"}, AttributeValueError, "calibration has no batch; give inputs of the Program"),
        ({"mode": "static", "calibration": [[X, X]]}, AttributeValueError, "batch 0 has 2 inputs; .* takes in0"),
        ({"mode": "static", "calibration": [{"x": X}]}, AttributeValueError, "batch 0 has no in0; .* takes in0"),
        (
            {"mode": "static", "calibration": [[X.astype(int)]]},
            DTypeError,
            "in0 is int64 but the Program takes float32",
        ),
        ({"mode": "static", "calibration": [[X], [X[0]]]}, ShapeError, r"batch 1: in0 has shape \[64\]"),
        (
            {"mode": "static", "calibration": [[X * np.inf]]},
            NumericsError,
            "batch 0: the input of .* NaN or an infinity",
        ),
    ],
)
def test_bad_arguments_are_refused_with_a_clear_message(arguments, error, match):
    with pytest.raises(error, match=match):
        quantize(traced(Network(), X), **arguments)


def test_a_program_that_trains_is_refused():
    state = framework.tensor(np.zeros(64, np.float32))
    state.persistable = True

    def step(x):
        state.set(state + ops.sum(x, axes=0))
        return x

    with pytest.raises(AttributeValueError, match="updates 1 states, so it trains"):
        quantize(traced(step, X))
