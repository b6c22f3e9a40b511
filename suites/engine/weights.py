"""Weights on disk that must fit the model they are loaded into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from framework import Tensor
from framework.errors import CheckpointError
from framework.io import load_tensors

if TYPE_CHECKING:
    from framework.nn import Layer

_SHOWN = 6  # names listed of each kind of difference


@dataclass(frozen=True)
class Differences:
    """How the tensors of a file differ from those a model has."""

    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.misfits)

    def __str__(self) -> str:
        kinds = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape or type": self.misfits,
        }
        return "; ".join(f"{len(names)} {kind}: {_some(names)}" for kind, names in kinds.items() if names)


def compare(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Differences:
    """Return what is wrong with `found` for a model whose state is `wanted`."""
    misfits = [
        f"{name} {_kind(found[name])}, the model has {_kind(tensor)}"
        for name, tensor in wanted.items()
        if name in found and _kind(found[name]) != _kind(tensor)
    ]
    missing = [name for name in wanted if name not in found]
    return Differences(missing, [name for name in found if name not in wanted], misfits)


def require_fit(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], where: str) -> None:
    """Raise CheckpointError that lists what is missing, unexpected or of another shape."""
    differences = compare(found, wanted)
    if differences:
        raise CheckpointError(f"{where}: does not fit the model; {differences}")


def load_weights(model: Layer, path: Path, *, partial: bool = False) -> Differences:
    """Put the weights of a file into `model`; return what did not fit.

    Args:
        model: the network whose state is replaced.
        path: a safetensors file.
        partial: take what fits and leave the rest of the model as it is, for training on from other weights.

    Raises:
        CheckpointError: the file is damaged; or it does not fit exactly, or nothing of it fits if `partial`.
            The model is unchanged then.
    """
    tensors, wanted = load_tensors(path), model.state_dict()
    fitting = {n: t for n, t in tensors.items() if n in wanted and _kind(t) == _kind(wanted[n])}
    if not partial or not fitting:
        require_fit(tensors, wanted, str(path))
    model.load_state_dict({**wanted, **fitting})
    return compare(tensors, wanted)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def _some(names: list[str]) -> str:
    more = f", ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
