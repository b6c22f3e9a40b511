"""Weight files of other frameworks, and files that want to do something else.

data/ has files that PyTorch 2.13 wrote, in its formats since and before 1.6.
"""

import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.weights import find_weights, read_weights
from suites.engine.weights.formats.pickles import Refused, load_pickle

DATA = Path(__file__).parent / "data"
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["torch_zip.bin", "torch_legacy.bin"])
def test_files_of_pytorch_give_what_was_saved(name):
    arrays = read_weights(DATA / name)
    expected = {
        "a.weight": CUBE,
        "a.transposed": CUBE[0].T,
        "b.half": CUBE[1],
        "b.bfloat16": CUBE[1] + 0.5,
        "c.long": np.arange(3),
        "c.scalar": np.float32(2.5),
        "d.flag": np.array([True, False]),
        "d.parameter": np.ones(2, np.float32),
    }
    assert list(arrays) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value)
        assert arrays[key].dtype == np.asarray(value).dtype


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_files_of_paddle_give_what_was_saved(tmp_path, protocol):
    """As paddle.save writes: arrays, or arrays with their names, and a table of parameter names beside them."""

    class Named:
        def __init__(self, array):
            self.array = array

        def __reduce__(self):
            return tuple, (("linear_0.w_0", self.array),)

    class Plain(Named):
        def __reduce__(self):
            return eval, ("data", {"data": self.array})

    fortran = np.asfortranarray(CUBE[0].astype(np.float64))
    state = {"a": CUBE, "b": Named(fortran), "c": Plain(np.array([3], np.int64)), "d": np.array([True])}
    state["StructuredToParameterName@@"] = {"a": "linear_0.w_0"}
    path = tmp_path / "model_state.pdparams"
    path.write_bytes(pickle.dumps(state, protocol))
    arrays = read_weights(path)
    assert list(arrays) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(arrays["a"], CUBE)
    np.testing.assert_array_equal(arrays["b"], fortran)
    assert arrays["b"].dtype == np.float64 and arrays["c"].tolist() == [3] and arrays["d"].tolist() == [True]


def _safetensors(path, **parts):
    header, data = {}, b""
    for name, (dtype, shape, raw) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    import json

    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_safetensors_of_every_float_type_are_read(tmp_path):
    path = tmp_path / "model.safetensors"
    _safetensors(
        path,
        half=("F16", [2], np.array([1.5, -2], np.float16).tobytes()),
        bfloat16=("BF16", [2], np.array([0x3FC0, 0xC000], np.uint16).tobytes()),
        single=("F32", [1, 1], np.array([0.25], np.float32).tobytes()),
    )
    arrays = read_weights(tmp_path)
    assert arrays["half"].tolist() == arrays["bfloat16"].tolist() == [1.5, -2.0]
    assert arrays["bfloat16"].dtype == arrays["half"].dtype == np.float32 and arrays["single"].shape == (1, 1)
    _safetensors(path, strange=("C64", [1], bytes(8)))
    with pytest.raises(CheckpointError, match=r"'strange' is complex \(C64\)"):
        read_weights(path)


def test_shards_are_read_together(tmp_path):
    for name, value in (("one", 1.0), ("two", 2.0)):
        _safetensors(tmp_path / f"{name}.safetensors", **{name: ("F32", [1], np.array([value], np.float32).tobytes())})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"one": "one.safetensors", "two": "two.safetensors"}}')
    assert {k: v.tolist() for k, v in read_weights(tmp_path).items()} == {"one": [1.0], "two": [2.0]}
    index.write_text('{"weight_map": {"one": "../one.safetensors"}}')
    with pytest.raises(CheckpointError, match="a weight file must lie beside it"):
        read_weights(tmp_path)


