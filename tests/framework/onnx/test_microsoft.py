"""Operators of com.microsoft: ONNX Runtime's numbers, as eager and as Program; what means more is refused by name."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

from framework.errors import NotSupportedError
from framework.onnx import Session, load, open_model
from tests.framework.onnx.models import weights

TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int64": TensorProto.INT64,
         "int32": TensorProto.INT32}  # fmt: skip


def whole(*shape, low=0, high=256, dtype="uint8"):
    return np.random.default_rng(list(shape)).integers(low, high, shape).astype(dtype)


def f32(value):
    return np.float32(value)


X, IMAGE = weights(2, 5, 8), weights(2, 3, 9, 7)
W, B = weights(4, 3, 3, 3) / 3, weights(4, seed=1)
G, S, B2 = (weights(8, seed=seed) for seed in (2, 3, 4))
IDS, KINDS, MASK = (
    whole(2, 5, high=11, dtype="int32"),
    whole(2, 5, high=2, dtype="int32"),
    whole(2, 5, high=2, dtype="int32"),
)
MASK[:, 0] = 1
PLACES = whole(2, 5, high=6, dtype="int32")
TABLES = (weights(11, 8), weights(6, 8, seed=4), weights(2, 8, seed=5))
QKV, QKV_BIAS = weights(8, 24) / 2, weights(24)
A8, B8 = whole(2, 5, 8), whole(1, 8)
ADD = [f32(0.1131), np.uint8(120), B8, f32(0.0737), np.uint8(9), f32(0.2171), np.uint8(99)]  # no quotient is a half
MUL = [f32(0.1131), np.uint8(120), B8, f32(0.0737), np.uint8(9), f32(0.9173), np.uint8(99)]
ADD8 = [f32(0.1131), np.int8(1), B8.astype("int8"), f32(0.2171), np.int8(-9), f32(0.2339), np.int8(3)]


def conv(activation, *numbers, z=False):
    given = {"activation": activation, "pads": [1, 1, 1, 1], "strides": [2, 1]}
    more = [weights(2, 4, 5, 7, seed=6)] if z else []
    return "FusedConv", [IMAGE, W, B, *more], given | ({"activation_params": list(numbers)} if numbers else {}), 1


CASES = {
    "Gelu": ("Gelu", [X], {}, 1),
    "BiasGelu": ("BiasGelu", [X, G], {}, 1),
    "FastGelu": ("FastGelu", [X], {}, 1),
    "FastGelu with a bias": ("FastGelu", [X, G], {}, 1),
    "QuickGelu": ("QuickGelu", [X], {}, 1),
    "QuickGelu 1": ("QuickGelu", [X], {"alpha": 1.0}, 1),
    "FusedMatMul": ("FusedMatMul", [X, weights(2, 6, 8)], {"transB": 1, "alpha": 0.5}, 1),
    "FusedMatMul of the first": ("FusedMatMul", [X, weights(2, 5, 3)], {"transA": 1}, 1),
    "FusedConv": conv("Relu"),
    "FusedConv with a sum": conv("Relu", z=True),
    "FusedConv tanh": conv("Tanh"),
    "FusedConv sigmoid": conv("Sigmoid"),
    "FusedConv leaky": conv("LeakyRelu", 0.2),
    "FusedConv clip": conv("Clip", -0.5, 0.7),
    "FusedConv hard sigmoid": conv("HardSigmoid", 0.3, 0.4),
    "SkipLayerNormalization": ("SkipLayerNormalization", [X, weights(2, 5, 8, seed=1), G, S], {"epsilon": 1e-3}, 1),
    "SkipLayerNormalization with a bias": ("SkipLayerNormalization", [X, weights(2, 5, 8, seed=1), G, S, B2], {}, 4),
    "EmbedLayerNormalization": ("EmbedLayerNormalization", [IDS, KINDS, *TABLES, G, S], {"epsilon": 1e-5}, 2),
    "EmbedLayerNormalization of places": (
        "EmbedLayerNormalization", [IDS, None, *TABLES[:2], None, G, S, None, PLACES], {}, 2),
    "Attention": ("Attention", [X, QKV, QKV_BIAS], {"num_heads": 2}, 1),
    "Attention with a mask": ("Attention", [X, QKV, QKV_BIAS, MASK], {"num_heads": 4}, 1),
    "Attention with a scale": ("Attention", [X, QKV, QKV_BIAS, MASK], {"num_heads": 4, "scale": 0.3}, 1),
    "QLinearAdd": ("QLinearAdd", [A8, *ADD], {}, 1),
    "QLinearAdd of int8": ("QLinearAdd", [A8.astype("int8"), *ADD8], {}, 1),
    "QLinearMul": ("QLinearMul", [A8, *MUL], {}, 1),
}  # fmt: skip


def proto(op, inputs, attributes, outputs):
    """The operator with its first input from outside and the others as constants; only the first and last are read."""
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(inputs)]
    results = ["y", *[""] * (outputs - 2), *(["last"] if outputs > 1 else [])]
    first = helper.make_tensor_value_info("i0", TYPES[str(inputs[0].dtype)], inputs[0].shape)
    constants = [
        numpy_helper.from_array(np.asarray(a), n) for a, n in zip(inputs, names, strict=True) if n and n != "i0"
    ]
    nodes = [helper.make_node(op, names, results, domain="com.microsoft", **attributes)]
    shown = [helper.make_empty_tensor_value_info(n) for n in results if n]
    graph = helper.make_graph(nodes, "test", [first], shown, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def theirs(model, x):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"i0": x}
    )


@pytest.mark.parametrize("name", CASES)
def test_results_are_onnx_runtimes(name, tmp_path):
    op, inputs, attributes, outputs = CASES[name]
    model = proto(op, inputs, attributes, outputs)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    wanted = theirs(model, inputs[0])
    found = Session(open_model(tmp_path / "m.onnx")).run([inputs[0]])
    assert len(found) == len(wanted)
    for ours, other in zip(found, wanted, strict=True):
        assert ours.dtype == other.dtype and ours.shape == other.shape
        if other.dtype == np.float32:
            np.testing.assert_allclose(ours, other, rtol=1e-5, atol=2e-5 * np.abs(other).max())
        else:  # halves may be rounded the other way where the quotient is off by float32's rounding
            assert np.abs(ours.astype(int) - other.astype(int)).max() <= 1 and np.mean(ours != other) < 0.02


REFUSED = {
    "activation 'Softplus'": conv("Softplus"),
    "activation 'LeakyRelu' with 0 parameters": conv("LeakyRelu"),
    "attribute rotary_embedding_dim": ("Attention", [X, QKV, QKV_BIAS], {"num_heads": 2, "rotary_embedding_dim": 4}, 1),
    "attribute strange": ("BiasGelu", [X, G], {"strange": 1}, 1),
    "transBatchA": ("FusedMatMul", [X, weights(2, 5, 8)], {"transBatchA": 1}, 1),
    "unidirectional": ("Attention", [X, QKV, QKV_BIAS], {"num_heads": 2, "unidirectional": 1}, 1),
    "qkv_hidden_sizes": ("Attention", [X, QKV, QKV_BIAS], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 8]}, 1),
    "mask_index of 1 axes": ("Attention", [X, QKV, QKV_BIAS, whole(2, high=5, dtype="int32")], {"num_heads": 2}, 1),
    "past_and_further_inputs": ("Attention", [X, QKV, QKV_BIAS, None, weights(2, 2, 2, 3, 4)], {"num_heads": 2}, 1),
    "mask is": ("EmbedLayerNormalization", [IDS, KINDS, *TABLES, G, S, MASK], {}, 1),
    "com.microsoft.NhwcConv": ("NhwcConv", [IMAGE, W], {}, 1),
    "com.microsoft.QAttention": ("QAttention", [A8, QKV], {"num_heads": 2}, 1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_means_more_is_refused_by_name(what, tmp_path):
    op, inputs, attributes, outputs = REFUSED[what]
    (tmp_path / "m.onnx").write_bytes(proto(op, inputs, attributes, outputs).SerializeToString())
    with pytest.raises(NotSupportedError, match=what):
        Session(open_model(tmp_path / "m.onnx")).run([inputs[0]])


def test_a_network_that_onnx_runtimes_optimiser_wrote_has_the_numbers_of_the_one_before(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    from tests.framework.onnx.models import small_cnn

    plain = small_cnn(batch=2)
    plain.ir_version = 8
    (tmp_path / "plain.onnx").write_bytes(plain.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "plain.onnx"), options, providers=["CPUExecutionProvider"])
    images = weights(2, 3, 12, 12)
    (wanted,) = Session(open_model(tmp_path / "plain.onnx")).run([images])
    (found,) = Session(open_model(tmp_path / "fused.onnx")).run([images])
    assert b"FusedConv" in (tmp_path / "fused.onnx").read_bytes()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    assert load(tmp_path / "fused.onnx") is not None
