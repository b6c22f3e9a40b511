"""Runs an ONNX graph node by node with Tensors: at once, or into a Program when a trace is active.

What depends on constants alone is computed on the way, also while tracing: shapes that a file computes from weights'
shapes or constants are folded by this alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framework import from_numpy, ops
from framework.context import context
from framework.errors import CheckpointError, NotSupportedError, PaddockError
from framework.limits import check, current, how_to_raise
from framework.onnx import registry
from framework.onnx.habits import meant_attributes, meant_version
from framework.onnx.optional import require_onnx
from framework.onnx.reading import (
    ELEMENT_NUMBERS,
    FunctionText,
    GraphText,
    ModelText,
    NodeProto,
    bound,
    read_function,
)
from framework.tensors import DTYPES, Tensor

_MALFORMED = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, ZeroDivisionError),
    *(AssertionError, MemoryError),
)
_WIDER = {
    "any": {},
    "float": {"float16": "float32", "bfloat16": "float32"},
    "number": {"float16": "float32", "bfloat16": "float32", "int8": "int32", "uint8": "int32", "bool": "int32"},
}


@dataclass
class _Spent:
    """What one run has had and done: its limits compare the two.

    Args:
        given: elements of its inputs and weights.
        nodes: that ran.
        steps: of its loops.
    """

    given: int = 0
    nodes: int = 0
    steps: int = 0


_spent: ContextVar[_Spent] = ContextVar("spent")  # of the run that is under way


class DataDependent(NotSupportedError):
    """A shape or a branch depends on the data of an input, so that no Program can be made; running eagerly can."""


class Scope:
    """The values of a graph by name; a body also sees those around it."""

    def __init__(self, graph: GraphText, opsets: Mapping[str, int], outer: Scope | None = None) -> None:
        self.graph = graph
        self.opsets = opsets
        self.values: dict[str, Any] = {}
        self.outer = outer

    def find(self, name: str) -> Any:
        """A value here or around; None where there is none of that name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None

    def __getitem__(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise CheckpointError(f"onnx: nothing makes the value '{name}'")


class Node:
    """A node as its converter sees it: attributes, and what is known about inputs."""

    def __init__(self, proto: NodeProto, version: int, scope: Scope, run: Interpreter, depth: int) -> None:
        self.op = proto.op
        self.domain = proto.domain
        self.name = proto.name
        self.version = version
        self.attributes = proto.attributes
        self.outputs = proto.outputs
        self.scope = scope
        self._run = run
        self._depth = depth

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or `default` where the file has none."""
        return self.attributes.get(name, default)

    def wants(self, i: int) -> bool:
        """Whether output number `i` is read by anyone."""
        return i < len(self.outputs) and bool(self.outputs[i])

    def fail(self, text: str) -> NotSupportedError:
        """An error that names the operator and the node."""
        return NotSupportedError(f"onnx: {self.op} '{self.name}': {text}")

    def host(self, x: Tensor, what: str) -> np.ndarray:
        """The data of a value that must be known before the graph runs, such as a shape.

        Raises:
            DataDependent: it is computed from the graph's inputs, and a Program is being traced.
        """
        if x.is_traced:
            raise DataDependent(
                f"onnx: {self.op} '{self.name}': its {what} is computed from the data of an input, so the graph has no "
                "Program; framework.onnx.open_model runs it node by node"
            )
        return x.numpy()

    def ints(self, x: Tensor, what: str) -> list[int]:
        """Known whole numbers, flat."""
        return [int(v) for v in self.host(x, what).reshape(-1)]

    def limit(self, shape: Sequence[int]) -> list[int]:
        """`shape` again, refused where a hostile file asks for gigabytes."""
        size, most = 1, most_elements()
        for d in shape:
            size *= int(d)
            if d < 0 or size > most:
                raise self.fail(
                    f"makes a tensor of shape {list(shape)}; at most {most} elements are allowed. "
                    f"{how_to_raise('elements')}"
                )
        return [int(d) for d in shape]

    def grown(self, shape: Sequence[int], given: int) -> list[int]:
        """`shape` again, of a table that is made from `given` elements, refused where it is out of proportion."""
        limits = current()
        size = math.prod(int(d) for d in shape)
        most = min(limits.elements, max(limits.free_bytes // 8, limits.element_growth * given))
        if size > most or min(shape, default=0) < 0:
            raise self.fail(
                f"makes a table of {list(shape)} from {given} elements; at most {most} elements are allowed. "
                f"{how_to_raise('free_bytes')}"
            )
        return [int(d) for d in shape]

    def steps(self, count: int) -> int:
        """`count` again, refused where so many steps of a loop, or parts, would be made one by one."""
        check("unrolled_steps", count, f"onnx: {self.op} '{self.name}' goes on for too many steps", CheckpointError)
        return count

    def step(self) -> None:
        """Counts one more step of a loop that runs node by node: those of all loops of a run, one in another or not."""
        spent = _spent.get()
        spent.steps += 1
        self.steps(spent.steps)

    def reads_traced(self, *inputs: Any) -> bool:
        """Whether the node depends on the graph's inputs, itself or in its bodies, so that a Program must decide."""
        if context.trace is None:
            return False
        names = [n for value in self.attributes.values() if isinstance(value, GraphText) for n in value.names_read()]
        around = [self.scope.find(name) for name in names]
        return any(isinstance(x, Tensor) and x.is_traced for x in (*inputs, *around))

    def value_again(self, name: str, given: Mapping[str, Any]) -> Any:
        """A value of this node's graph, computed again from other values of it."""
        return self._run.again(name, given, self.scope, self._depth)

    def body(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """Runs the graph in attribute `name` on arguments; it sees the values around this node."""
        graph = self.attr(name)
        if not isinstance(graph, GraphText):
            raise CheckpointError(f"onnx: {self.op} '{self.name}' has no graph '{name}'")
        return self._run.graph(graph, arguments, self.scope, self._run.opsets, self._depth + 1)


def to_value(array: np.ndarray, who: str = "a value") -> Any:
    """A Tensor, or the array itself where it holds strings; an error calls it `who`."""
    if array.dtype.kind in "OSU":
        return np.array(
            [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1)], dtype=object
        ).reshape(array.shape)
    return to_tensor(array, who)


def to_tensor(array: Any, who: str = "a value") -> Tensor:
    """A Tensor of a NumPy array of any type that the core has.

    Raises:
        NotSupportedError: the core has no such element type.
    """
    array = np.asarray(array)
    if array.dtype.name not in DTYPES:
        raise NotSupportedError(
            f"onnx: {who} is {array.dtype}; the core has no such element type, it has {', '.join(DTYPES)}"
        )
    return from_numpy(np.ascontiguousarray(array).reshape(array.shape))


class Interpreter:
    """Runs the graphs of one model."""

    def __init__(self, model: ModelText) -> None:
        self.model = model
        self.opsets = model.opsets
        self._bodies: dict[Any, FunctionText | None] = {}
        self._refuse_unknown()

    # -- what is there
    def _refuse_unknown(self) -> None:
        """Lists all operators that nothing here computes, at once."""
        missing: dict[tuple[str, str, int], list[str]] = {}

        def walk(graph: GraphText, opsets: Mapping[str, int]) -> None:
            for node in graph.nodes:
                version = opsets.get(node.domain, 0)
                if not self._is_known(node, version):
                    missing.setdefault((node.domain, node.op, version), []).append(node.name)
                for value in node.attributes.values():
                    if isinstance(value, GraphText):
                        walk(value, opsets)

        walk(self.model.graph, self.opsets)
        for function in self.model.functions.values():
            walk(function.graph, function.opsets)
        if missing:
            listed = "; ".join(
                f"{domain or 'ai.onnx'}.{op} (version {version}) in {', '.join(repr(n) for n in names[:5])}"
                + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                for (domain, op, version), names in sorted(missing.items())
            )
            count = f"onnx: {len(missing)} operators are not supported"
            raise NotSupportedError(f"{count}: {listed}; see docs/howto/onnx.md")

    def _is_known(self, node: NodeProto, version: int) -> bool:
        if (node.domain, node.op) in self.model.functions or registry.find(node.domain, node.op, version):
            return True
        schema = _schema(node, version)
        return schema is not None and (schema.has_function or schema.has_context_dependent_function)

    # -- running
    def run(self, feeds: Sequence[Any]) -> list[Any]:
        """The graph's outputs for inputs in order."""
        with self._counted(feeds):
            return self.graph(self.model.graph, feeds, None, self.opsets, 0)

    @contextlib.contextmanager
    def _counted(self, feeds: Sequence[Any]) -> Iterator[None]:
        """Inside, nodes are counted, those of functions and of each step of a loop too."""
        weights = sum(array.size for array in self.model.graph.initializers.values())
        token = _spent.set(_Spent(weights + sum(map(elements_of, feeds))))
        try:
            yield
        finally:
            _spent.reset(token)

    def graph(
        self, graph: GraphText, arguments: Sequence[Any], outer: Scope | None, opsets: Mapping[str, int], depth: int
    ) -> list[Any]:
        """Runs a graph or a body; `arguments` in the order of its inputs."""
        check("levels", depth, "onnx: functions and bodies are nested too deeply")
        scope = Scope(graph, opsets, outer)
        scope.values.update({name: to_value(a, f"the weight '{name}'") for name, a in graph.initializers.items()})
        scope.values.update({p.name: a for p, a in zip(graph.inputs, arguments, strict=False)})
        for port in graph.inputs[len(arguments) :]:
            scope.values[port.name] = None
        for proto in graph.nodes:
            self._node(proto, scope, opsets, depth)
        return [scope[p.name] for p in graph.outputs]

    def again(self, name: str, given: Mapping[str, Any], scope: Scope, depth: int) -> Any:
        """A value of a graph that is running, with some values replaced."""
        inner = Scope(scope.graph, scope.opsets, scope)
        inner.values.update(given)
        changed = set(given)
        for proto in scope.graph.nodes:
            if name in changed:
                break
            if changed.intersection(proto.inputs) and not changed.issuperset(proto.outputs):
                self._node(proto, inner, scope.opsets, depth)
                changed.update(proto.outputs)
        return inner[name]

    def _node(self, proto: NodeProto, scope: Scope, opsets: Mapping[str, int], depth: int) -> None:
        spent = _spent.get()
        spent.nodes += 1
        limit = "loop_steps" if context.trace is None else "nodes"
        check(limit, spent.nodes, "onnx: its functions and loops run too many nodes")
        inputs = [scope[name] if name else None for name in proto.inputs]
        try:
            outputs = self._apply(proto, inputs, scope, opsets, depth)
        except PaddockError as e:
            if "onnx: " in str(e):
                raise
            raise type(e)(f"onnx: {proto.op} '{proto.name}': {e}") from None
        except _MALFORMED as e:  # a file may hold anything: what a converter trips over is the file's fault
            raise CheckpointError(f"onnx: {proto.op} '{proto.name}': malformed ({type(e).__name__}: {e})") from e
        for name, value in zip(proto.outputs, outputs, strict=False):
            if name:
                scope.values[name] = value

    def _apply(
        self, proto: NodeProto, inputs: list[Any], scope: Scope, opsets: Mapping[str, int], depth: int
    ) -> Sequence[Any]:
        version, proto = _meant(proto, opsets.get(proto.domain, 0))
        function = self.model.functions.get((proto.domain, proto.op))
        converter = registry.find(proto.domain, proto.op, version) if function is None else None
        if converter is not None:
            node = Node(proto, version, scope, self, depth)
            if len(inputs) > 1:
                _refuse_gigabytes(node, inputs)
            return as_list(_widened(converter, node, inputs))
        if function is None:
            function = self._body_of(proto, version, inputs)
        return self._call(function, proto, inputs, depth)

    def _call(self, function: FunctionText, proto: NodeProto, inputs: list[Any], depth: int) -> list[Any]:
        given = function.defaults | proto.attributes
        graph = bound(function.graph, given)
        made = {name for n in graph.nodes for name in n.outputs} | {p.name for p in graph.inputs}
        graph.outputs = [p for p in function.graph.outputs if p.name in made]  # optional ones may be left out
        results = iter(self.graph(graph, inputs, None, {**self.opsets, **function.opsets}, depth + 1))
        return [next(results) if p.name in made else None for p in function.graph.outputs]

    def _body_of(self, proto: NodeProto, version: int, inputs: Sequence[Any]) -> FunctionText:
        """The body by which ONNX defines an operator with others; it may depend on the types of the inputs."""
        types = tuple(_type_key(x, with_extents=False) for x in inputs)
        key = (id(proto), version, types)
        if key not in self._bodies:
            schema = _schema(proto, version)
            self._bodies[key] = _function_of(schema, proto, version, types)
        if self._bodies[key] is None:  # some bodies can only be written with the extents at hand
            types = tuple(_type_key(x, with_extents=True) for x in inputs)
            key = (id(proto), version, types)
            self._bodies[key] = _function_of(_schema(proto, version), proto, version, types)
        body = self._bodies[key]
        if body is None:
            raise NotSupportedError(f"onnx: {proto.op} '{proto.name}' is not supported; see docs/howto/onnx.md")
        return body


_BROADCASTING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal", "Greater"}
    | {"GreaterOrEqual", "Less", "LessOrEqual", "Where", "PRelu", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}
)


