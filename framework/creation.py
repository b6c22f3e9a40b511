"""New tensors from a shape or a range, files of tensors, and the seed: what a notebook begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework import ops, random
from framework.errors import AttributeValueError, CheckpointError
from framework.tensors import Scalar, Tensor, tensor

if TYPE_CHECKING:
    from framework.nn.layer import Layer


def full(shape: int | Sequence[int], value: Scalar, dtype: str | None = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor of one number.

    Args:
        shape: extents.
        value: the number; an int is exact.
        dtype: by default float32 for a float, int64 for an int, bool for a bool.
    """
    default = "bool" if isinstance(value, (bool, np.bool_)) else "int64" if _is_whole(value) else "float32"
    one = tensor(value, dtype or default)
    return _leaf(ops.broadcast_to(one, shape=_extents("full", (shape,))), requires_grad)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def zeros(*shape: int | Sequence[int], dtype: str = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of zeros; extents one by one, or one sequence of them."""
    return full(_extents("zeros", shape), 0, dtype, requires_grad=requires_grad)


def ones(*shape: int | Sequence[int], dtype: str = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of ones; extents one by one, or one sequence of them."""
    return full(_extents("ones", shape), 1, dtype, requires_grad=requires_grad)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of x's shape and type."""
    return ops.full_like(x.detach(), value=0.0)


def ones_like(x: Tensor) -> Tensor:
    """Ones of x's shape and type."""
    return ops.full_like(x.detach(), value=1.0)


def arange(start: Scalar, stop: Scalar | None = None, step: Scalar = 1, dtype: str | None = None) -> Tensor:
    """The numbers start, start + step, ... before `stop`, as NumPy counts them; `arange(n)` counts from 0.

    Args:
        dtype: by default int64 where all are ints, else float32.

    Raises:
        AttributeValueError: step is 0.
    """
    if not step:
        raise AttributeValueError("arange: step is 0; it must not be")
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(map(_is_whole, (first, last, step)))
    return tensor(np.arange(first, last, step), dtype or ("int64" if whole else "float32"))


def linspace(start: float, stop: float, num: int, dtype: str = "float32") -> Tensor:
    """`num` numbers from `start` to `stop`, both included, at equal distances, rounded once from float64.

    Raises:
        AttributeValueError: num is negative.
    """
    if num < 0:
        raise AttributeValueError(f"linspace: num is {num}; it must be 0 or more")
    return tensor(np.linspace(start, stop, num), dtype)


def manual_seed(seed: int) -> None:
    """Restarts the default random generator, which `nn.Dropout` and the like draw from.

    Initial weights do not depend on it: `nn.init.initialize(model, seed)` draws those.
    """
    random.seed(seed)


def save(what: Mapping[str, Tensor] | Layer, path: Path | str) -> None:
    """Writes named tensors, or a layer's parameters and buffers, to a safetensors file, whole or not at all.

    Raises:
        CheckpointError: something else than tensors, or the file cannot be written.
    """
    from framework.io import save_tensors  # late, as is load's: `import framework` need not wait for safetensors

    tensors = what if isinstance(what, Mapping) else what.state_dict()
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise CheckpointError(f"save: '{name}' is {type(t).__name__}; a file holds tensors only")
    save_tensors(path, tensors)


def load(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, for `layer.load_state_dict`; nothing in the file is run.

    Raises:
        CheckpointError: the file is missing, cut, or no safetensors file.
    """
    from framework.io import load_tensors

    return load_tensors(path)


def _extents(who: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    extents = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (Sequence, np.ndarray)) else shape
    if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in extents):
        raise AttributeValueError(f"{who}: shape {list(extents)}; extents are whole numbers of 0 or more")
    return tuple(int(n) for n in extents)


def _leaf(t: Tensor, requires_grad: bool) -> Tensor:
    return tensor(t, requires_grad=True) if requires_grad else t
