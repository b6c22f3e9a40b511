"""Files that lie: refused with a message of ours, never a crash, never more than their limits."""

import contextlib
import random
import struct

import numpy as np
import pytest

from framework import limits
from framework.errors import CheckpointError, NotSupportedError, PaddockError, ShapeError
from framework.tflite import Session, load, open_model
from framework.tflite.reading import read_model
from tests.framework.tflite.cases import inputs_of
from tests.framework.tflite.models import File, Scalar, Shared, flatbuffer, single, small_eight, small_network
from tests.mutations import mutated

WHOLE = [small_network(), small_eight(True), small_eight(False)]


def test_a_file_cut_anywhere_is_refused_or_read():
    file = small_network()
    for end in range(0, len(file), 7):
        try:
            Session(open_model(file[:end])).run([np.zeros((1, 8, 8, 3), np.float32)])
        except PaddockError as e:
            assert "tflite" in str(e)


@pytest.mark.parametrize("start", range(0, 600, 150))
def test_damaged_files_are_refused_or_read(start):
    for seed in range(start, start + 150):
        with contextlib.suppress(PaddockError):
            load(mutated(WHOLE[seed % 3], random.Random(seed)))


def word(file, at, value, form="<I"):
    return file[:at] + struct.pack(form, value) + file[at + 4 :]


def test_offsets_that_leave_the_file_are_refused():
    with pytest.raises(CheckpointError, match="it refers to 4 bytes at 4294967295"):
        open_model(word(small_network(), 0, 0xFFFFFFFF))
    root = struct.unpack_from("<I", small_network())[0]
    with pytest.raises(CheckpointError, match="cut off or damaged"):
        open_model(word(small_network(), root, 2**31 - 1, "<i"))
    with pytest.raises(CheckpointError, match="cut off or damaged"):
        open_model(word(small_network(), root, -(2**31) + 1, "<i"))


def test_many_offsets_to_one_table_do_not_take_for_ever():
    """10,000 operators of one place, which has 100,000 inputs: 400 kB that come to 4 GB."""
    tensor = {0: np.array([4], np.int32), 1: Scalar("b", 0), 3: "x"}
    node = {0: Scalar("I", 0), 1: np.zeros(100_000, np.int32), 2: np.ones(1, np.int32)}
    graph = {0: [tensor, tensor], 1: np.zeros(1, np.int32), 2: np.ones(1, np.int32), 3: Shared(node, 10_000)}
    model = flatbuffer({0: Scalar("I", 3), 1: [{0: Scalar("b", 101)}], 2: [graph], 4: [{}]})
    assert len(model) < 1 << 19
    with pytest.raises(CheckpointError, match="would take more than 67108864 bytes of memory"):
        open_model(model)


def test_too_many_tables_are_refused():
    model = flatbuffer({0: Scalar("I", 3), 2: [{}], 4: Shared({}, 5000)})
    with limits.allow(nodes=1000), pytest.raises(CheckpointError, match="too many tables, 5000; 1000 are allowed"):
        open_model(model)


def test_values_are_made_once_and_before_they_are_read():
    f = File()
    a, b = (f.tensor(name, "float32", [4]) for name in "ab")
    f.node("ABS", [b], a)
    f.node("ABS", [a], b)
    with pytest.raises(CheckpointError, match="ABS 'a' uses 'b' before it is made"):
        open_model(f.bytes(b))
    f = File()
    x = f.given("x", "float32", [4])
    f.node("ABS", [x], x)
    with pytest.raises(CheckpointError, match="'x' is made twice, again by ABS 'x'"):
        open_model(f.bytes(x))
    f = File()
    f.given("x", "float32", [4])
    with pytest.raises(CheckpointError, match="output 'y' is made by nothing"):
        open_model(f.bytes(f.tensor("y", "float32", [4])))


def test_data_that_do_not_fill_their_tensor_are_refused():
    f = File()
    x = f.given("x", "float32", [4])
    c = f.tensor("c", "float32", [4], np.zeros(3, np.float32))
    f.node("ADD", [x, c], f.tensor("y", "float32", [4]))
    with pytest.raises(CheckpointError, match=r"tensor 'c' of shape \[4\] and type float32 needs 16 bytes and has 12"):
        open_model(f.bytes(2))