def shape_of(x: Tensor) -> tuple[int, ...]:
    """The shape of x, for a check alone: the Program that is being traced is not tied to it."""
    return tuple((x._value or x._data).shape)


def elements_of(value: Any) -> int:
    """Elements of a value: a tensor, a sequence of values or nothing."""
    if isinstance(value, (list, tuple)):
        return sum(map(elements_of, value))
    return math.prod(shape_of(value)) if isinstance(value, Tensor) else 0


def most_elements() -> int:
    """Elements that one result of the run under way may have."""
    return max(current().elements, current().element_growth * _spent.get().given)


def _refuse_gigabytes(node: Node, inputs: Sequence[Any]) -> None:
    """Outputs that are far larger than all inputs: broadcasts, outer products, repeated gathers."""
    shapes = [shape_of(x) for x in inputs if isinstance(x, Tensor)]
    size = 0
    if node.op in _BROADCASTING and len({s for s in shapes if s}) > 1:
        with contextlib.suppress(ValueError):  # the operator itself says what does not fit
            size = math.prod(np.broadcast_shapes(*shapes))
    elif node.op == "MatMul" and len(shapes) == 2 and all(shapes):
        size = math.prod(shapes[0][:-1]) * shapes[1][-1]
    elif node.op.startswith("Gather") and len(shapes) == 2 and shapes[0]:
        size = _gathered(node, *shapes)
    if size > 16 * sum(map(math.prod, shapes)):
        node.limit([size])


