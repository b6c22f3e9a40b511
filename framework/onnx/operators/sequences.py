"""Sequences and optionals of ONNX, which are Python lists and None here."""

from __future__ import annotations

from typing import Any

import numpy as np

from framework import ops
from framework.onnx.interpreter import Node, shape_of
from framework.onnx.operators.common import axis_of, constant, extents
from framework.onnx.operators.shapes import prod
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


class _Counted(list[Any]):
    """A sequence that knows the elements of its tensors, so that one that grows in a loop is counted as it grows."""

    elements = 0


def _grown(node: Node, before: list[Any], added: Any, after: list[Any]) -> list[Any]:
    known = before.elements if isinstance(before, _Counted) else sum(map(_elements, before))
    found = _Counted(after)
    found.elements = known + _elements(added)
    node.limit([found.elements])
    node.steps(len(found))
    return found


def _elements(x: Any) -> int:
    return prod(shape_of(x)) if isinstance(x, Tensor) else 1


@onnx_op("SequenceEmpty")
def sequence_empty(node: Node) -> list[Any]:
    """No elements."""
    return []


@onnx_op("SequenceConstruct")
def sequence_construct(node: Node, *xs: Tensor) -> list[Any]:
    """The inputs."""
    return list(xs)


@onnx_op("SequenceLength")
def sequence_length(node: Node, s: list[Any]) -> Tensor:
    """How many."""
    return constant(len(s), "int64")


def _position(node: Node, s: list[Any], at: Tensor | None, end: int) -> int:
    i = end if at is None else node.ints(at, "position")[0]
    if not -len(s) <= i <= end:
        raise ValueError(f"position {i} in a sequence of {len(s)}")
    return i + len(s) if i < 0 else i


@onnx_op("SequenceAt")
def sequence_at(node: Node, s: list[Any], at: Tensor) -> Any:
    """One element."""
    return s[_position(node, s, at, len(s) - 1)]


@onnx_op("SequenceInsert")
def sequence_insert(node: Node, s: list[Any], x: Tensor, at: Tensor | None = None) -> list[Any]:
    """With one element more, at the end or before a position."""
    i = _position(node, s, at, len(s))
    return _grown(node, s, x, [*s[:i], x, *s[i:]])


@onnx_op("SequenceErase")
def sequence_erase(node: Node, s: list[Any], at: Tensor | None = None) -> list[Any]:
    """With one element less, the last or at a position."""
    i = _position(node, s, at, len(s) - 1)
    return [*s[:i], *s[i + 1 :]]


@onnx_op("SplitToSequence")
def split_to_sequence(node: Node, x: Tensor, split: Tensor | None = None) -> list[Any]:
    """Parts of given sizes, of one size (the last shorter), or slices."""
    axis = axis_of(node.attr("axis", 0), x.ndim)
    n = extents(x)[axis]
    if split is None:
        parts = list(ops.split(x, axis=axis, sizes=[1] * node.steps(n)))
        return parts if node.attr("keepdims", 1) else [ops.squeeze(p, axis=axis) for p in parts]
    if split.ndim:
        sizes = node.ints(split, "split")
    else:
        each = node.ints(split, "split")[0]
        sizes = [min(each, n - i) for i in range(0, n, each)] if each < 1 or node.steps(-(-n // each)) else []
    return list(ops.split(x, axis=axis, sizes=sizes))


@onnx_op("ConcatFromSequence")
def concat_from_sequence(node: Node, s: list[Any]) -> Tensor:
    """Joined along an axis, an old or a new one."""
    axis = node.attr("axis")
    return ops.stack(s, axis=axis) if node.attr("new_axis", 0) else ops.concat(s, axis=axis)


@onnx_op("Optional")
def optional(node: Node, x: Any = None) -> Any:
    """The input, or nothing."""
    return x


@onnx_op("OptionalHasElement")
def optional_has_element(node: Node, x: Any = None) -> Tensor:
    """Whether there is something."""
    return constant(np.array(x is not None))


@onnx_op("OptionalGetElement")
def optional_get_element(node: Node, x: Any) -> Any:
    """What there is."""
    if x is None:
        raise ValueError("the optional is empty")
    return x


@onnx_op("SequenceMap", since=17)
def sequence_map(node: Node, s: list[Any], *others: Any) -> tuple[Any, ...]:
    """A body applied to each element, with the other sequences' elements and the tensors beside it."""
    found = []
    for i in range(node.steps(len(s))):
        found.append(node.body("body", [s[i], *(o[i] if isinstance(o, list) else o for o in others)]))
    return tuple([row[k] for row in found] for k in range(len(node.attr("body").outputs)))
