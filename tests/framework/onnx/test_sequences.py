"""Ragged sequences as ONNX files: maxima, LSTM, GRU and best paths, for batches they were not traced with.

The files are run by our own reader, which unrolls LSTM and GRU by ONNX's definition, and by ONNX Runtime where it is
installed.
"""

import importlib.util

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx

import framework
from framework import nn, ops
from framework.errors import NotSupportedError
from framework.onnx import EXPORT_PASSES, Session, open_model
from framework.onnx.export import to_model

LENGTHS = [[3, 7, 1], [5], [2, 2]]
RUNTIMES = ["ours", pytest.param("onnxruntime", marks=pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="the package onnxruntime is not installed"))]  # fmt: skip


def batch(lengths, features, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *lengths])
    return rng.normal(size=(offsets[-1], features)).astype(np.float32), offsets


def exported(function, *arrays):
    tensors = [framework.tensor(array) for array in arrays]
    for i, tensor in enumerate(tensors):
        tensor.name = f"in{i}"
    with framework.no_grad():
        program = framework.program(function, pass_names=EXPORT_PASSES).program_for(*tensors).program
    proto = to_model(program)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run(proto, runtime, arrays, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    if runtime == "ours":
        return Session(open_model(path)).run(list(arrays))
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {port.name: array for port, array in zip(session.get_inputs(), arrays, strict=True)})


def compare(function, proto, runtime, arrays, tmp_path, atol):
    with framework.no_grad():
        want = [t.numpy() for t in function(*(framework.tensor(array) for array in arrays))]
    found = run(proto, runtime, arrays, tmp_path)
    for w, f in zip(want, found, strict=True):
        assert w.shape == f.shape and w.dtype == f.dtype
        np.testing.assert_allclose(f, w, rtol=0, atol=atol)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 2, 3)])
def test_maxima_and_their_rows(runtime, shape, tmp_path):
    def function(x, offsets):
        return ops.segment_max(x, offsets)

    rng = np.random.default_rng(0)
    proto = exported(function, rng.normal(size=shape).astype(np.float32), np.array([0, 2, 6]))
    x = rng.normal(size=(9, *shape[1:])).astype(np.float32)
    x[4:6] = x[5:7]  # equal ones: the first counts
    compare(function, proto, runtime, (x, np.array([0, 1, 4, 9])), tmp_path, 0)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
def test_recurrent_layers(runtime, cell, layers, bidirectional, tmp_path):
    layer = getattr(nn, cell)(5, 6, layers, bidirectional)
    nn.init.initialize(layer, seed=0)
    rng = np.random.default_rng(1)
    for parameter in layer.parameters():  # biases that are not 0
        parameter.set(framework.tensor(rng.normal(0, 0.4, parameter.shape).astype(np.float32)))

    def function(x, offsets):
        y, last = layer(x, offsets)
        return (y, *(last if isinstance(last, tuple) else (last,)))

    proto = exported(function, *batch([4, 2], 5))
    names = [node.op_type for node in proto.graph.node]
    assert names.count(cell) == layers and "MatMul" not in names and "Gemm" not in names  # products are inside
    for lengths in LENGTHS:
        compare(function, proto, runtime, batch(lengths, 5), tmp_path, 2e-6)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
def test_an_lstm_of_gates_and_first_states(runtime, direction, tmp_path):
    """Gates that are no product of constants."""
    parts = 2 if direction == "both" else 1
    weight = framework.tensor(np.random.default_rng(2).normal(size=(parts, 12, 3)).astype(np.float32))

    def function(gates, offsets, h0, c0):
        return ops.lstm(gates * 1.5, weight, offsets, h0, c0, direction=direction)[:3]

    def arrays(lengths):
        h0, c0 = np.random.default_rng(3).normal(size=(2, parts, len(lengths), 3)).astype(np.float32)
        return (*batch(lengths, parts * 12), h0, c0)

    proto = exported(function, *arrays([4, 2]))
    for lengths in ([3, 7], [1, 1]):  # as many as traced: an input keeps all extents but its first
        compare(function, proto, runtime, arrays(lengths), tmp_path, 2e-6)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("tags", [1, 4])
def test_best_paths(runtime, tags, tmp_path):
    rng = np.random.default_rng(4)
    chain = [rng.normal(size=shape).astype(np.float32) for shape in ((tags, tags), (tags,), (tags,))]
    if tags > 1:
        chain[0][1, 2] = chain[1][0] = -np.inf

    def function(emissions, offsets):
        return ops.crf_decode(emissions, *(framework.tensor(part) for part in chain), offsets)

    proto = exported(function, *batch([4, 2], tags))
    for lengths in LENGTHS:
        compare(function, proto, runtime, batch(lengths, tags), tmp_path, 1e-5)
    emissions, offsets = batch([3, 4], tags)
    compare(function, proto, runtime, (np.round(emissions), offsets), tmp_path, 1e-5)


def test_gates_that_are_read_are_refused():
    weight = framework.tensor(np.ones((1, 8, 2), np.float32))
    with pytest.raises(NotSupportedError, match=r"lstm .*its gates are read, as a gradient does"):
        exported(lambda x, offsets: ops.lstm(x, weight, offsets)[3], *batch([2], 8))


def test_weights_that_are_computed_are_refused():
    with pytest.raises(NotSupportedError, match=r"gru .*its weights are computed"):
        exported(lambda x, w, offsets: ops.gru(x, w, offsets)[0], batch([2], 6)[0], np.ones((1, 6, 2), np.float32),
                 np.array([0, 2]))  # fmt: skip


def test_what_nothing_reads_is_not_written():
    layer = nn.GRU(5, 6)
    nn.init.initialize(layer, seed=0)
    proto = exported(lambda x, offsets: layer(x, offsets)[0], *batch([2, 3], 5))
    read = {name for node in proto.graph.node for name in node.input}
    assert {initializer.name for initializer in proto.graph.initializer} <= read
    assert all(read & set(node.output) or node.output[0] == "output0" for node in proto.graph.node)
