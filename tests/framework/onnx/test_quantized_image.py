"""8-bit images as DequantizeLinear and QuantizeLinear, read back: the same integers to one step."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx

import framework
from framework import nn, ops
from framework.graph.compiled import CompiledProgram
from framework.onnx import EXPORT_PASSES, Session, export, open_model
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
