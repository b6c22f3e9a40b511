"""safetensors: what others wrote is read in every type, and others read what is written here."""

import json
import resource
import struct
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from framework.errors import CheckpointError
from framework.io import load_metadata, load_tensors, read_arrays, save_tensors
from framework.table import SGD, Table, Zeros
from framework.tensors import tensor

VALUES = [0, 1, 2, 100]


def written(path, kind, raw, shape, metadata=None):
    header = {"a": {"dtype": kind, "shape": shape, "data_offsets": [0, len(raw)]}}
    text = json.dumps(header | ({"__metadata__": metadata} if metadata else {})).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw)
    return path


@pytest.mark.parametrize(
    "kind, stored, read",
    [
        ("F64", "<f8", "float64"), ("F32", "<f4", "float32"), ("F16", "<f2", "float16"), ("I64", "<i8", "int64"),
        ("I32", "<i4", "int32"), ("I16", "<i2", "int32"), ("I8", "i1", "int8"), ("U8", "u1", "uint8"),
        ("U16", "<u2", "int32"), ("U32", "<u4", "int64"), ("U64", "<u8", "int64"), ("BOOL", "?", "bool"),
        ("BF16", ml_dtypes.bfloat16, "bfloat16"), ("F8_E4M3", ml_dtypes.float8_e4m3fn, "float32"),
        ("F8_E5M2", ml_dtypes.float8_e5m2, "float32"),
    ],
)  # fmt: skip
def test_every_type_of_others_is_read(tmp_path, kind, stored, read):
    array = np.array(VALUES).astype(stored)
    found = load_tensors(written(tmp_path / "a", kind, array.tobytes(), [2, 2]))["a"]
    assert (found.dtype, found.shape) == (read, (2, 2))
    np.testing.assert_array_equal(
        read_arrays(tmp_path / "a")["a"].astype(np.float64), array.astype(np.float64).reshape(2, 2)
    )


def test_bfloat16_of_others_is_read_where_nobody_imported_ml_dtypes(tmp_path):
    written(tmp_path / "a", "BF16", np.array([1.5], ml_dtypes.bfloat16).tobytes(), [1])
    code = f"from framework.io import load_tensors; print(load_tensors({str(tmp_path / 'a')!r})['a'].dtype)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "bfloat16"


@pytest.mark.parametrize("kind, size", [("C64", 8), ("F8_E8M0", 1)])
def test_a_type_that_is_not_read_is_refused_by_its_name(tmp_path, kind, size):
    with pytest.raises(CheckpointError, match=rf"'a' is .* \({kind}\); convert it"):
        load_tensors(written(tmp_path / "a", kind, bytes(size), [1]))


def test_numbers_that_no_type_holds_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"'a' \(U64\) holds numbers of 2\^63"):
        load_tensors(written(tmp_path / "a", "U64", b"\xff" * 8, [1]))


def test_others_read_our_bfloat16_as_what_it_is(tmp_path):
    path = tmp_path / "a"
    save_tensors(path, {"a": tensor([1.5, -2.0]).astype("bfloat16"), "b": tensor([1.0])}, {"x": "y"})
    kinds = {name: part["dtype"] for name, part in safetensors.deserialize(path.read_bytes())}
    assert kinds == {"a": "BF16", "b": "F32"} and load_metadata(path) == {"x": "y"}
    assert load_tensors(path)["a"].astype("float32").numpy().tolist() == [1.5, -2.0]


def test_bfloat16_of_our_older_files_is_read(tmp_path):
    raw = np.array([1.5], ml_dtypes.bfloat16).tobytes()
    path = written(tmp_path / "a", "U16", raw, [1], {"paddock.bfloat16": "a"})
    assert load_tensors(path)["a"].astype("float32").numpy().tolist() == [1.5]


@pytest.mark.parametrize("shape", [[], [0, 3], [2**31, 2**31, 0], [1] * 70])
def test_shapes_at_the_edge_are_read_or_refused(tmp_path, shape):
    path = written(tmp_path / "a", "F32", bytes(4) if 0 not in shape else b"", shape)
    try:
        assert load_tensors(path)["a"].shape == tuple(shape)
    except (CheckpointError, ValueError) as error:
        assert isinstance(error, CheckpointError), error


@pytest.mark.parametrize("cut", [0, 4, 8, 20, -1])
def test_a_cut_file_is_damaged(tmp_path, cut):
    path = tmp_path / "a"
    save_tensors(path, {"a": tensor([1.0, 2.0])})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        load_tensors(path)


def _saved(folder, rows):
    save_tensors(folder / "a.safetensors", {"a": tensor(np.ones((rows, 4), np.float32))})


def _tabled(folder, rows):
    _table(rows).save(folder / f"{rows}")


def _published(folder, rows):
    _table(rows).snapshot(folder / "a")


def _table(rows):
    table = Table(4, rule=SGD(), init=Zeros(), name="a")
    table.update(np.arange(rows), np.ones((rows, 4), np.float32))
    return table


@pytest.mark.parametrize("write", [_saved, _tabled, _published])
def test_a_limit_of_the_shell_is_named_with_what_raises_it_and_nothing_is_lost(tmp_path, write):
    """As `ulimit -f` sets it; Python ignores the signal of it."""
    write(tmp_path, 10)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(CheckpointError, match=r"cannot be written.*File too large.*`ulimit -f unlimited`"):
            write(tmp_path, 3000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
