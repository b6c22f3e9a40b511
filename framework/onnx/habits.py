"""What exporters write against the letter of ONNX and is read as it is meant; what could mean two things is refused.

Attributes of another version of an operator, whole numbers for fractions, kinds left out (before IR version 2), nodes
out of order, weights that are listed twice, sparse weights.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import CheckpointError, NotSupportedError
from framework.limits import check
from framework.onnx.optional import require_onnx

_HARMLESS = {"consumed_inputs", "spatial"}  # of Caffe2's and MXNet's exporters, where they say what is done anyway
_FIELDS = {"f": "FLOAT", "i": "INT", "s": "STRING", "t": "TENSOR", "g": "GRAPH"}
_LISTS = {"floats": "FLOATS", "ints": "INTS", "strings": "STRINGS", "tensors": "TENSORS"}


def kind_of(attribute: Any) -> int:
    """The kind of an attribute; files of IR version 1 do not state it, so it is that of the one field with a value."""
    if attribute.type:
        return int(attribute.type)
    kinds = [kind for field, kind in _FIELDS.items() if attribute.HasField(field)]
    kinds += [kind for field, kind in _LISTS.items() if getattr(attribute, field)]
    return int(getattr(require_onnx().AttributeProto, kinds[0])) if len(kinds) == 1 else 0


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Nodes with each behind those that make what it reads; as they are where they have no such order."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in _read(node, makers)} for node in nodes]
    if _is_order(range(len(nodes)), needs):
        return list(nodes)
    order: list[int] = []
    done: set[int] = set()
    for first in range(len(nodes)):
        _visit(first, needs, done, order)
    return [nodes[i] for i in order] if _is_order(order, needs) else list(nodes)


def _is_order(order: Sequence[int], needs: Sequence[set[int]]) -> bool:
    place = {node: at for at, node in enumerate(order)}
    return all(place[before] < place[node] for node, all_before in enumerate(needs) for before in all_before)


def _visit(first: int, needs: Sequence[set[int]], done: set[int], order: list[int]) -> None:
    """Appends a node behind what it needs."""
    todo = [(first, False)]
    while todo:
        at, is_last = todo.pop()
        if is_last:
            order.append(at)
        elif at not in done:
            done.add(at)
            todo.append((at, True))
            todo += [(before, False) for before in sorted(needs[at] - done, reverse=True)]


def _read(node: Any, makers: Mapping[str, int], level: int = 0) -> Iterable[str]:
    """What a node and the graphs in it read of the values around it."""
    check("levels", level, "onnx: bodies are nested too deeply")
    yield from (name for name in node.input if name in makers)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            yield from (port.name for port in graph.output if port.name in makers)
            for inner in graph.node:
                yield from _read(inner, makers, level + 1)


def densified(sparse: Any, who: str, largest: int) -> Any:
    """A sparse tensor as a plain one of ONNX.

    Raises:
        CheckpointError: it holds more than `largest` elements, or contradicts itself.
    """
    helper = require_onnx().numpy_helper
    shape = tuple(sparse.dims)
    size = 1
    for extent in shape:
        size *= extent
        if extent < 0 or size > largest:
            raise CheckpointError(f"{who} has the impossible shape {list(shape)}")
    values, places = helper.to_array(sparse.values), helper.to_array(sparse.indices)
    dense = np.zeros(shape, values.dtype)
    check("elements", size, f"{who} has too many elements where it is dense")
    if places.ndim == 2:
        places = np.ravel_multi_index(tuple(places.T), shape)
    if places.shape != values.shape or (places.size and not 0 <= places.min() <= places.max() < size):
        raise CheckpointError(f"{who} has indices outside of its shape {list(shape)}")
    dense.reshape(-1)[places] = values
    return helper.from_array(dense, sparse.values.name)


@functools.lru_cache(maxsize=4096)
def _attributes(op: str, version: int) -> dict[str, Any] | None:
    """The kinds of an operator's attributes by name at a version; None where there is no such operator."""
    onnx = require_onnx()
    try:
        return {name: a.type for name, a in onnx.defs.get_schema(op, version, "").attributes.items()}
    except onnx.defs.SchemaError:
        return None


@functools.lru_cache(maxsize=4096)
def meant_version(op: str, version: int, given: frozenset[str]) -> int:
    """The version of an operator whose attributes a node has: that of the file, or the next older one that knows them.

    Raises:
        NotSupportedError: no version of the operator has these attributes.
    """
    given = frozenset(name for name in given if not name.startswith("_"))
    latest = _attributes(op, version)
    for older in range(version, 0, -1):
        known = _attributes(op, older)
        if latest is None or (known is not None and given - _HARMLESS <= set(known)):
            return older
    unknown = ", ".join(sorted(given - _HARMLESS - set(latest or ())))
    raise NotSupportedError(
        f"onnx: {op} of version {version} has no attribute {unknown}; what it would change is not known, so it is "
        "refused. Take it away where it has no effect"
    )


def meant_attributes(op: str, version: int, given: dict[str, Any]) -> dict[str, Any]:
    """Attributes in the kinds that the operator has: 1.0 for 1, 1 for 1.0, one number for a list of it."""
    kinds = _attributes(op, version)
    if not kinds:
        return given
    known = require_onnx().defs.OpSchema.AttrType
    convert = {known.FLOAT: _float, known.INT: _int, known.INTS: _list, known.FLOATS: _list}
    return {name: convert.get(kinds.get(name), _same)(value) for name, value in given.items()}


def _float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _int(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, int | float) else value


def _same(value: Any) -> Any:
    return value