def test_the_file_is_found_in_its_folder(tmp_path):
    with pytest.raises(CheckpointError, match="there is no such file or folder"):
        find_weights(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="there is none"):
        find_weights(tmp_path)
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"there is a\.bin, b\.bin\); name the file"):
        find_weights(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert find_weights(tmp_path) == [tmp_path / "pytorch_model.bin"]


# -- hostile files
class Calls:
    """What pickle.loads would call."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


class State:
    """What pickle.loads would make and give attributes."""


STATE = State()
STATE.x = 1
HOSTILE = {
    "a command": (Calls(os.system, "touch {flag}"), "the name (posix|nt).system"),
    "an expression": (Calls(eval, "open('{flag}', 'w')"), "a call of eval"),
    "an expression with names": (Calls(eval, "open('{flag}', 'w')", {"data": 1}), "a call of eval"),
    "a file": (Calls(open, "{flag}", "w"), "the name (_io|io).open"),
    "an attribute": (Calls(getattr, {}, "clear"), "the name builtins.getattr"),
    "an object": (STATE, "the name .*State"),
    "an object of a class": (Exception("x"), "the name builtins.Exception"),
    "a mapping of functions": ({"a": print}, "the name builtins.print"),
    "an array of objects": ({"a": np.array([{}], object)}, "an array of objects|an array of type O8"),
    "a type of text": ({"a": np.array(["x"])}, "an array of type U1"),
    "numbers of two fields": ({"a": np.zeros(1, [("x", "f4")])}, "an array of type V4"),
}


@pytest.mark.parametrize("suffix", [".pdparams", ".bin"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_pickle_that_wants_more_than_tensors_is_refused_and_nothing_runs(tmp_path, what, suffix):
    flag = tmp_path / "ran"
    value, reason = HOSTILE[what]
    if isinstance(value, Calls):
        value = Calls(value.function, *(a.format(flag=flag) if isinstance(a, str) else a for a in value.arguments))
    path = tmp_path / f"model{suffix}"
    data = pickle.dumps({"weight": value}, 4)
    if suffix == ".bin":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", data)
    else:
        path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"refused, it holds ({reason}); .* nothing in it was run"):
        read_weights(path)
    assert not flag.exists()


@pytest.mark.parametrize("opcode", [b"i", b"o", b"\x81", b"\x82\x01", b"Q", b"\x97"])
def test_every_other_instruction_is_refused(opcode):
    """INST, OBJ, NEWOBJ, EXT1, BINPERSID without storages, NEXT_BUFFER."""
    text = b"\x80\x04(}" + opcode + (b"os\nsystem\n" if opcode == b"i" else b"") + b"."
    with pytest.raises(Refused):
        load_pickle(io.BytesIO(text))


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_an_error_and_nothing_else(tmp_path, seed):
    rng = np.random.default_rng(seed)
    name = ["torch_zip.bin", "torch_legacy.bin"][seed % 2]
    data = bytearray((DATA / name).read_bytes())
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(len(data))] = rng.integers(256)
    data = data[: rng.integers(len(data)) if seed % 3 == 0 else len(data)]
    path = tmp_path / name
    path.write_bytes(bytes(data))
    try:
        read_weights(path)  # the damage may lie in a number
    except CheckpointError as error:
        assert str(error).startswith(str(path))


def _torch_pickle(monkeypatch, storage_size, size, stride, offset=0):
    """A state_dict of one tensor, as PyTorch pickles it; modules of its names stand in for PyTorch."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def rebuild(*_):
        raise AssertionError("nothing may call this")

    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = rebuild
    kind = type("FloatStorage", (), {"__module__": "torch"})
    torch.FloatStorage, torch._utils = kind, utils
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)

    class Storage:
        pass

    class Tensor:
        def __reduce__(self):
            return rebuild, (Storage(), offset, size, stride, False, collections.OrderedDict())

    class Pickler(pickle.Pickler):
        def persistent_id(self, x):
            return ("storage", kind, "0", "cpu", storage_size) if isinstance(x, Storage) else None

    out = io.BytesIO()
    Pickler(out, 2).dump({"weight": Tensor()})
    out.seek(0)
    return out


def test_a_tensor_must_lie_in_its_storage(monkeypatch):
    def read(*how, **more):
        return load_pickle(_torch_pickle(monkeypatch, 6, *how, **more), lambda _: np.arange(6, dtype=np.float32))

    assert read((2, 2), (3, 1), offset=1)["weight"].tolist() == [[1, 2], [4, 5]]
    assert read((0, 9), (9, 1))["weight"].shape == (0, 9)
    for size, stride, offset in (
        ((7,), (1,), 0),
        ((2,), (1,), 5),
        ((2,), (1,), -1),
        ((2,), (-1,), 3),
        ((-1,), (1,), 0),
        ((1000, 1000, 1000), (0, 0, 0), 0),  # an element repeated into more memory than there is
    ):
        with pytest.raises(CheckpointError, match="does not lie in its storage of 6 elements"):
            read(size, stride, offset=offset)


def test_what_is_no_state_dict_is_refused(tmp_path):
    for value, reason in (([1], "it holds a list"), ({"a": 1}, "'a' is a int"), ({1: np.zeros(1)}, "'1' is a ndarray")):
        path = tmp_path / "x.pdparams"
        path.write_bytes(pickle.dumps(value, 4))
        with pytest.raises(CheckpointError, match=reason):
            read_weights(path)
    path = tmp_path / "x.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "")
    with pytest.raises(CheckpointError, match=r"a ZIP archive without data\.pkl"):
        read_weights(path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_files_of_detectron2_and_of_training_scripts_give_their_model(tmp_path, protocol):
    state = {"backbone.conv.weight": CUBE, "count": np.array(3)}
    path = tmp_path / "model_final.pkl"
    around = {"__author__": "Detectron2 Model Zoo", "matching_heuristics": True}
    path.write_bytes(pickle.dumps({"model": state, **around}, protocol))
    arrays = read_weights(path)
    assert list(arrays) == list(state) and arrays["count"] == 3
    np.testing.assert_array_equal(arrays["backbone.conv.weight"], CUBE)
    path.write_bytes(pickle.dumps({"state_dict": state, "epoch": 7, "best": 0.5}, protocol))
    assert list(read_weights(path)) == list(state)
    path.write_bytes(pickle.dumps({"model": state, "optimizer": Calls(os.system, "true")}, protocol))
    with pytest.raises(CheckpointError, match=r"the name (posix|nt)\.system.* nothing in it was run"):
        read_weights(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_member_that_is_compressed_in_another_way_is_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.pth", "w", method) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": 1}, 2) * 50)
    with pytest.raises(CheckpointError, match=f"compressed by method {method}; PyTorch stores its files"):
        read_weights(tmp_path / "a.pth")


def test_a_literal_that_is_none_is_damage(tmp_path):
    (tmp_path / "a.pdparams").write_bytes(b"S'\\xZZ'\n.")
    (tmp_path / "b.pdparams").write_bytes(b"L007L\n.")
    for name in ("a", "b"):
        with pytest.raises(CheckpointError):
            read_weights(tmp_path / f"{name}.pdparams")
