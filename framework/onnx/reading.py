"""From the bytes of an ONNX file to checked plain Python: graphs, nodes and arrays. Nothing in a file is trusted.

The package `onnx` parses the protobuf; every size, name and reference is checked here before anything is computed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from framework.errors import CheckpointError, NotSupportedError
from framework.limits import check
from framework.onnx.habits import densified, in_order, kind_of
from framework.onnx.optional import require_onnx
from framework.outside import check_file, open_file, read_bytes

MAX_FILE_BYTES = 2**31 - 1  # what a protobuf message can hold
MAX_ELEMENTS = 2**31  # of one tensor in a file

# ONNX element types that the core has, by their number in the file.
ELEMENT_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
}
ELEMENT_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


Known = ChainMap[str, None]  # names that are defined at a place in a graph, those around it behind them


@dataclass(frozen=True)
class Port:
    """An input or output of a graph: `dtype` None for what is no tensor, `shape` None where the rank is not given.

    An extent is a number, a name that stands for one, or None.
    """

    name: str
    dtype: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(eq=False)
class NodeProto:
    """One node as it stands in the file; attributes are plain Python, arrays, `GraphText` or `Reference`."""

    domain: str
    op: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    raw: Any  # the protobuf message, for the ONNX package's own function bodies


@dataclass(frozen=True)
class Reference:
    """An attribute inside a function that takes its value from the function's caller."""

    name: str


@dataclass(eq=False)
class GraphText:
    """A graph, the body of a control-flow node, or of a function (which has no initializers)."""

    name: str
    inputs: list[Port]
    outputs: list[Port]
    nodes: list[NodeProto]
    initializers: dict[str, np.ndarray] = field(default_factory=dict)

    def names_read(self) -> set[str]:
        """All names that its nodes, outputs and bodies read, its own values among them."""
        found = {p.name for p in self.outputs}
        for node in self.nodes:
            found.update(node.inputs)
            for value in node.attributes.values():
                if isinstance(value, GraphText):
                    found |= value.names_read()
        return found


@dataclass(eq=False)
class FunctionText:
    """A function that the file (or ONNX itself) defines: a graph with attributes and operator sets of its own."""

    graph: GraphText
    defaults: dict[str, Any]
    opsets: dict[str, int]


@dataclass(eq=False)
class ModelText:
    """A whole file."""

    graph: GraphText
    opsets: dict[str, int]
    functions: dict[tuple[str, str], FunctionText]
    metadata: dict[str, str]
    producer: str


def read_model(source: Any) -> ModelText:
    """Reads a file, bytes or a parsed `onnx.ModelProto`.

    Args:
        source: path, bytes, or ModelProto. Only a path may refer to data outside the file, in files beside it.

    Raises:
        CheckpointError: the file is missing, cut off or contradicts itself; the message says where.
        NotSupportedError: it holds what the core has no type for.
    """
    onnx = require_onnx()
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        proto, name = source, source.graph.name or "model"
    else:
        data, name = _bytes_of(source)
        folder = None if isinstance(source, (bytes, bytearray, memoryview)) else Path(source).resolve().parent
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(data)
        except Exception as e:  # the protobuf back ends raise different types
            raise CheckpointError(f"{name}: not an ONNX file, or cut off ({e})") from None
    try:
        return _Reader(name, folder).model(proto)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as e:
        if isinstance(e, CheckpointError | NotSupportedError):
            raise
        raise CheckpointError(f"{name}: malformed ({type(e).__name__}: {e})") from None


def _bytes_of(source: Any) -> tuple[bytes, str]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), "onnx model"
    path = Path(source)
    try:
        size = check_file(path, "weight_bytes")
        if size > MAX_FILE_BYTES:
            raise CheckpointError(f"{path}: {size} bytes; an ONNX file has at most {MAX_FILE_BYTES}")
        return read_bytes(path, "weight_bytes"), str(path)
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be read ({e.strerror})") from None


