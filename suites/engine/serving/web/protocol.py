"""Tensors of the Open Inference Protocol v2 between bytes and arrays: JSON, and the binary extension of Triton.

https://github.com/kserve/open-inference-protocol; in a binary body, the header `Inference-Header-Content-Length` says
where the JSON ends and the tensors' bytes begin, one behind the other. An element of BYTES is its length (uint32,
little-endian) and its bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic
import pydantic_core

from suites.engine.serving.errors import RequestError, TooLarge
from suites.engine.serving.web.http import parse, whole_number

DATATYPES = {
    "BOOL": "bool",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("UINT", "INT") for bits in (8, 16, 32, 64)},
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
}
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
_MAX_AXES, _MAX_EXTENT, _MAX_ELEMENTS = 8, 2**31 - 1, 2**40
HEADER = "Inference-Header-Content-Length"


class TensorIn(pydantic.BaseModel):
    """An input."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None


class OutputAsked(pydantic.BaseModel):
    """An output that is wanted."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(pydantic.BaseModel):
    """Inputs, and which outputs are wanted of them."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    id: str | None = None
    parameters: dict[str, Any] = {}
    inputs: list[TensorIn]
    outputs: list[OutputAsked] | None = None


@dataclass(frozen=True)
class TextTensor:
    """BYTES, in row-major order."""

    shape: list[int]
    elements: list[str]


def datatype_of(dtype: str) -> str:
    """The protocol's name of an element type."""
    return "BF16" if dtype == "bfloat16" else _NAMES[dtype]


def read_request(
    body: bytes, header: str | None, max_values: int
) -> tuple[InferRequest, dict[str, np.ndarray | TextTensor]]:
    """Return the request and its inputs by name.

    Args:
        body: of the request.
        header: the value of `HEADER`, where the request has it.
        max_values: of the JSON, and texts of a binary tensor.
    """
    if header is None:
        asked, rest = parse(InferRequest, body, max_values), memoryview(b"")
    else:
        length = whole_number(header)
        if length is None or length > len(body):
            raise RequestError(f"{HEADER}: is {header[:100]!r}; the body has {len(body)} bytes")
        asked, rest = parse(InferRequest, body[:length], max_values), memoryview(body)[length:]
    found: dict[str, np.ndarray | TextTensor] = {}
    for tensor in asked.inputs:
        if tensor.name in found:
            raise RequestError(f"input {tensor.name}: is there twice")
        check_tensor(tensor)
        check_texts(tensor, max_values)
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            found[tensor.name] = _from_json(tensor)
            continue
        if tensor.data is not None or type(size) is not int or not 0 <= size <= len(rest):
            raise RequestError(
                f"input {tensor.name}: binary_data_size is {size!r} and {len(rest)} bytes are left; "
                "data and binary_data_size exclude each other"
            )
        found[tensor.name], rest = tensor_of(tensor, rest[:size]), rest[size:]
    if len(rest):
        raise RequestError(f"the body has {len(rest)} bytes more than its inputs")
    return asked, found


