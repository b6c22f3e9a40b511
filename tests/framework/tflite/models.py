"""Small .tflite files, written by hand: FlatBuffers of tables, vectors and texts."""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framework.tflite import schema

CODES = {name: i for i, name in enumerate(schema.OPERATORS)}
TYPES = {name: i for i, name in schema.TENSOR_TYPES.items()} | {"int16": 7}


class Shared:
    """A list that holds one table many times: its offsets lead to one place.

    Args:
        table: its fields.
        count: of offsets.
    """

    def __init__(self, table: dict[int, Any], count: int) -> None:
        self.table, self.count = table, count


class Scalar:
    """A number in a table; `kind` as the module struct has it."""

    def __init__(self, kind: str, value: Any) -> None:
        self.kind, self.value = kind, value


def flatbuffer(table: dict[int, Any]) -> bytes:
    """The bytes of a table: {field: Scalar, text, bytes, array, table, or list of tables}, as TensorFlow Lite wants."""
    out = bytearray(struct.pack("<I4s", 0, schema.IDENTIFIER))
    struct.pack_into("<I", out, 0, _table(out, table))
    return bytes(out)


def _align(out: bytearray, size: int = 4) -> None:
    out.extend(bytes(-len(out) % size))


def _table(out: bytearray, fields: dict[int, Any]) -> int:
    _align(out)
    vtable, count = len(out), max(fields, default=-1) + 1
    out.extend(bytes(4 + 2 * count))
    _align(out, 8)
    at = len(out)
    out.extend(struct.pack("<i", at - vtable))
    later = []
    for number, value in fields.items():
        form = struct.Struct("<" + (value.kind if isinstance(value, Scalar) else "I"))
        _align(out, form.size)
        struct.pack_into("<H", out, vtable + 4 + 2 * number, len(out) - at)
        if isinstance(value, Scalar):
            out.extend(form.pack(value.value))
        else:
            later.append((len(out), value))
            out.extend(bytes(4))
    struct.pack_into("<HH", out, vtable, 4 + 2 * count, len(out) - at)
    for place, value in later:
        struct.pack_into("<I", out, place, _value(out, value) - place)
    return at


def _value(out: bytearray, value: Any) -> int:
    if isinstance(value, dict):
        return _table(out, value)
    if isinstance(value, Shared):
        _align(out)
        at = len(out)
        out.extend(struct.pack("<I", value.count) + bytes(4 * value.count))
        table = _table(out, value.table)
        for place in range(at + 4, at + 4 + 4 * value.count, 4):
            struct.pack_into("<I", out, place, table - place)
        return at
    if isinstance(value, list):
        _align(out)
        at = len(out)
        out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
        for i, item in enumerate(value):
            place = at + 4 + 4 * i
            struct.pack_into("<I", out, place, _table(out, item) - place)
        return at
    array = (
        np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
        if not isinstance(value, np.ndarray)
        else value
    )
    while (len(out) + 4) % max(4, array.itemsize):
        out.append(0)
    at = len(out)
    out.extend(struct.pack("<I", array.size) + np.ascontiguousarray(array).tobytes() + b"\0")
    return at


@dataclass
class File:
    """A model under construction; its methods return numbers of tensors."""

    buffers: list[Any] = field(default_factory=lambda: [{}])
    tensors: list[Any] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)

    def tensor(self, name, dtype, shape, data=None, scale=None, zero=0, axis=0, more=None):
        """A tensor; `data` makes it a constant, `scale` gives its integers a meaning."""
        place = 0
        if data is not None:
            place = len(self.buffers)
            self.buffers.append({0: np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)})
        fields = {0: np.array(shape, np.int32), 1: Scalar("b", TYPES[dtype]), 2: Scalar("I", place), 3: name}
        if scale is not None:
            scale = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), scale.shape)
            fields[4] = {2: scale, 3: zeros, 6: Scalar("i", axis)}
        self.tensors.append(fields | (more or {}))
        return len(self.tensors) - 1

    def given(self, name, dtype, shape, **steps):
        """An input."""
        self.inputs.append(self.tensor(name, dtype, shape, **steps))
        return self.inputs[-1]

    def constant(self, name, array, **steps):
        """A constant of NumPy's type."""
        return self.tensor(name, array.dtype.name, array.shape, array, **steps)

    def node(self, op, inputs, output, **options):
        """An operator; options as `schema.OPTIONS` names them."""
        if op not in self.codes:
            self.codes.append(op)
        fields = {0: Scalar("I", self.codes.index(op)), 1: np.array(inputs, np.int32)}
        fields[2] = np.array(np.atleast_1d(output), np.int32)
        stated = {}
        for name, number, kind, _ in schema.OPTIONS.get(op, ()):
            if name in options:
                value = options.pop(name)
                words = {"padding": schema.PADDINGS, "activation": schema.ACTIVATIONS}.get(name)
                stated[number] = Scalar(kind, words.index(value) if words else value)
        if op in schema.LISTS and (key := schema.LISTS[op][0]) in options:
            stated[schema.LISTS[op][1]] = np.array(options.pop(key), np.int32)
        assert not options, options
        if op in schema.OPTION_KINDS:
            fields |= {3: Scalar("B", schema.OPTION_KINDS[op]), 4: stated}
        self.nodes.append(fields)
        return output

    def bytes(self, *outputs):
        """The file."""
        codes = [
            {0: Scalar("b", min(127, CODES[c])), 3: Scalar("i", CODES[c])} if c in CODES else
            {0: Scalar("b", CODES["CUSTOM"]), 1: c, 3: Scalar("i", CODES["CUSTOM"])}
            for c in self.codes
        ]  # fmt: skip
        graph = {0: self.tensors, 1: np.array(self.inputs, np.int32), 2: np.array(outputs, np.int32), 3: self.nodes}
        return flatbuffer({0: Scalar("I", 3), 1: codes, 2: [graph], 3: "by hand", 4: self.buffers})


