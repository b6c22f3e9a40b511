"""Weights from a file into a model that they must fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from framework import Tensor
from framework.errors import CheckpointError
from framework.io import load_tensors
from framework.nn import Layer
from suites.engine.weights.eight_bits import refuse_folded
from suites.engine.weights.matching import note_loaded


def load_weights(
    model: Layer,
    path: Path,
    *,
    partial: bool = False,
    before: Callable[[Mapping[str, Tensor]], object] = lambda _: None,
) -> list[str]:
    """Put the weights of a file into `model`; return one line for each kind of difference.

    Args:
        model: the network whose parameters and buffers are replaced.
        path: a safetensors file.
        partial: take what fits and leave the rest of the model as it is, for training on from other weights.
        before: is called with the file's tensors, and may change the model to fit them.

    Raises:
        CheckpointError: the file is damaged; or it does not fit exactly, or nothing of it fits if `partial`;
            or it is of training in 8 bits and the model is not. The model is unchanged then.
    """
    tensors = load_tensors(path)
    before(tensors)
    refuse_folded(model, tensors, str(path))
    own = model.state_dict()
    fits = any(name in own and own[name].shape == tensor.shape for name, tensor in tensors.items())
    try:
        lines = model.load_state_dict(tensors, strict=not (partial and fits))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    note_loaded(model, [name for name, t in tensors.items() if name in own and own[name].shape == t.shape])
    return lines