def _gathered(node: Node, shape: tuple[int, ...], indices: tuple[int, ...]) -> int:
    """Elements that a node of the Gather family gives at most."""
    if node.op == "Gather":
        axis = node.attr("axis", 0) % len(shape)
        return math.prod(indices) * math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
    if node.op == "GatherND" and indices:
        return math.prod(indices[:-1]) * math.prod(shape[node.attr("batch_dims", 0) + indices[-1] :])
    return math.prod(indices)


def _meant(proto: NodeProto, version: int) -> tuple[int, NodeProto]:
    """A node, and the version of its operator, as its attributes mean them."""
    if proto.domain or not proto.attributes or version < 1:
        return version, proto
    version = meant_version(proto.op, version, frozenset(proto.attributes))
    return version, replace(proto, attributes=meant_attributes(proto.op, version, proto.attributes))


def as_list(out: Any) -> Sequence[Any]:
    """A converter's result as a sequence of outputs; a tuple holds several, anything else is one."""
    return out if isinstance(out, tuple) else [out]


def _widened(converter: registry.Converter, node: Node, inputs: list[Any]) -> Any:
    """Runs a converter on inputs in the types it takes, and gives its outputs the type that came in."""
    wider = _WIDER[converter.compute]
    narrow = next((x.dtype for x in inputs if isinstance(x, Tensor) and x.dtype in wider), None)
    if narrow is None:
        return converter.function(node, *inputs)
    wide = wider[narrow]
    inputs = [ops.cast(x, dtype=wide) if isinstance(x, Tensor) and x.dtype == narrow else x for x in inputs]
    outputs = as_list(converter.function(node, *inputs))
    return tuple(ops.cast(y, dtype=narrow) if isinstance(y, Tensor) and y.dtype == wide else y for y in outputs)


def _schema(node: NodeProto, version: int) -> Any:
    onnx = require_onnx()
    try:
        return onnx.defs.get_schema(node.op, version, node.domain)
    except onnx.defs.SchemaError:
        return None


def _type_key(x: Any, with_extents: bool) -> Any:
    if isinstance(x, Tensor):
        return (ELEMENT_NUMBERS[x.dtype], x.shape if with_extents else tuple(f"d{i}" for i in range(x.ndim)))
    return None if x is None else "sequence"


def _function_of(schema: Any, proto: NodeProto, version: int, types: Sequence[Any]) -> FunctionText | None:
    if schema is None:
        return None
    helper = require_onnx().helper
    name = f"the body of {proto.op}"
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        if versions:
            return read_function(schema.get_function_with_opset_version(max(versions)), name)
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        shaped = [
            helper.make_tensor_type_proto(t[0], t[1])
            if isinstance(t, tuple)
            else helper.make_tensor_type_proto(0, None)
            for t in types
        ]
        if versions:
            made = schema.get_context_dependent_function_with_opset_version(
                max(versions), proto.raw.SerializeToString(), [t.SerializeToString() for t in shaped]
            )
            if made:
                return read_function(made, name)
    return None
