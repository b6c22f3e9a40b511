"""Reading ONNX files: as Programs, as Layers that train, and node by node."""

import logging

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import framework
from framework import ops, optim
from framework.errors import AttributeValueError, CheckpointError, NotSupportedError, ShapeError
from framework.graph.compiled import CompiledProgram
from framework.graph.files import save_program
from framework.onnx import Session, load, open_model
from framework.predictor import Predictor
from tests.framework.onnx.models import model, small_cnn, weights


def expected(proto, *inputs):
    names = [p.name for p in proto.graph.input]
    return ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))


def test_an_imported_cnn_changes_its_layout_once_at_the_border():
    program = load(small_cnn())
    names = [op.name for op in program.block]
    assert names.count("conv2d") == 2 and "batch_norm_inference" not in names
    # The image at the border, and the means [N, 1, 1, C] that Flatten takes as [N, C, 1, 1].
    assert [op.name for op in program.block if op.name == "transpose"] == ["transpose"] * 2
    assert program.block.ops[0].name == "transpose" and "mean" in [op.name for op in program.block][-6:]
    assert program.shape_reads == []


@pytest.mark.parametrize("batch", [1, 5])
def test_one_program_serves_every_batch(batch):
    proto, x = small_cnn(), weights(batch, 3, 12, 12, seed=7)
    (got,) = CompiledProgram(load(proto)).run([framework.tensor(x)])
    np.testing.assert_allclose(got.numpy(), expected(proto, x)[0], rtol=1e-4, atol=1e-5)


def test_an_imported_program_is_saved_and_run_by_the_predictor(tmp_path):
    proto, x = small_cnn(), weights(2, 3, 12, 12)
    save_program(load(proto), tmp_path)
    (got,) = Predictor(tmp_path).run({"x": x})
    np.testing.assert_allclose(got, expected(proto, x)[0], rtol=1e-4, atol=1e-5)


def test_weights_keep_their_names_and_statistics_are_buffers():
    layer = open_model(small_cnn())
    assert {n for n, _ in layer.named_parameters()} == {"w1", "b1", "scale", "offset", "w2", "w3", "b3"}
    assert {n for n, _ in layer.named_buffers()} == {"mean", "var"}


def test_an_imported_model_is_fine_tuned():
    layer, x = open_model(small_cnn()), framework.tensor(weights(8, 3, 12, 12))
    labels = framework.tensor(np.arange(8) % 5)
    optimizer = optim.SGD(layer.named_parameters(), 0.05)

    @framework.program
    def step(x, labels):
        loss = ops.mean(ops.cross_entropy(layer(x)[0], labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x, labels)) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]


def test_all_unknown_operators_are_listed_at_once():
    proto = model(
        [
            helper.make_node("Nonsense", ["x"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Other", ["b"], ["y"], name="second", domain="my.own"),
        ],
        {"x": [1]},
        ["y"],
    )
    with pytest.raises(NotSupportedError, match=r"2 operators .*Nonsense \(version 17\) in 'first'.*my.own.Other"):
        load(proto)


def test_a_shape_computed_from_constants_is_folded_and_one_from_the_input_ties_the_program():
    node = helper.make_node
    fixed = model([node("Reshape", ["x", "s"], ["y"])], {"x": ["N", 4]}, ["y"], {"s": np.array([-1, 2])})
    assert load(fixed).shape_reads == []
    tied = model([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["y"])], {"x": ["N", 4]}, ["y"])
    assert "read the shape" in load(tied).shape_reads[0]


def test_a_shape_that_depends_on_the_data_runs_node_by_node_and_says_so(caplog):
    proto = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [4]}, ["y"])
    with pytest.raises(
        NotSupportedError,
        match=r"NonZero 'NonZero': its data is computed .*; .*open_model runs it node",
    ):
        load(proto)
    session = Session(open_model(proto))
    with caplog.at_level(logging.INFO, logger="paddock"):
        (y,) = session.run([np.array([0, 1, 0, 2], np.float32)])
    assert y.tolist() == [[1, 3]] and session.is_eager
    assert [r for r in caplog.records if "node by node from here on" in r.message]


def test_an_open_shape_must_be_given():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", "H"]}, ["y"])
    with pytest.raises(AttributeValueError, match=r"input 'x' has the open shape \['N', 'H'\]; give one to trace with"):
        load(proto)
    assert load(proto, {"x": (2, 3)}).inputs[0].shape == (2, 3)
    with pytest.raises(ShapeError, match=r"input 'x' takes \['N', 'H'\], not \[2\]"):
        load(proto, {"x": (2,)})


def test_an_error_inside_a_graph_names_the_node():
    proto = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="head")], {"x": [1, 3]}, ["y"], {"w": weights(4, 2)}
    )
    with pytest.raises(ShapeError, match="onnx: MatMul 'head': matmul: "):
        load(proto)


def test_functions_of_the_file_are_called_with_their_attributes():
    body = [
        helper.make_node("Constant", [], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
    ]
    body[0].attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    )
    function = helper.make_function("my", "Scaled", ["a"], ["b"], body, [helper.make_opsetid("", 17)], ["by"])
    graph = model([helper.make_node("Scaled", ["x"], ["y"], domain="my", by=3.0)], {"x": [2]}, ["y"]).graph
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    proto = helper.make_model(graph, functions=[function], opset_imports=imports)
    (y,) = CompiledProgram(load(proto)).run([framework.tensor(np.array([1, 2], np.float32))])
    assert y.tolist() == [3.0, 6.0]


def test_data_beside_the_file_is_read(tmp_path):
    proto = small_cnn()
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    x = weights(1, 3, 12, 12)
    (got,) = CompiledProgram(load(tmp_path / "m.onnx")).run([framework.tensor(x)])
    np.testing.assert_allclose(got.numpy(), expected(small_cnn(), x)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(CheckpointError, match=r"initializer '\w+' keeps its data in 'm.data'; give the path"):
        load((tmp_path / "m.onnx").read_bytes())
