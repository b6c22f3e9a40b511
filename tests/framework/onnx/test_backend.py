"""The interface that the ONNX project defines for back ends."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper

from framework.errors import AttributeValueError
from framework.onnx.backend import PaddockBackend, prepare, run_model, run_node, supports_device
from tests.framework.onnx.models import model, small_cnn, weights


def test_a_prepared_model_takes_inputs_by_position_and_by_name():
    rep, x = prepare(small_cnn()), weights(2, 3, 12, 12)
    (a,), (b,) = rep.run([x]), rep.run({"x": x})
    assert a.shape == (2, 5)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(run_model(small_cnn(), [x])[0], a)


def test_one_node_runs_alone():
    node = helper.make_node("Gemm", ["a", "b", ""], ["y"], alpha=2.0)
    (y,) = run_node(node, [np.eye(2, dtype=np.float32), np.ones((2, 3), np.float32)])
    assert y.tolist() == [[2.0] * 3] * 2


def test_half_precision_and_small_integers_come_back_in_their_types():
    for dtype in ("float16", "int8", "uint8"):
        (y,) = run_node(helper.make_node("Add", ["a", "b"], ["y"]), [np.array([100, 7], dtype)] * 2)
        assert y.dtype == dtype and y.tolist() == (np.array([100, 7], dtype) * 2).tolist()


def test_there_is_a_cpu_and_no_other_device():
    assert supports_device("CPU") and supports_device("CPU:0") and not supports_device("CUDA")
    with pytest.raises(AttributeValueError, match="there is no device 'CUDA'; there is CPU"):
        PaddockBackend.prepare(model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"]), "CUDA")
