"""From the bytes of a .tflite file to checked plain Python: tensors, nodes and arrays. Nothing in a file is trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import CheckpointError, NotSupportedError
from framework.limits import check
from framework.outside import read_bytes
from framework.tflite import schema
from framework.tflite.flatbuffer import FlatBuffer, Table
from framework.tflite.sparse import dense_of

MOST_AXES = 8


@dataclass(frozen=True)
class Steps:
    """How a tensor's integers stand for numbers: q is (q - zero) * scale.

    Attributes:
        scale: float32 numbers, one or one a slice along `axis`.
        zero: int64 numbers, as many.
        axis: along which they change.
    """

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def is_one(self) -> bool:
        """Whether one scale and zero point hold for the whole tensor."""
        return len(self.scale) == 1


@dataclass(eq=False)
class TensorText:
    """A tensor of the file.

    Attributes:
        name: of the file, made different from all others' where it is not.
        dtype: None for a type that the core lacks, which `stated_type` names.
        shape: as stated; None for an open extent.
        array: its data where the file holds them.
        steps: where its integers stand for other numbers.
    """

    name: str
    dtype: str | None
    stated_type: str
    shape: tuple[int | None, ...]
    array: np.ndarray | None
    steps: Steps | None


@dataclass(eq=False)
class NodeText:
    """An operator of the graph. `inputs` and `outputs` are numbers of tensors, -1 where one is left out."""

    op: str
    version: int
    name: str
    inputs: list[int]
    outputs: list[int]
    options: dict[str, Any]


@dataclass(eq=False)
class ModelText:
    """A whole file: its first graph."""

    name: str
    description: str
    tensors: list[TensorText]
    nodes: list[NodeText]
    inputs: list[int]
    outputs: list[int]


def read_model(source: Any) -> ModelText:
    """Reads a file or its bytes.

    Raises:
        CheckpointError: the file is missing, cut off or contradicts itself; the message says where.
        NotSupportedError: it is of another version of the format, or holds data that are not read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data, name = bytes(source), "tflite model"
    else:
        path = Path(source)
        try:
            data, name = read_bytes(path, "weight_bytes"), str(path)
        except OSError as e:
            raise CheckpointError(f"{path}: cannot be read ({e.strerror})") from None
    if data[4:8] != schema.IDENTIFIER:
        raise CheckpointError(f"{name}: is no TensorFlow Lite file; such a file has 'TFL3' at byte 4")
    return _Reader(FlatBuffer(data, name)).model()


