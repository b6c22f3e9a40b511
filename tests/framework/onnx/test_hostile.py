"""Files that lie: refused with a message of ours, never a crash."""

import os
import resource
import time

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper

from framework import limits
from framework.errors import CheckpointError, NotSupportedError, PaddockError, ShapeError
from framework.onnx import Session, load, open_model
from framework.onnx.interpreter import Node
from tests.framework.onnx.models import model, small_cnn, weights

node = helper.make_node


def test_a_missing_file_and_one_that_is_no_model(tmp_path):
    with pytest.raises(CheckpointError, match=r"no\.onnx: cannot be read"):
        load(tmp_path / "no.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(CheckpointError, match=r"text\.onnx: not an ONNX file, or cut off"):
        load(tmp_path / "text.onnx")
    with pytest.raises(CheckpointError, match="holds no graph or no operator set"):
        load(b"")


def test_a_tensor_that_holds_less_than_it_states():
    proto = small_cnn()
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]
    with pytest.raises(CheckpointError, match=r"initializer 'w1' of shape \[4, 3, 3, 3\] does not hold what it states"):
        load(proto)


@pytest.mark.parametrize("dims", [[2**40], [2**20, 2**20], [-1]])
def test_an_impossible_shape(dims):
    proto = small_cnn()
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend(dims)
    with pytest.raises(CheckpointError, match="initializer 'w1' has the impossible shape"):
        load(proto)


def test_a_cycle_and_a_value_that_nothing_makes():
    cycle = model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": [1]}, ["b"])
    with pytest.raises(CheckpointError, match=r"node 'Add' \(Add\) uses 'b' before it is made: the graph has a cycle"):
        load(cycle)
    with pytest.raises(CheckpointError, match="uses 'z' but nothing makes it"):
        load(model([node("Relu", ["z"], ["y"])], {"x": [1]}, ["y"]))
    with pytest.raises(CheckpointError, match="output 'q' of graph 'test' is made by nothing"):
        load(model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["q"]))
    with pytest.raises(CheckpointError, match="'y' is made twice"):
        load(model([node("Relu", ["x"], ["y"]), node("Exp", ["x"], ["y"])], {"x": [1]}, ["y"]))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "", "link"])
def test_external_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"])
    t = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    t.external_data.add(key="location", value=location)
    proto.graph.initializer.append(t)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(CheckpointError, match="outside of the model's folder; this is refused"):
        load(folder / "m.onnx")


def test_external_data_that_is_too_short(tmp_path):
    (tmp_path / "d").write_bytes(bytes(8))
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"])
    t = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    t.external_data.add(key="location", value="d")
    proto.graph.initializer.append(t)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(CheckpointError, match="wants 16 bytes from 0 of 'd', which has 8"):
        load(tmp_path / "m.onnx")


GIGABYTES = {
    "ConstantOfShape": ([node("ConstantOfShape", ["s"], ["y"])], {"s": np.array([2**20, 2**20])}),
    "Expand": ([node("Expand", ["x", "s"], ["y"])], {"s": np.array([2**34, 1])}),
    "Tile": ([node("Tile", ["x", "s"], ["y"])], {"s": np.array([2**40])}),
    "Range": (
        [node("Range", ["a", "b", "c"], ["y"])],
        {k: np.array(v, np.int64) for k, v in zip("abc", (0, 2**40, 1), strict=True)},
    ),
    "Pad": ([node("Pad", ["x", "s"], ["y"])], {"s": np.array([0, 2**40])}),
    "OneHot": ([node("OneHot", ["i", "d", "v"], ["y"])], {"i": np.array([1]), "d": np.array([2**40]), "v": weights(2)}),
    "Gather": ([node("Gather", ["r", "i"], ["y"])], {"r": weights(1, 2**16), "i": np.zeros(2**16, np.int64)}),
    "Gather of the last axis": (
        [node("Gather", ["r", "i"], ["y"], axis=-1)],
        {"r": weights(2**16, 1), "i": np.zeros(2**16, np.int64)},
    ),
    "GatherND": ([node("GatherND", ["r", "i"], ["y"])], {"r": weights(1, 2**16), "i": np.zeros((2**16, 1), np.int64)}),
    "sum of a row and a column": ([node("Add", ["r", "c"], ["y"])], {"r": weights(1, 2**16), "c": weights(2**16, 1)}),
}


