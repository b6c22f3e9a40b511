"""8-bit images as DequantizeLinear and QuantizeLinear, read back: the same integers to one step."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx

import framework
from framework import nn, ops
from framework.graph import explain
from framework.graph.compiled import CompiledProgram
from framework.onnx import EXPORT_PASSES, Session, export, load, open_model
from framework.onnx.export import to_model
from framework.quantization import quantize
from tests.framework.onnx.test_export import SPECS, exported_sample

CASES = [
    pytest.param(SPECS[name], i, id=f"{name}-{i}")
    for name in ("dequantize_linear", "quantized_add", "quantized_conv2d")
    for i, sample in enumerate(SPECS[name].samples)
    if sample.inputs[0].size
]


@pytest.mark.parametrize(("spec", "i"), CASES)
def test_an_operator_read_back_differs_by_one_step_at_most(spec, i, tmp_path):
    call, present, proto = exported_sample(spec, i)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, tmp_path / "model.onnx")
    (found,) = Session(open_model(tmp_path / "model.onnx")).run([t.numpy() for t in present])
    (wanted,) = (t.numpy() for t in call(*present))
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    else:
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


def test_a_network_s_biases_are_whole_numbers_that_runtimes_want(tmp_path):
    x = np.random.default_rng(0).standard_normal((1, 9, 9, 4)).astype(np.float32)
    first, second = nn.Conv2d(4, 8, 3), nn.Conv2d(8, 4, 1)
    with framework.no_grad():
        net = framework.program(lambda x: second(ops.relu(first(x))), pass_names=EXPORT_PASSES)
        whole = net.program_for(framework.from_numpy(x)).program
    small = quantize(whole, mode="static", calibration=[[x]])
    proto = to_model(small)
    assert [n.op_type for n in proto.graph.node].count("QuantizeLinear") == 2
    assert sum(t.data_type == onnx.TensorProto.INT32 for t in proto.graph.initializer) >= 2
    export(small, tmp_path / "model.onnx")
    (found,) = Session(open_model(tmp_path / "model.onnx")).run([x])
    (wanted,) = (t.numpy() for t in CompiledProgram(small).run([framework.from_numpy(x)]))
    step = np.abs(wanted).max() / 100  # a rounding turned in the first layer moves the second by about a step
    np.testing.assert_allclose(found, wanted, rtol=0, atol=step)


def network():
    """Convolutions of several kinds with a residual, pooling, resizing, a sum and a concatenation."""
    first, depth = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
    wide, third, last = nn.Conv2d(8, 16, 1, bias=False), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(32, 4, 1)

    def call(x):
        c = wide(ops.leaky_relu(depth(ops.relu6(first(x))), slope=0.1))
        d = ops.resize_nearest(ops.max_pool2d(ops.relu(third(c) + c), kernel=2, stride=2), scale=[2, 2])
        e = ops.concat([d, c + d], axis=3)
        return last(e), ops.mean(e, axes=[1, 2])

    return call


@pytest.mark.parametrize("bias_correction", [False, True])
def test_a_network_read_back_has_the_same_operators_and_bits(bias_correction):
    framework.manual_seed(0)
    images = [np.random.default_rng(i).standard_normal((1, 16, 16, 3)).astype(np.float32) for i in range(3)]
    with framework.no_grad():
        compiled = framework.program(network(), pass_names=EXPORT_PASSES).program_for(framework.from_numpy(images[0]))
    small = quantize(
        compiled.program, mode="static", calibration=[[x] for x in images], bias_correction=bias_correction
    )
    again = load(to_model(small).SerializeToString(), {"input0": (1, 16, 16, 3)})
    assert not explain(again)["fuse_qdq"].missed
    assert [steps_of(op) for op in again.block] == [steps_of(op) for op in small.block]
    for x in images:
        ours, theirs = (CompiledProgram(p).run([framework.from_numpy(x)]) for p in (small, again))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def steps_of(op):
    """An operator, and the scales and zeros that it has."""
    names = [a["name"] for a in op.info.attrs if a["name"].endswith(("_scale", "_zero")) or a["name"] == "activation"]
    return op.name, [op.attr(name) for name in names]
