"""Tensors as safetensors files, written whole or not at all, read without running anything."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy

from framework.atomic import atomic_file
from framework.errors import CheckpointError
from framework.outside import check_file, open_file, told_missing
from framework.remedies import refusal
from framework.tensors import Tensor, bfloat16_type, from_numpy

_BFLOAT16 = "paddock.bfloat16"  # metadata key of our older files: names whose bfloat16 stands there as uint16
# NumPy's types by safetensors' names; those that the core lacks become the next wider one that holds all their values.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "?",
}  # fmt: skip
_HALVES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}  # of ml_dtypes
_WIDER = {
    "I16": "int32", "U16": "int32", "U32": "int64", "U64": "int64", "F8_E4M3": "float32", "F8_E5M2": "float32",
}  # fmt: skip


def sha256(path: Path | str) -> str:
    """The SHA-256 of a file's content in hexadecimal, read piece by piece; OSError where it cannot be read."""
    digest = hashlib.sha256()
    with open_file(path, "weight_bytes") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def save_tensors(path: Path | str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes named tensors to a safetensors file; an existing file is replaced only when the new one is complete.

    Args:
        path: of the file.
        tensors: by name.
        metadata: texts by name that go into the file's header; see `load_metadata`.

    Raises:
        CheckpointError: the file cannot be written (a full disk, no permission); what was there before is untouched.
    """
    path = Path(path)
    content = tensor_bytes(tensors, metadata)
    try:
        with atomic_file(path) as part:
            part.write_bytes(content)
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be written ({refusal(e)}); nothing saved before is lost") from e


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """What `save_tensors` writes."""
    arrays = {name: np.asarray(t.array().numpy(), order="C") for name, t in tensors.items()}
    arrays |= {name: arrays[name].view(bfloat16_type()) for name, t in tensors.items() if t.dtype == "bfloat16"}
    return safetensors.numpy.save(arrays, dict(metadata) if metadata else None)


def tensors_in(content: memoryview, where: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file that is in memory, on that memory where it is writable and aligned.

    Raises:
        CheckpointError: it is not such a file, or holds a type that is not read; `where` names it.
    """
    try:
        (length,) = struct.unpack("<Q", content[:8])
        if length > len(content) - 8:
            raise ValueError("its header is cut")
        entries = json.loads(bytes(content[8 : 8 + length]))
        entries.pop("__metadata__", None)
        data = content[8 + length :]
        return {name: from_numpy(_view(data, where, name, entries[name])) for name in sorted(entries)}
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as e:
        raise CheckpointError(f"{where}: damaged or not a safetensors file ({e}); export the model again") from None


def load_tensors(path: Path | str) -> dict[str, Tensor]:
    """Reads all tensors of a safetensors file; see `read_arrays`."""
    return {name: from_numpy(array) for name, array in read_arrays(path).items()}


def read_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """All tensors of a safetensors file, in types that the core has.

    Whole numbers of types that the core lacks become wider ones, float8 becomes float32; bfloat16 is that of ml_dtypes.

    Raises:
        CheckpointError: the file is missing, cut or not a safetensors file, or holds a type that is not read.
    """
    path = Path(path)
    if not path.exists():
        raise CheckpointError(told_missing(path, "there is no such weight file"))
    try:
        with open_file(path, "weight_bytes") as file:
            metadata = load_metadata(path)  # which checks the header: sizes, offsets, types
            (length,) = struct.unpack("<Q", file.read(8))
            entries = json.loads(file.read(length))
            entries.pop("__metadata__", None)
            half = set(metadata.get(_BFLOAT16, "").split(","))
            return {n: _array(file, 8 + length, n, entries[n], n in half) for n in sorted(entries)}
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError) as e:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({e}); copy or save it again") from None


def load_metadata(path: Path | str) -> dict[str, str]:
    """The texts in a safetensors file's header.

    Raises:
        CheckpointError: the file is missing, cut or not a safetensors file.
    """
    if not Path(path).exists():
        raise CheckpointError(told_missing(path, "there is no such weight file"))
    try:
        check_file(path, "weight_bytes")
        with safetensors.safe_open(str(path), framework="numpy") as file:
            return dict(file.metadata() or {})
    except (safetensors.SafetensorError, OSError, ValueError) as e:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({e}); copy or save it again") from None


def _array(file: BinaryIO, start: int, name: str, entry: dict[str, Any], half: bool) -> np.ndarray:
    """One tensor; `start` is where the data of all begin, `half` whether whole numbers of 16 bits are bfloat16."""
    kind = "BF16" if half and entry["dtype"] == "U16" else entry["dtype"]
    dtype = _type_of(kind, name, file.name)
    file.seek(start + entry["data_offsets"][0])
    array = np.fromfile(file, dtype, math.prod(entry["shape"])).reshape(entry["shape"])
    return _as_core_has_it(array, kind, name, file.name)


def _view(data: memoryview, where: str, name: str, entry: dict[str, Any]) -> np.ndarray:
    """One tensor of a file in memory, whose header nobody checked before."""
    kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = _type_of(kind, name, where)
    if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or not start <= end <= len(data):
        raise ValueError(f"'{name}' lies outside of it")
    count = math.prod(shape)
    if count * dtype.itemsize != end - start:
        raise ValueError(f"'{name}' {shape} does not fit its {end - start} bytes")
    array = np.frombuffer(data, dtype, count, start) if count else np.zeros(0, dtype)
    return _as_core_has_it(array.reshape(shape), kind, name, where)


def _type_of(kind: str, name: str, where: str) -> np.dtype:
    if kind not in _TYPES and kind not in _HALVES:
        what = "complex" if kind.startswith("C") else "of a type that is not read"
        raise CheckpointError(f"{where}: '{name}' is {what} ({kind}); convert it to floats or whole numbers")
    return np.dtype(_TYPES[kind]) if kind in _TYPES else _half(_HALVES[kind])


def _as_core_has_it(array: np.ndarray, kind: str, name: str, where: str) -> np.ndarray:
    if kind == "U64" and array.size and array.max() > np.iinfo(np.int64).max:
        raise CheckpointError(f"{where}: '{name}' (U64) holds numbers of 2^63 and more, which nothing here holds")
    return array.astype(_WIDER[kind]) if kind in _WIDER else array


def _half(name: str) -> np.dtype:
    import ml_dtypes  # 30 ms, so who does not need it does not wait

    return np.dtype(getattr(ml_dtypes, name))