@pytest.mark.parametrize(("nodes", "constants"), GIGABYTES.values(), ids=GIGABYTES.keys())
def test_a_node_that_makes_gigabytes_is_refused(nodes, constants):
    proto = model(nodes, {"x": [1]}, ["y"], constants)
    with pytest.raises(NotSupportedError, match="at most 67108864 elements are allowed"):
        load(proto)
    with pytest.raises(NotSupportedError, match="at most 67108864 elements are allowed"):
        Session(open_model(proto)).run([weights(1)])


@pytest.mark.parametrize(
    ("op", "indices", "attributes", "shape"),
    [
        ("Gather", np.arange(2**14), {"axis": 1}, (1, 2**14)),
        ("Gather", np.arange(2**14), {"axis": -1}, (1, 2**14)),
        ("GatherND", np.stack([np.zeros(2**14, np.int64), np.arange(2**14)], axis=1), {}, (2**14,)),
        ("GatherND", np.arange(2**14).reshape(1, -1, 1), {"batch_dims": 1}, (1, 2**14)),
        ("GatherElements", np.arange(2**14).reshape(1, -1), {"axis": 1}, (1, 2**14)),
    ],
)
def test_an_axis_that_indices_go_along_is_not_counted_twice(op, indices, attributes, shape):
    table = weights(1, 2**14)
    proto = model([node(op, ["x", "i"], ["y"], **attributes)], {"x": [1, 2**14]}, ["y"], {"i": indices})
    with limits.allow(elements=2**14, element_growth=1):
        (found,) = Session(open_model(proto)).run([table])
    np.testing.assert_array_equal(found, table.reshape(shape))


def test_an_input_of_gigabytes_is_refused():
    with pytest.raises(ShapeError, match=r"input 'x' of shape .* has more than 67108864 elements"):
        load(model([node("Relu", ["x"], ["y"])], {"x": [2**31, 2**31]}, ["y"]))


def test_a_loop_without_end_is_refused():
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"])],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("d", 9, [])],
    )
    proto = model(
        [node("Loop", ["", "t"], [], body=body), node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], {"t": np.array(True)}
    )
    with (
        limits.allow(unrolled_steps=100),
        pytest.raises(CheckpointError, match="Loop 'Loop' goes on for too many steps"),
    ):
        load(proto)


def test_a_loop_that_cannot_end_early_is_refused_before_its_first_step(monkeypatch):
    """Its 20,000 steps would take two seconds."""
    monkeypatch.setattr(Node, "step", lambda self: pytest.fail("a step was made"))
    with pytest.raises(CheckpointError, match="Loop 'Loop' goes on for too many steps, 8388611"):
        load(gathering_loop(8_388_611, 5))


def pool(**attributes):
    return model([node("AveragePool", ["x"], ["y"], **attributes)], {"x": [1, 1, 5, 5]}, ["y"], opset=19)


