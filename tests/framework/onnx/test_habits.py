"""What exporters write against the letter of ONNX is read as they mean it, or refused by its name."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx import TensorProto, helper, numpy_helper

from framework.errors import CheckpointError, NotSupportedError, ShapeError
from framework.graph.compiled import CompiledProgram
from framework.onnx import Session, load, open_model

X = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)
FLOAT = TensorProto.FLOAT


def port(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def made(*nodes, shape=(2, 3, 4, 4), opset=11, weights=(), **rest):
    graph = helper.make_graph(list(nodes), "g", [port("x", list(shape))], [port("y")], list(weights), **rest)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)


def node(op, inputs=("x",), outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def of(name, values):
    return numpy_helper.from_array(np.asarray(values), name)


def run(proto):
    (y,) = Session(open_model(proto)).run([X])
    return y


def untyped(op, opset=11, **attributes):
    """A node whose attributes state no kind, as in files of IR version 1."""
    found = node(op)
    for name, (field, value) in attributes.items():
        attribute = found.attribute.add(name=name)
        if isinstance(value, list):
            getattr(attribute, field).extend(value)
        else:
            setattr(attribute, field, value)
    return made(found, opset=opset)


@pytest.mark.parametrize("shape", [(-1, 3, 4, 4), (-1, -1, -1, -1), (0, 3, 4, 4), ("-1", 3, "batch size ", "  ")])
def test_an_extent_that_is_not_known_however_it_is_written(shape):
    np.testing.assert_array_equal(run(made(node("Relu"), shape=shape)), np.maximum(X, 0))
    assert load(made(node("Relu"), shape=shape), {"x": X.shape}).inputs[0].shape == X.shape


def test_another_negative_extent_is_refused():
    with pytest.raises(CheckpointError, match="'x' has an impossible extent, -2"):
        load(made(node("Relu"), shape=(-2, 3, 4, 4)))


def test_attributes_of_an_older_version_mean_what_they_meant_there():
    clip, unsqueeze = node("Clip", min=0.0, max=0.5), node("Unsqueeze", axes=[0])
    np.testing.assert_array_equal(run(made(clip, opset=11)), np.clip(X, 0, 0.5))
    np.testing.assert_array_equal(run(made(unsqueeze, opset=13)), X[None])


def test_an_attribute_that_no_version_has_is_refused_by_its_name():
    with pytest.raises(NotSupportedError, match="Relu of version 11 has no attribute slope"):
        run(made(node("Relu", slope=0.5)))


def test_batch_norm_of_old_exporters():
    statistics = [np.float32([1, 2, 3]), np.float32([0, 1, 2]), np.float32([0.1, 0.2, 0.3]), np.float32([1, 2, 4])]
    scale, bias, mean, variance = (v.reshape(-1, 1, 1) for v in statistics)
    expected = (X - mean) / np.sqrt(variance + 1e-5) * scale + bias
    weights = [of(name, v) for name, v in zip("sbmv", statistics, strict=True)]
    for opset, attributes in (
        (9, {"spatial": 1}),
        (7, {"spatial": 0}),
        (6, {"is_test": 1, "spatial": 1}),
        (5, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}),
    ):
        proto = made(node("BatchNormalization", "xsbmv", **attributes), opset=opset, weights=weights)
        np.testing.assert_allclose(run(proto), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "proto, expected",
    [
        (untyped("LeakyRelu", alpha=("f", 0.25)), np.where(X > 0, X, X * np.float32(0.25))),
        (untyped("Transpose", perm=("ints", [0, 2, 3, 1])), X.transpose(0, 2, 3, 1)),
        (made(node("LeakyRelu", alpha=1)), X),
        (made(node("Flatten", axis=1.0)), X.reshape(2, -1)),
        (made(node("Upsample", height_scale=2.0, width_scale=3.0), opset=1), X.repeat(2, 2).repeat(3, 3)),
        (made(node("Exp", ["z"]), node("Relu", ["x"], ["z"])), np.exp(np.maximum(X, 0))),
        (made(node("Add", "xc"), weights=[of("c", np.float32([2]))] * 2), X + 2),
    ],
    ids=["no kind", "no kind of a list", "1 for 1.0", "1.0 for 1", "Upsample-1", "out of order", "listed twice"],
)
def test_it_is_read_as_it_is_meant(proto, expected):
    np.testing.assert_allclose(run(proto), expected, rtol=1e-6)


def test_two_weights_of_one_name_and_other_data_are_refused():
    with pytest.raises(CheckpointError, match="initializer 'c' is there twice, with other data"):
        run(made(node("Add", "xc"), weights=[of("c", np.float32([2])), of("c", np.float32([3]))]))


def test_a_body_that_reads_what_is_made_later_in_the_file():
    body = helper.make_graph([node("Identity", ["z"], ["w"])], "body", [], [port("w")])
    nodes = [node("If", ["t"], ["y"], then_branch=body, else_branch=body), node("Relu", ["x"], ["z"])]
    np.testing.assert_array_equal(run(made(*nodes, weights=[of("t", np.array(True))])), np.maximum(X, 0))


def sparse(places, shape=(2, 3)):
    return helper.make_sparse_tensor(of("y", np.float32([3, 4])), of("i", np.int64(places)), list(shape))


@pytest.mark.parametrize("places", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_weights_are_read(places):
    constant = onnx.NodeProto(op_type="Constant", output=["y"])
    attribute = constant.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.CopyFrom(sparse(places))
    expected = np.float32([[0, 3, 0], [0, 0, 4]])
    np.testing.assert_array_equal(run(made(constant, opset=13)), expected)
    np.testing.assert_array_equal(run(made(opset=13, sparse_initializer=[sparse(places)])), expected)


@pytest.mark.parametrize(
    "bad, shape", [([1, 6], (2, 3)), ([-1, 2], (2, 3)), ([1, 2], (2**40, 2**40)), ([1, 2], (-1, 3))]
)
def test_sparse_weights_that_lie_are_refused(bad, shape):
    with pytest.raises(CheckpointError, match=r"indices outside of|impossible shape"):
        run(made(opset=13, sparse_initializer=[sparse(bad, shape)]))


def test_a_file_before_operator_sets_is_of_the_first():
    proto = made(node("Relu", consumed_inputs=[0]))
    proto.ClearField("opset_import")
    proto.ir_version = 1
    np.testing.assert_array_equal(run(proto), np.maximum(X, 0))


def test_a_program_that_read_a_shape_takes_no_other():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", "si", ["b"]),
        node("Cast", ["b"], ["n"], to=1),
        node("Div", "xn"),
    ]
    program = load(made(*nodes, shape=("n", 3, 4, 4), weights=[of("i", np.int64(0))]), {"x": X.shape})
    compiled = CompiledProgram(program)
    np.testing.assert_array_equal(compiled.run([X])[0].numpy(), X / 2)
    with pytest.raises(ShapeError, match=r"x has shape \[1, 3, 4, 4\], but the Program was traced with \[2, 3, 4, 4\]"):
        compiled.run([X[:1]])
