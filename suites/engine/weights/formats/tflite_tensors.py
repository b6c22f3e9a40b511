"""The weights of a .tflite file by the operators that have them, in the order in which they run.

Converters give constants names that they join, number and share; the order of operators is that of the network. So
"conv_2d.3.weight" is the fourth convolution's. Half precision is widened, and 8-bit integers come as the numbers that
they stand for.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.tflite.reading import TensorText, plain_constants, read_model

# Operators with weights: the places of their inputs by the word that they get.
_PLACES = {
    "CONV_2D": {1: "weight", 2: "bias"},
    "DEPTHWISE_CONV_2D": {1: "weight", 2: "bias"},
    "FULLY_CONNECTED": {1: "weight", 2: "bias"},
    "TRANSPOSE_CONV": {1: "weight", 3: "bias"},
    "PRELU": {1: "weight"},
}


def read_tflite(path: Path) -> dict[str, np.ndarray]:
    """Weights float32 in our layout: filters [K, R, S, C], depthwise ones [K, R, S, 1].

    Raises:
        CheckpointError: it is no .tflite file, is damaged, or holds no weights.
        NotSupportedError: it holds constants of a type that is not read.
    """
    text = read_model(path)
    plain_constants(text)
    counts: Counter[str] = Counter()
    found: dict[str, np.ndarray] = {}
    for node in text.nodes:
        if node.op not in _PLACES:
            continue
        name = f"{node.op.lower()}.{counts[node.op]}"
        counts[node.op] += 1
        for place, word in _PLACES[node.op].items():
            i = node.inputs[place] if place < len(node.inputs) else -1
            array = _numbers(text.tensors[i]) if i >= 0 else None
            if array is None and i >= 0 and word == "bias":
                array = _steps_of_sums(text.tensors[i], *(text.tensors[k] for k in node.inputs[:2]))
            if array is not None:
                is_depthwise = node.op == "DEPTHWISE_CONV_2D" and array.ndim == 4
                found[f"{name}.{word}"] = array.transpose(3, 1, 2, 0) if is_depthwise else array
    if not found:
        raise CheckpointError("a .tflite file without weights in it")
    return found


def _steps_of_sums(bias: TensorText, x: TensorText, weight: TensorText) -> np.ndarray | None:
    """The numbers of a bias that states no scale: it counts steps of the image times those of the weights."""
    if bias.array is None or bias.array.dtype != np.int32 or x.steps is None or weight.steps is None:
        return None
    return np.asarray(bias.array * (x.steps.scale.astype(np.float64) * weight.steps.scale), np.float32)


def _numbers(t: TensorText) -> np.ndarray | None:
    if t.array is None or (t.steps is None and t.array.dtype.kind != "f"):
        return None
    if t.steps is None:
        return t.array.astype(np.float32)
    shape = [-1 if axis == t.steps.axis and not t.steps.is_one else 1 for axis in range(t.array.ndim)]
    scale, zero = t.steps.scale.astype(np.float64).reshape(shape), t.steps.zero.reshape(shape)
    return np.asarray((t.array.astype(np.int64) - zero) * scale, np.float32)