def gathering_loop(trips, extent):
    """A loop whose steps each give `extent` zeros."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Expand", ["zero", "n"], ["z"])],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_value_info("z", 1, None)],
    )
    weights = {"m": np.int64(trips), "t": np.array(True), "zero": np.zeros(1, np.float32), "n": np.array([extent])}
    return model([node("Loop", ["m", "t"], ["y"], body=body)], {"x": [1]}, ["y"], weights)


def growing_sequence():
    """A loop that puts a million zeros into a sequence again and again."""
    s = helper.make_tensor_sequence_value_info("s", 1, None)
    body = helper.make_graph(
        [
            node("Identity", ["c"], ["d"]),
            node("Expand", ["zero", "n"], ["z"]),
            node("SequenceInsert", ["s", "z"], ["q"]),
        ],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []), s],
        [helper.make_tensor_value_info("d", 9, []), helper.make_tensor_sequence_value_info("q", 1, None)],
    )
    nodes = [node("SequenceEmpty", [], ["e"]), node("Loop", ["m", "t", "e"], ["r"], body=body)]
    weights = {"m": np.int64(90_000), "t": np.array(True), "zero": np.zeros(1, np.float32), "n": np.array([1_000_000])}
    return model([*nodes, node("SequenceLength", ["r"], ["y"])], {"x": [1]}, ["y"], weights)


def nested_loops():
    """A loop of 90,000 steps in another."""
    i, c = helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, [])
    d = helper.make_tensor_value_info("d", 9, [])
    inner = helper.make_graph([node("Identity", ["c"], ["d"])], "inner", [i, c], [d])
    both = [node("Identity", ["c"], ["d"]), node("Loop", ["m", "t"], [], body=inner)]
    outer = helper.make_graph(both, "outer", [i, c], [d])
    nodes = [node("Loop", ["m", "t"], [], body=outer), node("Relu", ["x"], ["y"])]
    return model(nodes, {"x": [1]}, ["y"], {"m": np.int64(90_000), "t": np.array(True)})


def hostile() -> dict[str, object]:
    """Small files that ask for much."""
    x = {"x": [1, 1, 5, 5]}
    big = {"w": np.zeros((1, 1, 1, 1), np.float32)}
    return {
        "pads": pool(kernel_shape=[1, 1], pads=[3_000_000] * 4),
        "pads under a kernel": pool(kernel_shape=[3_000_001] * 2, pads=[3_000_000] * 4),
        "pads of one axis": pool(kernel_shape=[2, 9_000_000], pads=[0, 8_999_999, 0, 8_999_999], dilations=[2, 1]),
        "pads of max": model([node("MaxPool", ["x"], ["y", "i"], kernel_shape=[1, 1], pads=[3_000_000] * 4)], x, ["y"]),
        "pads of a convolution": model([node("Conv", ["x", "w"], ["y"], pads=[3_000_000] * 4)], x, ["y"], big),
        "a gathering loop": gathering_loop(90_000, 100_000),
        "a gathering loop of few steps": gathering_loop(8, 250_000_000),
        "a growing sequence": growing_sequence(),
        "loops in loops": nested_loops(),
        "an outer product": model(
            [node("Einsum", ["a", "a", "a"], ["y"], equation="i,j,k->ijk")], x, ["y"], {"a": np.zeros(3000, np.float32)}
        ),
        "parts": model([node("SplitToSequence", ["a"], ["s"]), node("SequenceLength", ["s"], ["y"])], x, ["y"],
                       {"a": np.zeros(200_000, np.float32)}),
        "a Fourier transform": model([node("DFT", ["a", "n"], ["y"])], x, ["y"],
                                     {"a": np.zeros((1, 4, 1), np.float32), "n": np.int64(100_000)}, opset=17),
        "taps": model(
            [node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)], {"x": [1, 1, 1, 4_000_000]}, ["y"],
            {"s": np.array([1, 1, 1, 1e-6], np.float32)}, opset=18,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", hostile())
@pytest.mark.parametrize(
    "run", [load, lambda proto: Session(open_model(proto)).run([np.zeros((1, 1, 5, 5), np.float32)])]
)
def test_a_small_file_that_asks_for_much_is_refused_at_once(name, run):
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PaddockError, match=r"raise the limit|not smaller than the window"):
        run(hostile()[name])
    assert time.process_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KB; the limit of elements is 256 MB


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_device_or_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("zero", "a device"), ("", "a folder")):
        with pytest.raises(CheckpointError, match=f"is {kind}, not a file"):
            load(tmp_path / name)


def test_a_function_that_calls_itself_is_refused():
    f = helper.make_function(
        "my", "F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="my")], [helper.make_opsetid("my", 1)]
    )
    graph = model([node("F", ["x"], ["y"], domain="my")], {"x": [1]}, ["y"]).graph
    proto = helper.make_model(
        graph, functions=[f], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    )
    with pytest.raises(CheckpointError, match="nested too deeply, 33; 32 are allowed"):
        load(proto)


def test_wrong_attributes_are_refused_with_the_node_s_name():
    proto = model([node("Transpose", ["x"], ["y"], name="turn", perm=["a", "b"])], {"x": [1, 2]}, ["y"])
    with pytest.raises(PaddockError, match="onnx: Transpose 'turn'"):
        load(proto)


def test_a_node_without_an_input_that_it_needs_is_refused():
    proto = model([node("Resize", ["x"], ["y"], name="grow")], {"x": [1, 1, 2, 2]}, ["y"])
    with pytest.raises(CheckpointError, match="onnx: Resize 'grow': malformed"):
        load(proto)


def fuzzed(data: bytes, rng: np.random.Generator) -> bytes:
    """`data` with some bytes changed, taken out or put in, or its end cut off."""
    array = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(array)))
        kind = rng.integers(4)
        if kind == 0:
            array[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            array[at] = int(rng.integers(256))
        elif kind == 2:
            del array[at : at + int(rng.integers(1, 9))]
        else:
            array[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(array[: int(rng.integers(len(array)))] if rng.random() < 0.2 else array)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_refused_or_run(seed):
    rng = np.random.default_rng(seed)
    data = small_cnn(1).SerializeToString()
    # Most of the file is weights; damage the structure.
    head = data[: len(data) - sum(len(t.raw_data) for t in small_cnn().graph.initializer)]
    refused = 0
    for i in range(150):
        damaged = fuzzed(data if i % 2 else head, rng)
        try:
            load(damaged)
        except PaddockError as e:
            refused += 1
            assert str(e)
    assert refused > 50
