"""Trees of tensors: what a traced function takes and gives, as leaves and a hashable structure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from framework.errors import TraceError
from framework.tensors import Tensor, from_numpy

_LEAF = ("leaf", None)


def flatten(tree: Any, leaves: list[Tensor]) -> Any:
    """Moves the tensors of a tree to `leaves`; returns a hashable structure with markers in their places."""
    if isinstance(tree, np.ndarray):
        tree = from_numpy(tree)
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return _LEAF
    if isinstance(tree, dict):
        return ("dict", tuple((k, flatten(v, leaves)) for k, v in tree.items()))
    if isinstance(tree, (list, tuple)):
        return ("list" if isinstance(tree, list) else "tuple", tuple(flatten(v, leaves) for v in tree))
    try:
        hash(tree)
    except TypeError:
        raise TraceError(
            f"program: an argument of type {type(tree).__name__} cannot be passed; pass tensors, arrays, numbers, "
            "strings, and lists, tuples or dicts of them"
        ) from None
    if isinstance(tree, float):  # 0.0 and -0.0 are equal and two numbers; a NaN equals none, not even itself
        return ("static", (type(tree), math.nan if tree != tree else tree, math.copysign(1.0, tree)))
    return ("static", (type(tree), tree))  # the type too: 1, 1.0 and True are equal


def unflatten(structure: Any, leaves: Any) -> Any:
    """The tree of that structure again, its tensors taken from the iterator `leaves`."""
    if structure is _LEAF:
        return next(leaves)
    kind, content = structure
    if kind == "dict":
        return {k: unflatten(v, leaves) for k, v in content}
    if kind in ("list", "tuple"):
        items = [unflatten(v, leaves) for v in content]
        return tuple(items) if kind == "tuple" else items
    return content[1]


def static_values(structure: Any) -> Iterator[Any]:
    """The arguments in a structure that are no tensors."""
    kind, content = structure
    if kind == "static":
        yield content[1]
    elif kind == "dict":
        for _, item in content:
            yield from static_values(item)
    elif kind in ("list", "tuple"):
        for item in content:
            yield from static_values(item)