def single(op, inputs, shape, dtype="float32", steps=None, **options):
    """A file of one operator. `inputs`: arrays (constants) or (dtype, shape[, steps]) of the graph's inputs."""
    f = File()
    numbers = []
    for i, x in enumerate(inputs):
        if x is None:
            numbers.append(-1)
        elif isinstance(x, np.ndarray):
            numbers.append(f.constant(f"c{i}", x))
        elif isinstance(x[0], np.ndarray):
            numbers.append(f.constant(f"c{i}", x[0], **x[1]))
        else:
            numbers.append(f.given(f"x{i}", x[0], x[1], **(x[2] if len(x) > 2 else {})))
    y = f.tensor("y", dtype, shape, **(steps or {}))
    f.node(op, numbers, y, **options)
    return f.bytes(y)


def small_network():
    """A convolution of half-precision weights, a pooling and a product."""
    rng = np.random.default_rng(0)
    f = File()
    x = f.given("image", "float32", [1, 8, 8, 3])
    half = f.constant("half", rng.normal(size=(4, 3, 3, 3)).astype(np.float16))
    weight = f.node("DEQUANTIZE", [half], f.tensor("weight", "float32", [4, 3, 3, 3]))
    bias = f.constant("bias", rng.normal(size=4).astype(np.float32))
    y = f.tensor("conv", "float32", [1, 4, 4, 4])
    f.node("CONV_2D", [x, weight, bias], y, padding="SAME", stride_w=2, stride_h=2, activation="RELU6")
    z = f.tensor("pool", "float32", [1, 2, 2, 4])
    f.node("MAX_POOL_2D", [y], z, padding="VALID", stride_w=2, stride_h=2, filter_w=2, filter_h=2)
    flat = f.tensor("flat", "float32", [1, 16])
    f.node("RESHAPE", [z, f.constant("shape", np.array([1, 16], np.int32))], flat)
    last = f.constant("last", rng.normal(size=(5, 16)).astype(np.float32))
    scores = f.tensor("scores", "float32", [1, 5])
    f.node("FULLY_CONNECTED", [flat, last, -1], scores)
    return f.bytes(scores)


def small_eight(signed=True):
    """A convolution, a sum and a mean of 8-bit numbers."""
    rng = np.random.default_rng(1)
    dtype, zero = ("int8", -5) if signed else ("uint8", 123)
    f = File()
    x = f.given("image", dtype, [1, 6, 6, 3], scale=0.02, zero=zero)
    if signed:
        weight = rng.integers(-127, 128, (3, 3, 3, 3)).astype(np.int8)
        w = f.constant("weight", weight, scale=rng.uniform(0.001, 0.01, 3), axis=0)
    else:
        weight = rng.integers(0, 256, (3, 3, 3, 3)).astype(np.uint8)
        w = f.constant("weight", weight, scale=0.01, zero=90)
    bias = f.constant("bias", rng.integers(-900, 900, 3).astype(np.int32))
    y = f.tensor("conv", dtype, [1, 6, 6, 3], scale=0.05, zero=zero)
    f.node("CONV_2D", [x, w, bias], y, padding="SAME", stride_w=1, stride_h=1)
    z = f.tensor("sum", dtype, [1, 6, 6, 3], scale=0.06, zero=zero)
    f.node("ADD", [x, y], z)
    mean = f.tensor("mean", dtype, [1, 2, 2, 3], scale=0.06, zero=zero)
    f.node("AVERAGE_POOL_2D", [z], mean, padding="VALID", stride_w=3, stride_h=3, filter_w=3, filter_h=3)
    return f.bytes(mean)
