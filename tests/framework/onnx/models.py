"""Small ONNX models for the tests, made with the package onnx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: Sequence[Any],
    inputs: dict[str, Sequence[Any]],
    outputs: Sequence[str],
    initializers: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float inputs with the given shapes."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers, the same each time."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def small_cnn(batch: Any = "N") -> onnx.ModelProto:
    """Convolution, batch norm, relu, pooling, a branch, and a linear layer over images [N, 3, 12, 12]."""
    node = helper.make_node
    return model(
        [
            node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c1", "scale", "offset", "mean", "var"], ["n1"]),
            node("Relu", ["n1"], ["r1"]),
            node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
            node("Add", ["p1", "c2"], ["a"]),
            node("Sigmoid", ["a"], ["s"]),
            node("Concat", ["s", "p1"], ["cat"], axis=1),
            node("GlobalAveragePool", ["cat"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
        ],
        {"x": [batch, 3, 12, 12]},
        ["y"],
        {
            "w1": weights(4, 3, 3, 3),
            "b1": weights(4),
            "scale": weights(4, seed=1),
            "offset": weights(4, seed=2),
            "mean": weights(4, seed=3),
            "var": np.abs(weights(4, seed=4)) + 0.5,
            "w2": weights(4, 4, 3, 3),
            "w3": weights(5, 8),
            "b3": weights(5),
        },
    )