class _Reader:
    def __init__(self, buffer: FlatBuffer) -> None:
        self.buffer, self.name = buffer, buffer.name
        self._elements = 0

    def model(self) -> ModelText:
        model = self.buffer.root()
        if (version := model.whole(0, "I")) != schema.VERSION:
            raise NotSupportedError(f"{self.name}: is of version {version} of the format; {schema.VERSION} is read")
        graphs = model.tables(2)
        if not graphs:
            raise self.buffer.fail("holds no graph; it is cut off, or no model")
        codes = [self.operator(code) for code in model.tables(1)]
        buffers, graph = model.tables(4), graphs[0]
        tensors = self.tensors(graph.tables(0), buffers)
        nodes = [self.node(table, codes, tensors) for table in graph.tables(3)]
        inputs, outputs = (self.indices(graph, field, len(tensors), f"the graph's {what}")
                           for field, what in ((1, "inputs"), (2, "outputs")))  # fmt: skip
        text = ModelText(self.name, model.text(3), tensors, nodes, inputs, outputs)
        self.check_order(text)
        return text

    def operator(self, code: Table) -> tuple[str, int]:
        number, version = max(code.whole(0, "b"), code.whole(3, "i")), code.whole(2, "i", 1)
        if not 0 <= number < len(schema.OPERATORS):
            return f"operator {number}", version
        name = schema.OPERATORS[number]
        return (f"custom '{code.text(1)}'", version) if name == "CUSTOM" else (name, version)

    def indices(self, table: Table, field: int, count: int, what: str, optional: bool = False) -> list[int]:
        found: list[int] = table.numbers(field, "int32").tolist()
        for i in found:
            if not (0 <= i < count or (optional and i == -1)):
                raise self.buffer.fail(f"damaged: {what} name tensor {i} of {count}")
        return found

    # -- tensors
    def tensors(self, tables: Sequence[Table], buffers: Sequence[Table]) -> list[TensorText]:
        names: set[str] = set()
        found = []
        for i, table in enumerate(tables):
            name = table.text(3) or f"tensor {i}"
            if name in names:
                name = f"{name} ({i})"
            names.add(name)
            found.append(self.tensor(table, buffers, name))
        return found

    def tensor(self, table: Table, buffers: Sequence[Table], name: str) -> TensorText:
        number = table.whole(1, "b")
        dtype = schema.TENSOR_TYPES.get(number)
        stated = dtype or schema.OTHER_TYPES.get(number, f"number {number}")
        shape = [int(d) for d in table.numbers(0, "int32")]
        if len(shape) > MOST_AXES or any(d < -1 for d in shape):
            raise self.buffer.fail(f"damaged: tensor '{name}' has the shape {shape}")
        place = table.whole(2, "I")
        if place >= max(1, len(buffers)):
            raise self.buffer.fail(f"damaged: tensor '{name}' is in buffer {place} of {len(buffers)}")
        array = None
        data = self.data(buffers[place]) if place else np.empty(0, np.uint8)
        if data.size:
            if dtype is None:
                raise NotSupportedError(f"{self.name}: tensor '{name}' is of type {stated}, which is not read")
            array = self.array(table, data, dtype, shape, name)
        signature = [int(d) for d in table.numbers(7, "int32")]
        open_axes = [d < 0 for d in (signature if len(signature) == len(shape) else shape)]
        extents = tuple(None if is_open or d < 0 else d for d, is_open in zip(shape, open_axes, strict=True))
        return TensorText(name, dtype, stated, extents, array, self.steps(table.table(4), shape, name))

    def data(self, buffer: Table) -> np.ndarray:
        """Bytes of a buffer, in the flatbuffer or, of files over 2 GB, behind it."""
        start, size = buffer.whole(1, "Q"), buffer.whole(2, "Q")
        if start > 1:
            return self.buffer.octets(start, size)
        return buffer.numbers(0, "uint8")

    def array(self, table: Table, data: np.ndarray, dtype: str, shape: list[int], name: str) -> np.ndarray:
        kind, size = np.dtype(dtype), math.prod(shape)
        if size < 0 or any(d < 0 for d in shape):
            raise self.buffer.fail(f"tensor '{name}' has data and the open shape {shape}")
        sparsity = table.table(6)
        if sparsity is not None:
            self._elements += size
            check("elements", self._elements, f"{self.name}: its sparse tensors have too many elements")
            return dense_of(sparsity, data.tobytes(), kind, shape, name)
        if data.size != size * kind.itemsize:
            raise self.buffer.fail(
                f"tensor '{name}' of shape {shape} and type {dtype} needs {size * kind.itemsize} bytes "
                f"and has {data.size}"
            )
        array = np.frombuffer(data.tobytes(), kind.newbyteorder("<")).reshape(shape)
        if dtype == "bool":
            return np.frombuffer(data.tobytes(), np.uint8).reshape(shape) != 0
        return array.astype(kind, copy=False)

    def steps(self, table: Table | None, shape: Sequence[int], name: str) -> Steps | None:
        if table is None:
            return None
        scale, zero = table.numbers(2, "float32"), table.numbers(3, "int64")
        if not scale.size:
            return None
        zero = zero if zero.size else np.zeros(scale.size, np.int64)
        zero = np.broadcast_to(zero, scale.shape) if zero.size == 1 else zero
        axis = table.whole(6, "i")
        if zero.size != scale.size:
            raise self.buffer.fail(f"tensor '{name}' has {scale.size} scales and {zero.size} zero points")
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise self.buffer.fail(f"tensor '{name}' has the scale {scale.min()}; scales are above 0")
        if np.abs(zero).max() > 1 << 31:
            raise self.buffer.fail(f"tensor '{name}' has the zero point {int(np.abs(zero).max())}")
        if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
            raise self.buffer.fail(f"tensor '{name}' of shape {list(shape)} has {scale.size} scales along axis {axis}")
        return Steps(scale.astype(np.float32), zero.astype(np.int64), axis)

    # -- nodes
    def node(self, table: Table, codes: Sequence[tuple[str, int]], tensors: Sequence[TensorText]) -> NodeText:
        number = table.whole(0, "I")
        if number >= len(codes):
            raise self.buffer.fail(f"damaged: an operator is number {number} of {len(codes)}")
        op, version = codes[number]
        inputs = self.indices(table, 1, len(tensors), f"inputs of {op}", optional=True)
        outputs = self.indices(table, 2, len(tensors), f"outputs of {op}")
        if not outputs:
            raise self.buffer.fail(f"damaged: an operator {op} gives 0 results")
        name = tensors[outputs[0]].name
        options: dict[str, Any] = {}
        given = table.table(4)
        kind = table.whole(3, "B")
        if given is not None and kind not in (0, schema.OPTION_KINDS.get(op, kind)):
            raise self.buffer.fail(f"damaged: {op} '{name}' has options of kind {kind}, those of another operator")
        given = given if kind else None
        for key, field, form, default in schema.OPTIONS.get(op, ()):
            options[key] = given.number(field, form, default) if given is not None else default
        if op in schema.LISTS and given is not None:
            key, field = schema.LISTS[op]
            if given.has(field):
                options[key] = [int(d) for d in given.numbers(field, "int32")]
        for key, words in (("padding", schema.PADDINGS), ("activation", schema.ACTIVATIONS)):
            if key in options:
                if not 0 <= options[key] < len(words):
                    raise self.buffer.fail(f"damaged: {op} '{name}' has {key} number {options[key]}")
                options[key] = words[options[key]]
        return NodeText(op, version, name, inputs, outputs, options)

    def check_order(self, text: ModelText) -> None:
        """Every value is made once, before it is used."""
        if len(set(text.inputs)) != len(text.inputs):
            raise self.buffer.fail("the graph has an input twice")
        made = {*text.inputs, *(i for i, t in enumerate(text.tensors) if t.array is not None)}
        for node in text.nodes:
            for i in node.inputs:
                if i >= 0 and i not in made and not self.is_empty(text.tensors[i]):
                    raise self.buffer.fail(f"{node.op} '{node.name}' uses '{text.tensors[i].name}' before it is made")
            for i in node.outputs:
                if i in made:
                    raise self.buffer.fail(f"'{text.tensors[i].name}' is made twice, again by {node.op} '{node.name}'")
                made.add(i)
        for i in text.outputs:
            if i not in made:
                raise self.buffer.fail(f"output '{text.tensors[i].name}' is made by nothing")

    @staticmethod
    def is_empty(tensor: TensorText) -> bool:
        """Whether it is a constant without elements, which has no data either."""
        return 0 in tensor.shape


def plain_constants(text: ModelText) -> None:
    """Takes constants of half precision, and sparse ones, as what a DEQUANTIZE or DENSIFY makes of them."""
    kept = []
    for node in text.nodes:
        x = text.tensors[node.inputs[0]] if node.inputs and node.inputs[0] >= 0 else None
        is_plain = x is not None and (node.op == "DENSIFY" or (node.op == "DEQUANTIZE" and x.dtype == "float16"))
        if x is not None and is_plain and x.array is not None and len(node.outputs) == 1:
            y = text.tensors[node.outputs[0]]
            y.array = x.array if node.op == "DENSIFY" else x.array.astype(np.float32)
        else:
            kept.append(node)
    text.nodes = kept
    used = {i for node in kept for i in node.inputs} | set(text.outputs)
    for i, t in enumerate(text.tensors):
        if i not in used:
            t.array = None