class _Reader:
    """Reads one file; `name` stands in front of every message."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name = name
        self.folder = folder
        self.level = 0  # of bodies in bodies
        self.nodes = 0

    def fail(self, text: str) -> CheckpointError:
        return CheckpointError(f"{self.name}: {text}")

    def model(self, proto: Any) -> ModelText:
        opsets = {_domain(o.domain): int(o.version) for o in proto.opset_import}
        if not opsets and proto.ir_version < 3 and proto.graph.node:  # they came with version 3
            opsets = {"": 1}
        if not proto.HasField("graph") or not opsets:
            raise self.fail("holds no graph or no operator set; it is no ONNX model, or cut off")
        functions = {(_domain(f.domain), f.name): self.function(f) for f in proto.functions}
        return ModelText(
            graph=self.graph(proto.graph, ChainMap()),
            opsets=opsets,
            functions=functions,
            metadata={p.key: p.value for p in proto.metadata_props},
            producer=proto.producer_name,
        )

    def function(self, f: Any) -> FunctionText:
        ports = [Port(n, None, None) for n in f.input]
        nodes = [self.node(n, None) for n in f.node]
        graph = GraphText(f.name, ports, [Port(n, None, None) for n in f.output], nodes)
        self.check_order(graph, (), may_lack_outputs=True)
        defaults = {a.name: self.attribute(a, None) for a in f.attribute_proto}
        return FunctionText(graph, defaults, {_domain(o.domain): int(o.version) for o in f.opset_import})

    def graph(self, g: Any, outer: Known | None) -> GraphText:
        """A graph; `outer` are the names it may use from around it (None: not known, inside a function)."""
        self.level += 1
        check("levels", self.level, f"{self.name}: bodies are nested too deeply")
        try:
            return self._graph(g, outer)
        finally:
            self.level -= 1

    def _graph(self, g: Any, outer: Known | None) -> GraphText:
        initializers: dict[str, np.ndarray] = {}
        for t in [*g.initializer, *(self.dense(t) for t in g.sparse_initializer)]:
            self.texts(t.name)
            array = self.array(t, f"initializer '{t.name}'")
            if t.name in initializers and not _equal(array, initializers[t.name]):
                raise self.fail(f"initializer '{t.name}' is there twice, with other data")
            initializers[t.name] = array
        inputs = [self.port(p) for p in g.input if p.name not in initializers]
        known = None if outer is None else outer.new_child(dict.fromkeys([*initializers, *(p.name for p in inputs)]))
        nodes = []
        for n in in_order(g.node):
            nodes.append(self.node(n, known))
            if known is not None:
                known.update(dict.fromkeys(n.output))
        graph = GraphText(g.name, inputs, [self.port(p) for p in g.output], nodes, initializers)
        if outer is not None:
            self.check_order(graph, outer)
        return graph

    def check_order(self, graph: GraphText, outer: Container[str], may_lack_outputs: bool = False) -> None:
        """Every value is defined once, before it is used; a function may leave out optional outputs."""
        own = {p.name for p in graph.inputs} | set(graph.initializers)
        if len({p.name for p in graph.inputs}) != len(graph.inputs):
            raise self.fail(f"graph '{graph.name}' has two inputs of one name")
        made_somewhere = {name for n in graph.nodes for name in n.outputs}
        for node in graph.nodes:
            for name in node.inputs:
                if name and name not in own and name not in outer:
                    why = (
                        "before it is made: the graph has a cycle or is not in order"
                        if name in made_somewhere
                        else ("but nothing makes it")
                    )
                    raise self.fail(f"node '{node.name}' ({node.op}) uses '{name}' {why}")
            for name in node.outputs:
                if name in own:
                    raise self.fail(f"'{name}' is made twice, again by node '{node.name}' ({node.op})")
            own.update(filter(None, node.outputs))
        for port in graph.outputs:
            if port.name not in own and port.name not in outer and not may_lack_outputs:
                raise self.fail(f"output '{port.name}' of graph '{graph.name}' is made by nothing")

    def node(self, n: Any, known: Known | None) -> NodeProto:
        self.nodes += 1
        check("nodes", self.nodes, f"{self.name}: it has too many nodes")
        attributes: dict[str, Any] = {}
        self.texts(n.domain, n.name, n.op_type, *n.input, *n.output)
        for a in n.attribute:
            attributes[a.name] = self.attribute(a, known)
        return NodeProto(
            _domain(n.domain), n.op_type, n.name or n.op_type, list(n.input), list(n.output), attributes, n
        )

    def attribute(self, a: Any, known: Known | None) -> Any:
        onnx = require_onnx()
        if a.ref_attr_name:
            return Reference(a.ref_attr_name)
        kinds, kind = onnx.AttributeProto, kind_of(a)
        if kind in (kinds.TENSOR, kinds.SPARSE_TENSOR):
            tensor = a.t if kind == kinds.TENSOR else self.dense(a.sparse_tensor)
            return self.array(tensor, f"attribute '{a.name}'")
        if kind == kinds.TENSORS:
            return [self.array(t, f"attribute '{a.name}'") for t in a.tensors]
        if kind == kinds.GRAPH:
            return self.graph(a.g, known)
        if kind == kinds.STRING:
            return a.s.decode("utf-8", "replace")
        if kind == kinds.STRINGS:
            return [s.decode("utf-8", "replace") for s in a.strings]
        plain = {kinds.FLOAT: lambda: a.f, kinds.INT: lambda: a.i, kinds.FLOATS: lambda: list(a.floats)}
        plain |= {kinds.INTS: lambda: list(a.ints), kinds.TYPE_PROTO: lambda: a.tp}
        if kind in plain:
            return plain[kind]()
        raise NotSupportedError(f"{self.name}: attribute '{a.name}' is of a kind (number {kind}) that is not read")

    def dense(self, sparse: Any) -> Any:
        """A sparse tensor as a plain one."""
        return densified(sparse, f"{self.name}: sparse tensor '{sparse.values.name}'", MAX_ELEMENTS)

    def texts(self, *names: Any) -> None:
        """Refuses names that are not UTF-8, which protobuf hands out as bytes."""
        for name in names:
            if not isinstance(name, str):
                raise self.fail(f"{name!r} is no text")

    def port(self, p: Any) -> Port:
        self.texts(p.name, *(d.dim_param for d in p.type.tensor_type.shape.dim))
        kind = p.type.WhichOneof("value")
        if kind != "tensor_type":
            return Port(p.name, None, None)
        t = p.type.tensor_type
        dtype = ELEMENT_TYPES.get(t.elem_type)
        if not t.HasField("shape"):
            return Port(p.name, dtype, None)
        shape = []
        for d in t.shape.dim:
            shape.append(int(d.dim_value) if d.HasField("dim_value") else d.dim_param.strip() or None)
        # Not known: -1 of older Paddle2ONNX and Keras converters, 0 of MXNet.
        shape = [None if d in (-1, 0, "-1") else d for d in shape]
        for d in shape:
            if isinstance(d, int) and not 0 <= d <= MAX_ELEMENTS:
                raise self.fail(f"'{p.name}' has an impossible extent, {d}")
        return Port(p.name, dtype, tuple(shape))

    def array(self, t: Any, who: str) -> np.ndarray:
        """The array of a TensorProto, checked against the shape it states."""
        onnx = require_onnx()
        shape = [int(d) for d in t.dims]
        size = 1
        for d in shape:
            size *= d
            if d < 0 or size > MAX_ELEMENTS:
                raise self.fail(f"{who} has the impossible shape {shape}")
        if t.data_location == onnx.TensorProto.EXTERNAL:
            return self.external(t, who, shape, size)
        try:
            array = onnx.numpy_helper.to_array(t)
        except Exception as e:  # numpy_helper raises whatever NumPy does
            raise self.fail(f"{who} of shape {shape} does not hold what it states ({e})") from None
        if list(array.shape) != shape:
            raise self.fail(f"{who} states shape {shape} but holds {list(array.shape)}")
        return array

    def external(self, t: Any, who: str, shape: list[int], size: int) -> np.ndarray:
        """Data of a tensor that stands in another file of the model's folder, and nowhere else."""
        entries = {e.key: e.value for e in t.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise self.fail(f"{who} keeps its data in '{location}'; give the path of the model, not its bytes")
        if t.data_type not in ELEMENT_TYPES:
            raise NotSupportedError(f"{self.name}: {who} has an element type (number {t.data_type}) the core lacks")
        path = (self.folder / location).resolve()
        if not location or not path.is_relative_to(self.folder):
            raise self.fail(f"{who} keeps its data in '{location}', outside of the model's folder; this is refused")
        dtype = np.dtype(np.uint16 if t.data_type == 16 else ELEMENT_TYPES[t.data_type])
        start, length = int(entries.get("offset", 0)), int(entries.get("length", size * dtype.itemsize))
        available = check_file(path, "weight_bytes") if path.exists() else -1
        if start < 0 or length != size * dtype.itemsize or start + length > available:
            raise self.fail(
                f"{who} of shape {shape} wants {length} bytes from {start} of '{location}', "
                f"which has {max(available, 0)}"
            )
        with open_file(path, "weight_bytes") as file:
            file.seek(start)
            array = np.fromfile(file, dtype=dtype.newbyteorder("<"), count=size).reshape(shape)
        return array.view(ml_dtypes.bfloat16) if t.data_type == 16 else array


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def read_function(proto_bytes: bytes, name: str) -> FunctionText:
    """The body of an operator that ONNX itself defines with other operators."""
    proto = require_onnx().FunctionProto()
    proto.ParseFromString(proto_bytes)
    return _Reader(name, None).function(proto)


def bound(value: Any, given: Mapping[str, Any]) -> Any:
    """An attribute with references replaced by what the function's caller gave; graphs are bound all through."""
    if isinstance(value, Reference):
        return given.get(value.name)
    if isinstance(value, GraphText):
        return GraphText(
            value.name, value.inputs, value.outputs, [bound_node(n, given) for n in value.nodes], value.initializers
        )
    return value


def bound_node(node: NodeProto, given: Mapping[str, Any]) -> NodeProto:
    """A node of a function's body with its attributes bound; those the caller left out are absent."""
    attributes = {k: bound(v, given) for k, v in node.attributes.items()}
    attributes = {k: v for k, v in attributes.items() if v is not None}
    return NodeProto(node.domain, node.op, node.name, node.inputs, node.outputs, attributes, node.raw)