def write_response(
    head: Mapping[str, Any], outputs: Mapping[str, np.ndarray | TextTensor], binary: Sequence[str]
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON part where there is a binary one.

    Args:
        head: what stands beside the outputs.
        outputs: by name.
        binary: names of those that go into the binary part.
    """
    rows, parts = [], []
    for name, tensor in outputs.items():
        datatype = "BYTES" if isinstance(tensor, TextTensor) else datatype_of(str(tensor.dtype))
        row: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "datatype": datatype}
        if name in binary:
            parts.append(bytes_of(tensor))
            row["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            row["data"] = tensor.elements if isinstance(tensor, TextTensor) else tensor.ravel().tolist()
        rows.append(row)
    json = pydantic_core.to_json({**head, "outputs": rows}, inf_nan_mode="null")
    return b"".join((json, *parts)), len(json) if parts else None


def check_tensor(tensor: TensorIn) -> None:
    """Raise RequestError for a shape or a type that no tensor has."""
    if len(tensor.shape) > _MAX_AXES:
        raise RequestError(f"input {tensor.name}: it has {len(tensor.shape)} axes; {_MAX_AXES} are allowed")
    if not all(0 <= extent <= _MAX_EXTENT for extent in tensor.shape):
        raise RequestError(
            f"input {tensor.name}: its shape is {tensor.shape}; no extent is below 0 or above {_MAX_EXTENT}"
        )
    if math.prod(extent for extent in tensor.shape if extent) > _MAX_ELEMENTS:  # also where another extent is 0
        raise RequestError(f"input {tensor.name}: its shape is {tensor.shape}; no array has such extents")
    if tensor.datatype != "BYTES" and tensor.datatype not in DATATYPES:
        known = ", ".join((*DATATYPES, "BYTES"))
        raise RequestError(f"input {tensor.name}: its datatype is {tensor.datatype!r}; there are {known}")


def _from_json(tensor: TensorIn) -> np.ndarray | TextTensor:
    if tensor.data is None:
        raise RequestError(f"input {tensor.name}: has neither data nor binary_data_size")
    flat = _flat(tensor.data)
    count = math.prod(tensor.shape)
    if len(flat) != count:
        raise RequestError(f"input {tensor.name}: has {len(flat)} elements; its shape {tensor.shape} asks for {count}")
    if tensor.datatype == "BYTES":
        wrong = next((value for value in flat if not isinstance(value, str)), None)
        if wrong is not None:
            raise RequestError(f"input {tensor.name}: an element is {wrong!r}; those of BYTES are texts")
        return TextTensor(tensor.shape, flat)
    kind = np.dtype(DATATYPES[tensor.datatype])
    allowed = {"b": (bool,), "f": (int, float)}.get(kind.kind, (int,))
    wrong = next((value for value in flat if type(value) not in allowed), None)
    try:
        if wrong is None:
            return np.array(flat, kind).reshape(tensor.shape)
    except OverflowError as error:
        wrong = error
    raise RequestError(f"input {tensor.name}: an element is no {tensor.datatype}: {wrong!s:.80}")


def _flat(data: list[Any]) -> list[Any]:
    """Nested lists, which the protocol allows too, as one."""
    while data and isinstance(data[0], list):
        if not all(isinstance(row, list) for row in data):
            raise RequestError("inputs: data mixes lists and elements")
        data = [value for row in data for value in row]
    return data


def check_texts(tensor: TensorIn, most: int) -> None:
    """Raise TooLarge for more texts than a request may have."""
    if tensor.datatype == "BYTES" and math.prod(tensor.shape) > most:
        raise TooLarge(f"input {tensor.name}: has {tensor.shape} texts; {most} are allowed (--max-values)")


def tensor_of(tensor: TensorIn, data: memoryview) -> np.ndarray | TextTensor:
    """The array or the texts that bytes stand for; RequestError where they are not as many as the shape asks for."""
    count = math.prod(tensor.shape)
    if tensor.datatype == "BYTES":
        elements = _elements(tensor.name, data, count)
        if len(elements) != count:
            raise RequestError(f"input {tensor.name}: has {len(elements)} elements; its shape asks for {count}")
        return TextTensor(tensor.shape, elements)
    kind = np.dtype(DATATYPES[tensor.datatype]).newbyteorder("<")
    if len(data) != count * kind.itemsize:
        raise RequestError(f"input {tensor.name}: has {len(data)} bytes; {tensor.shape} takes {count * kind.itemsize}")
    return np.frombuffer(data, kind).astype(kind.newbyteorder("=")).reshape(tensor.shape)


def _elements(name: str, data: memoryview, most: int) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(data) and len(found) <= most:
        if at + 4 > len(data):
            raise RequestError(f"input {name}: its bytes end within an element's length")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        if at > len(data):
            raise RequestError(f"input {name}: an element of {length} bytes is longer than what is left")
        try:
            found.append(str(data[at - length : at], "utf-8"))
        except UnicodeDecodeError as error:
            raise RequestError(f"input {name}: element {len(found)} is no UTF-8 ({error.reason})") from None
    return found


def bytes_of(tensor: np.ndarray | TextTensor) -> bytes:
    """The bytes that stand for it."""
    if isinstance(tensor, TextTensor):
        encoded = [text.encode() for text in tensor.elements]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    return tensor.astype(tensor.dtype.newbyteorder("<")).tobytes()
