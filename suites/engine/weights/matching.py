"""Tensors under another framework's names into a model, every one of them accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from framework.errors import CheckpointError
from framework.nn import Layer
from framework.tensor import tensor

_SHOWN = 8  # names listed of each kind of difference


@dataclass(frozen=True)
class Source:
    """Where a parameter of ours comes from: tensors of a file, joined along their first axis.

    Attributes:
        names: theirs, in order.
        transpose: they are stored the other way round, as Paddle's linear layers [in, out] are.
    """

    names: tuple[str, ...]
    transpose: bool = False


@dataclass(frozen=True)
class LoadReport:
    """What became of the tensors of a file.

    Attributes:
        loaded: names of ours that were replaced.
        new: names of ours that the file does not have and was allowed not to have; they are as they were.
        unused: names of the file that this model has no place for.
    """

    loaded: list[str]
    new: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} tensors loaded"]
        lines += [f"{len(self.new)} new: {shown(self.new)}"] if self.new else []
        lines += [f"{len(self.unused)} of the file not used: {shown(self.unused)}"] if self.unused else []
        return "; ".join(lines)


def shown(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f", ... ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def load_mapped(
    model: Layer,
    arrays: Mapping[str, np.ndarray],
    sources: Mapping[str, Source],
    *,
    file: str,
    new: Iterable[str] = (),
    unused: Iterable[str] = (),
) -> LoadReport:
    """Puts arrays under foreign names into a model.

    Args:
        model: whose parameters and buffers are replaced by copies.
        arrays: the file's tensors by its names.
        sources: for names of the model, where they come from.
        file: for messages.
        new: prefixes of names of the model that the file may lack; those stay as they are.
        unused: regular expressions of names of the file that may find no place.

    Raises:
        CheckpointError: something is missing, unexpected or of another shape; all of it is listed, and the model is
            unchanged.
    """
    state, missing, different = _assembled(model, arrays, sources)
    fresh = [name for name in missing if name.startswith(tuple(new))]
    used = {theirs for source in sources.values() for theirs in source.names}
    left = [name for name in arrays if name not in used]
    unexpected = [name for name in left if not any(re.search(pattern, name) for pattern in unused)]
    problems = [
        f"{len(names)} {what}: {shown(names)}"
        for what, names in (
            ("missing", [f"{n} (from {_wanted(sources, n)})" for n in missing if n not in fresh]),
            ("unexpected", unexpected),
            ("of another shape", different),
        )
        if names
    ]
    if problems:
        raise CheckpointError(f"{file}: it does not fit this {type(model).__name__}; {'; '.join(problems)}")
    own = model.state_dict()
    for name, array in state.items():
        own[name].set(tensor(array, dtype=own[name].dtype))
    return LoadReport(list(state), fresh, left)


def _wanted(sources: Mapping[str, Source], name: str) -> str:
    return " + ".join(sources[name].names) if name in sources else "no known name"


def _assembled(
    model: Layer, arrays: Mapping[str, np.ndarray], sources: Mapping[str, Source]
) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """The model's tensors that the file has, the names of those it lacks, and what has another shape."""
    state: dict[str, np.ndarray] = {}
    missing: list[str] = []
    different: list[str] = []
    for name, own in model.state_dict().items():
        source = sources.get(name)
        if source is None or any(theirs not in arrays for theirs in source.names):
            missing.append(name)
            continue
        parts = [arrays[theirs].T if source.transpose else arrays[theirs] for theirs in source.names]
        if len({part.shape[1:] for part in parts}) == 1 and all(part.ndim for part in parts):
            joined = np.concatenate(parts) if len(parts) > 1 else parts[0]
        else:
            joined = parts[0]
        if joined.shape == own.shape:
            state[name] = joined
        else:
            theirs = " + ".join(f"{n} {list(arrays[n].shape)}" for n in source.names)
            different.append(f"{name} {list(own.shape)} from {theirs}")
    return state, missing, different


def rename(model: Layer, sources: Mapping[str, Source]) -> dict[str, np.ndarray]:
    """The model's tensors under foreign names: what `load_mapped` undoes.

    Raises:
        CheckpointError: a tensor of the model has no foreign name.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, own in model.state_dict().items():
        if name not in sources:
            raise CheckpointError(f"{type(model).__name__}: '{name}' has no name in this format")
        source = sources[name]
        for theirs, part in zip(source.names, np.split(own.numpy(), len(source.names)), strict=True):
            arrays[theirs] = np.ascontiguousarray(part.T if source.transpose else part)
    return arrays
