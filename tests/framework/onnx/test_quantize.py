"""framework/onnx/operators/quantize.py: nodes on 8-bit numbers, whose scales and zero points must fit them."""

import contextlib

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

from framework import no_grad, tensor
from framework.errors import CheckpointError, NumericsError
from framework.graph.compiled import CompiledProgram
from framework.onnx import Session, load, open_model
from tests.framework.onnx.models import weights

F32 = np.float32
TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def model(op, x, *constants, **attrs):
    """A file of one node for x and constants; None stands for an input that it lacks."""
    names = ["x", *("" if c is None else f"c{i}" for i, c in enumerate(constants))]
    held = [numpy_helper.from_array(np.asarray(c), f"c{i}") for i, c in enumerate(constants) if c is not None]
    given = helper.make_tensor_value_info("x", TYPES[str(x.dtype)], x.shape)
    node = helper.make_node(op, names, ["y"], **attrs)
    graph = helper.make_graph([node], "test", [given], [helper.make_empty_tensor_value_info("y")], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])


def run(op, x, *constants, **attrs):
    """What such a node gives."""
    return Session(open_model(model(op, x, *constants, **attrs))).run([x])[0]


def octets(*shape, dtype="uint8"):
    return np.random.default_rng(shape).integers(np.iinfo(dtype).min, 128, shape).astype(dtype)


THREE, FOUR = np.array([0.1, 0.2, 0.3], F32), np.array([0.1, 0.2, 0.3, 0.4], F32)
BLOCKS = np.full((2, 2, 6), 0.1, F32)
MALFORMED = {
    "scales for another extent": ((4, 1), THREE, None, {"axis": 1}, "3 scales for axis 1, along which .* has 1"),
    "too few scales": ((2, 4), THREE, None, {"axis": 1}, "3 scales for axis 1, along which the tensor has 4"),
    "one zero point for many scales": ((2, 4), FOUR, np.uint8(3), {}, "the scale has the shape .4. and the zero point"),
    "many zero points for one scale": ((2, 4), F32(0.1), np.zeros(4, np.uint8), {}, "they must agree"),
    "a zero point of another type": ((2, 4), F32(0.1), np.int8(3), {}, "zero point is int8 and its numbers are uint8"),
    "a fraction as zero point": ((2, 4), F32(0.1), F32(2.7), {}, "the zero point is float32 and its numbers are uint8"),
    "blocks of nothing": ((2, 4, 6), BLOCKS, None, {"axis": 1}, "which is for blocks, and block_size is 0"),
    "blocks below 0": ((2, 4, 6), BLOCKS, None, {"axis": 1, "block_size": -2}, "block_size is -2"),
    "blocks of another size": ((2, 4, 6), BLOCKS, None, {"axis": 1, "block_size": 1}, "in blocks of 1 along axis 1"),
    "blocks of another tensor": ((2, 4, 5), BLOCKS, None, {"axis": 1, "block_size": 2}, r"\[2, 2, 6\] do not fit"),
}  # fmt: skip


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("case", MALFORMED)
def test_scales_and_zero_points_that_do_not_fit_are_errors(op, case):
    """They broadcast to another shape, or to numbers that nobody meant."""
    shape, scale, zero, attrs, match = MALFORMED[case]
    x = octets(*shape) if op == "DequantizeLinear" else weights(*shape)
    if op == "QuantizeLinear":
        attrs |= {"output_dtype": TensorProto.UINT8}
    with pytest.raises(CheckpointError, match=f"onnx: {op} .*{match}"):
        run(op, x, scale, zero, **attrs)


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_scale_that_is_no_number_is_an_error(scale):
    for steps in (F32(scale), np.array([0.1, scale], F32)):
        with pytest.raises(CheckpointError, match="a scale is NaN or infinite"):
            run("QuantizeLinear", weights(3, 2), steps)


def test_a_step_of_0_has_0_as_its_zero_point_and_cuts_all_else():
    """As files have it of channels that are all 0."""
    x = np.array([[0.0, 2.0], [0.0, -2.0], [0.0, 0.0]], F32)
    y = run("QuantizeLinear", x, np.array([0, 0.1], F32), np.array([9, 100], np.uint8))
    np.testing.assert_array_equal(y, [[9, 120], [9, 80], [9, 100]])
    np.testing.assert_array_equal(run("QuantizeLinear", x, F32(0), np.uint8(9)), [[9, 255], [9, 0], [9, 9]])


def nan_at_the_end(*shape):
    x = weights(*shape)
    x.flat[-1] = np.nan
    return x


def test_a_nan_is_an_error_whatever_scales_there_are():
    x, by_channel = nan_at_the_end(2, 4), (FOUR, np.zeros(4, np.int8))
    for op, constants in (
        ("QuantizeLinear", by_channel),
        ("QuantizeLinear", [F32(-0.1)]),
        ("DynamicQuantizeLinear", []),
    ):
        with pytest.raises(NumericsError, match="x holds a NaN"):
            run(op, x, *constants)
    with pytest.raises(NumericsError, match="x holds a NaN"):
        run(
            "QLinearMatMul",
            octets(4, 4),
            FOUR * F32(np.nan),
            octets(4),
            octets(4, 4),
            F32(1),
            np.uint8(0),
            F32(1),
            np.uint8(0),
        )


