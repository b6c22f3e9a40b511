"""Strings of ONNX. They are NumPy arrays of objects, which only the operators here take; nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framework.onnx.interpreter import Node, to_tensor
from framework.onnx.operators.common import constant
from framework.onnx.registry import onnx_op


def _strings(x: Any) -> np.ndarray:
    if not isinstance(x, np.ndarray):
        raise TypeError("a tensor of strings is needed")
    return x


@onnx_op("StringConcat", since=20)
def string_concat(node: Node, a: Any, b: Any) -> np.ndarray:
    """Element-wise, with broadcasting."""
    return np.asarray(_strings(a) + _strings(b), dtype=object)


@onnx_op("StringSplit", since=20)
def string_split(node: Node, x: Any) -> Any:
    """The words of each string, filled up with empty ones, and how many there are."""
    delimiter, most = node.attr("delimiter") or None, node.attr("maxsplit", -1)
    words = [s.split(delimiter, most) for s in _strings(x).reshape(-1)]
    width = max((len(w) for w in words), default=0)
    node.limit([len(words), width])
    table = np.empty((len(words), width), dtype=object)
    for row, w in zip(table, words, strict=True):
        row[:] = w + [""] * (width - len(w))
    counts = np.array([len(w) for w in words], np.int64).reshape(x.shape)
    return table.reshape(*x.shape, width), constant(counts)


@onnx_op("StringNormalizer", since=10)
def string_normalizer(node: Node, x: Any) -> np.ndarray:
    """Without stop words, in upper or lower case; x [C] or [1, C]; one empty string where nothing is left."""
    case, stop = node.attr("case_change_action", "NONE"), node.attr("stopwords") or []
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "UPPER": str.upper, "LOWER": str.lower}
    change = changes[case]
    if not node.attr("is_case_sensitive", 0):
        stop = {s.lower() for s in stop}
        kept = [change(s) for s in _strings(x).reshape(-1) if s.lower() not in stop]
    else:
        kept = [change(s) for s in _strings(x).reshape(-1) if s not in stop]
    y = np.array(kept or [""], dtype=object)
    return y.reshape(1, -1) if x.ndim == 2 else y


@onnx_op("LabelEncoder", domain="ai.onnx.ml", since=2)
def label_encoder(node: Node, x: Any) -> Any:
    """Each key's value, or a default."""
    keys, values = _table(node, "keys"), _table(node, "values")
    suffix = next((k.removeprefix("values_").rstrip("s") for k in node.attributes if k.startswith("values_")), "tensor")
    default = node.attr("default_" + suffix, {"string": "_Unused", "int64": -1}.get(suffix, -0.0))
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    default = np.asarray(default).reshape(-1)[0]
    given = x if isinstance(x, np.ndarray) else x.numpy()
    found = np.array([table.get(v, default) for v in given.reshape(-1).tolist()], dtype=values.dtype)
    y = found.reshape(given.shape)
    return y if y.dtype == object else to_tensor(y)


def _table(node: Node, what: str) -> np.ndarray:
    types = {"strings": object, "int64s": np.int64, "floats": np.float32}
    for name, dtype in types.items():
        if f"{what}_{name}" in node.attributes:
            return np.asarray(node.attr(f"{what}_{name}"), dtype=dtype)
    return np.asarray(node.attr(f"{what}_tensor")).reshape(-1)