def test_options_of_another_operator_are_refused():
    f = File()
    x = f.given("x", "float32", [4])
    y = f.tensor("y", "float32", [4])
    f.node("SOFTMAX", [x], y, beta=1.0)
    f.nodes[0][3] = Scalar("B", 1)
    with pytest.raises(CheckpointError, match="SOFTMAX 'y' has options of kind 1, those of another operator"):
        open_model(f.bytes(y))


GIGABYTES = {
    "tile": single("TILE", [("float32", [1]), np.array([2**30], np.int32)], [1]),
    "broadcast": single("BROADCAST_TO", [("float32", [1]), np.array([2**30], np.int32)], [1]),
    "fill": single("FILL", [np.array([2**30], np.int32), np.array(1.0, np.float32)], [1]),
    "range": single("RANGE", [np.array(v, np.int32) for v in (0, 2**30, 1)], [1], "int32"),
    "pad": single("PAD", [("float32", [1]), np.array([[0, 2**30]], np.int32)], [1]),
    "sum of a row and a column": single(
        "ADD", [np.zeros((1, 2**14), np.float32), np.zeros((2**14, 1), np.float32)], [1]
    ),
    "resize": single("RESIZE_BILINEAR", [("float32", [1, 1, 1, 1]), np.array([2**15, 2**15], np.int32)], [1, 1, 1, 1]),
    "one hot": single("ONE_HOT", [("int32", [4]), np.array(2**30, np.int32), *[np.array(1.0, np.float32)] * 2], [4],
                      axis=-1),
    "input": single("ABS", [("float32", [2**15, 2**15])], [1]),
}  # fmt: skip


@pytest.mark.parametrize("name", GIGABYTES)
def test_a_file_that_makes_gigabytes_is_refused(name):
    with pytest.raises((NotSupportedError, ShapeError), match="67108864"):
        load(GIGABYTES[name])


def sparse(order, levels, values, blocks=(), shape=(3, 4)):
    f = File()
    table = {0: np.array(order, np.int32), 1: np.array(blocks, np.int32), 2: levels}
    x = f.given("x", "float32", list(shape))
    c = f.tensor("c", "float32", shape, np.array(values, np.float32), more={6: table})
    w = f.node("DENSIFY", [c], f.tensor("w", "float32", shape))
    y = f.node("ADD", [x, w], f.tensor("y", "float32", shape))
    return f.bytes(y)


def rows(count):
    return {0: Scalar("b", 0), 1: Scalar("i", count)}


def listed(starts, places):
    return {0: Scalar("b", 1), 2: Scalar("B", 1), 3: {0: np.array(starts, np.int32)},
            4: Scalar("B", 3), 5: {0: np.array(places, np.uint8)}}  # fmt: skip


def test_sparse_constants_are_made_dense():
    (found,) = Session(open_model(sparse([0, 1], [rows(3), listed([0, 1, 1, 3], [2, 0, 3])], [5, 6, 7]))).run(
        [np.zeros((3, 4), np.float32)]
    )
    np.testing.assert_array_equal(found, [[0, 0, 5, 0], [0, 0, 0, 0], [6, 0, 0, 7]])


def test_sparse_blocks_are_made_dense():
    """Blocks of 2 along the second axis: column 2 * i + j."""
    file = sparse([0, 1, 2], [rows(2), listed([0, 1, 2], [1, 0]), rows(2)], [1, 2, 3, 4], blocks=[1], shape=(2, 4))
    (found,) = Session(open_model(file)).run([np.zeros((2, 4), np.float32)])
    np.testing.assert_array_equal(found, [[0, 0, 1, 2], [3, 4, 0, 0]])


@pytest.mark.parametrize(
    ("order", "levels", "values", "why"),
    [
        ([0, 0], [rows(3), rows(4)], range(12), "has the order"),
        ([0, 1], [rows(3), rows(2**30)], [1], "has a level of"),
        ([0, 1], [rows(3), listed([0, 1, 2], [2, 0])], [1, 2], "do not fit its 3 rows"),
        ([0, 1], [rows(3), listed([0, 1, 1, 2], [2, 9])], [1, 2], "outside of its shape"),
        ([0, 1], [rows(3), listed([0, 1, 1, 2], [2, 1])], [1, 2, 3], "lists 2 values and has 12 bytes"),
    ],
)
def test_sparse_constants_that_contradict_themselves_are_refused(order, levels, values, why):
    with pytest.raises(CheckpointError, match=why):
        open_model(sparse(order, levels, values))


def test_whole_files_of_these_tests_are_read():
    for file in WHOLE:
        assert read_model(file).nodes and Session(open_model(file)).run(inputs_of(open_model(file)))
