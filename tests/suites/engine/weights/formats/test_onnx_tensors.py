"""Tensors of .onnx files: initializers and constants, and one answer for what is no such file."""

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.weights import read_weights

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def saved(path, initializers, constants=()):
    nodes = [helper.make_node("Constant", [], [name], value=value) for name, value in constants]
    nodes.append(helper.make_node("Identity", ["x"], ["y"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], initializers)
    onnx.save(helper.make_model(graph), path)
    return path


def test_initializers_and_constants_come_by_the_names_that_nodes_read_them_by(tmp_path):
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    whole = numpy_helper.from_array(np.arange(3), "numbers")
    half = numpy_helper.from_array(A.astype(np.float16), "half")
    path = saved(
        tmp_path / "m.onnx",
        [numpy_helper.from_array(A, "a"), listed, whole, half],
        [("b", numpy_helper.from_array(A * 2, "inner"))],
    )
    found = read_weights(path)
    assert sorted(found) == ["a", "b", "half", "listed"]
    np.testing.assert_array_equal(found["a"], A)
    np.testing.assert_array_equal(found["b"], A * 2)
    np.testing.assert_array_equal(found["half"], A)
    np.testing.assert_array_equal(found["listed"], [1, 2, 3])
    assert found["half"].dtype == np.float32


def test_files_that_are_none_are_named(tmp_path):
    path = saved(tmp_path / "m.onnx", [numpy_helper.from_array(A, "a")])
    data = path.read_bytes()
    for cut in (data[: len(data) // 2], data[:-1], b"<html>", b"\xff" * 40):
        path.write_bytes(cut)
        with pytest.raises(CheckpointError, match=r"m\.onnx: (not an \.onnx file|an \.onnx file without weights|')"):
            read_weights(path)


def test_weights_in_other_files_are_refused(tmp_path):
    outside = numpy_helper.from_array(A, "a")
    outside.data_location = TensorProto.EXTERNAL
    outside.ClearField("raw_data")
    with pytest.raises(CheckpointError, match="'a' lies in another file; save it with its weights inside"):
        read_weights(saved(tmp_path / "m.onnx", [outside]))


def test_a_shape_that_lies_is_refused(tmp_path):
    lying = numpy_helper.from_array(A, "a")
    lying.dims[0] = 1 << 40
    with pytest.raises(CheckpointError, match="'a' has 6 numbers for the shape"):
        read_weights(saved(tmp_path / "m.onnx", [lying]))
