"""The tensors that an .onnx file holds, by name: initializers, and constants among the nodes of its graph.

The file is a protocol buffer, of which only these fields are looked at; the package `onnx` is not needed.
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto has their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.limits import Meter
from framework.outside import read_bytes

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5  # ModelProto.graph; GraphProto.node, .initializer
_OUTPUT, _KIND, _ATTRIBUTE, _TENSOR = 2, 4, 5, 5  # NodeProto.output, .op_type, .attribute; AttributeProto.t
_DIMS, _TYPE, _NAME, _RAW, _PLACE = 1, 2, 8, 9, 14  # TensorProto.dims, .data_type, .name, .raw_data, .data_location
_TYPES = {1: "<f4", 10: "<f2", 11: "<f8", 6: "<i4", 7: "<i8", 3: "i1", 2: "u1", 9: "?"}  # TensorProto.DataType
_LISTS = {1: (4, "<f4"), 11: (10, "<f8")}  # float_data and double_data, where numbers do not stand in raw_data
_MOST_BITS = 64


def read_onnx(path: Path) -> dict[str, np.ndarray]:
    """All floating-point tensors of a file.

    Raises:
        CheckpointError: it is no .onnx file, is damaged, or keeps its tensors in other files.
    """
    data = memoryview(read_bytes(path, "weight_bytes"))
    meter = Meter(len(data), "the file")
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in _tensors(data):
        array = _array(name, tensor, meter)
        if array is not None:
            arrays[name] = array
    if not arrays:
        raise CheckpointError("an .onnx file without weights in it")
    return arrays


def _tensors(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Each tensor with the name that the graph's nodes read it by."""
    for graph in _parts(data, _GRAPH):
        for tensor in _parts(graph, _INITIALIZER):
            yield _text(tensor, _NAME), tensor
        for node in _parts(graph, _NODE):
            if _text(node, _KIND) == "Constant":
                for attribute in _parts(node, _ATTRIBUTE):
                    for tensor in _parts(attribute, _TENSOR):
                        yield _text(node, _OUTPUT), tensor


def _array(name: str, tensor: memoryview, meter: Meter) -> np.ndarray | None:
    """The numbers of a TensorProto; None for whole numbers and truths, which are no weights."""
    shape: list[int] = []
    kind, raw, listed = 0, None, b""
    fields = list(_fields(tensor))
    for number, value in fields:
        if number == _DIMS:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == _TYPE and isinstance(value, int):
            kind = value
        elif number == _RAW and isinstance(value, memoryview):
            raw = value
        elif number == _PLACE and value == 1:
            raise CheckpointError(f"'{name}' lies in another file; save it with its weights inside")
    if kind not in _TYPES:
        raise CheckpointError(f"'{name}' has the type {kind}; weights are float32, float16 or float64")
    if np.dtype(_TYPES[kind]).kind != "f":
        return None
    if raw is None:
        at, _ = _LISTS.get(kind, (0, ""))
        listed = b"".join(bytes(value) for number, value in fields if number == at and isinstance(value, memoryview))
    meter.take(len(raw) if raw is not None else len(listed))
    found = np.frombuffer(raw if raw is not None else listed, _TYPES[kind])
    count = 1
    for extent in shape:
        count *= extent
    if count != found.size:
        raise CheckpointError(f"'{name}' has {found.size} numbers for the shape {shape}")
    return found.astype(np.float32).reshape(shape)


def _parts(data: memoryview, number: int) -> Iterator[memoryview]:
    """The fields of that number which hold bytes."""
    return (value for at, value in _fields(data) if at == number and isinstance(value, memoryview))


def _text(data: memoryview, number: int) -> str:
    return next((bytes(value).decode("utf-8", "replace") for value in _parts(data, number)), "")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(number, value) of each field of a message: a whole number, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise CheckpointError("not an .onnx file, or a damaged one")
        yield number, data[at : at + size]
        at += size


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A whole number of 7 bits a byte, the low ones first, and where it ends."""
    value = 0
    for shift in range(0, _MOST_BITS, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CheckpointError("not an .onnx file, or a damaged one")