@pytest.mark.parametrize("way", ["eager", "eager with gradients", "Session", "Program"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "op, constants",
    [
        ("QuantizeLinear", [F32(0.1), np.uint8(3)]),
        ("QuantizeLinear", [FOUR, np.full(4, 3, np.uint8)]),
        ("DynamicQuantizeLinear", []),
    ],
    ids=["one scale", "four scales", "dynamic"],
)
def test_every_way_to_run_refuses_a_nan_and_cuts_infinities(way, value, op, constants):
    """What no range holds is an error for a range of its own too."""
    x = weights(2, 4)
    x[1, 2] = value
    file = model(op, x, *constants)

    def made():
        if way == "Program":
            return CompiledProgram(load(file, {"x": x.shape})).run([tensor(x)])[0].numpy()
        if way == "Session":
            return Session(open_model(file)).run([x])[0]
        with contextlib.nullcontext() if "gradients" in way else no_grad():
            return open_model(file)(tensor(x))[0].numpy()

    if np.isnan(value) or not constants:
        with pytest.raises(NumericsError, match="x holds a NaN"):
            made()
    else:
        assert made()[1, 2] == (255 if value > 0 else 0)


def test_a_type_that_an_attribute_asks_for_is_given():
    assert run("DequantizeLinear", octets(3), F32(0.1), output_dtype=TensorProto.DOUBLE).dtype == np.float64
    assert run("QuantizeLinear", weights(3), F32(0.1), output_dtype=TensorProto.INT8).dtype == np.int8
    with pytest.raises(CheckpointError, match="the zero point is uint8 and its numbers are int8"):
        run("QuantizeLinear", weights(3), F32(0.1), np.uint8(1), output_dtype=TensorProto.INT8)


ROWS, COLUMNS = np.array([0.01, 0.02, 0.03, 0.04], F32), np.array([0.04, 0.01, 0.02, 0.03], F32)
ROW_ZEROS, COLUMN_ZEROS = np.array([1, 2, 3, 4], np.uint8), np.array([9, 7, 5, 3], np.int8)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_matrices_have_scales_of_rows_on_the_left_and_of_columns_on_the_right(rank, rows, columns):
    """Square ones, where either fits the other's place; of three axes with scales of three."""
    a, b = octets(*([3, 4, 4][3 - rank :])), octets(*([3, 4, 4][3 - rank :]), dtype="int8")
    sa, za = (ROWS[:, None], ROW_ZEROS[:, None]) if rows else (F32(0.02), np.uint8(7))
    sb, zb = (COLUMNS, COLUMN_ZEROS) if columns else (F32(0.03), np.int8(-3))
    sy, zy = (ROWS[::-1, None] * F32(9), ROW_ZEROS[:, None]) if rows else (F32(0.2), np.uint8(100))
    sums = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
    y = np.clip(np.rint(sums * (np.float64(sa) * np.float64(sb)) / np.float64(sy)) + zy, 0, 255)

    def given(v, turned):  # as a vector of a matrix; with all axes where there are three
        v = np.asarray(v)
        return v if not v.ndim else v.reshape(-1) if rank == 2 else v.reshape(1, *((1, 4) if turned else (4, 1)))

    left, right, end = (given(sa, 0), given(za, 0)), (given(sb, 1), given(zb, 1)), (given(sy, 0), given(zy, 0))
    np.testing.assert_array_equal(run("QLinearMatMul", a, *left, b, *right, *end), y)
    np.testing.assert_array_equal(run("MatMulInteger", a, b, left[1], right[1]), sums)


def test_scales_of_products_and_convolutions_that_do_not_fit_are_errors():
    a, w, one, zero = octets(1, 2, 3, 3), octets(1, 2, 1, 1, dtype="int8"), F32(0.1), np.uint8(0)
    for scales in (THREE, THREE[:2]):  # one filter, which would become as many
        with pytest.raises(CheckpointError, match=r"do not fit numbers of shape \[1, 2, 1, 1\]"):
            run("QLinearConv", a, one, zero, w, scales, np.zeros(len(scales), np.int8), one, zero)
    with pytest.raises(CheckpointError, match="do not fit"):
        run("ConvInteger", a, w, zero, np.zeros(3, np.int8))
    with pytest.raises(CheckpointError, match="the zero point is int8 and its numbers are uint8"):
        run("ConvInteger", a, w, np.int8(0))
    with pytest.raises(CheckpointError, match=r"do not fit numbers of shape \[1, 4\]"):
        run("MatMulInteger", octets(1, 4), octets(4, 2, dtype="int8"), octets(3))
