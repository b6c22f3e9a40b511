"""Tensors as safetensors files, written whole or not at all, read without running anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from framework.atomic import atomic_file
from framework.errors import CheckpointError
from framework.outside import open_file
from framework.tensor import Tensor, bfloat16_type, from_numpy

_BFLOAT16 = "paddock.bfloat16"  # metadata key: names stored as uint16 bits, as safetensors' NumPy door needs


def sha256(path: Path | str) -> str:
    """The SHA-256 of a file's content in hexadecimal, read piece by piece; OSError where it cannot be read."""
    digest = hashlib.sha256()
    with open_file(path, "weight_bytes") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def save_tensors(path: Path | str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Writes named tensors to a safetensors file; an existing file is replaced only when the new one is complete.

    Args:
        path: of the file.
        tensors: by name.
        metadata: texts by name that go into the file's header; see `load_metadata`.

    Raises:
        CheckpointError: the file cannot be written (a full disk, no permission); what was there before is untouched.
    """
    path = Path(path)
    arrays = {name: np.asarray(t.array().numpy(), order="C") for name, t in tensors.items()}
    half = ",".join(name for name, t in tensors.items() if t.dtype == "bfloat16")
    header = {**(metadata or {}), **({_BFLOAT16: half} if half else {})}
    try:
        with atomic_file(path) as part:
            part.write_bytes(safetensors.numpy.save(arrays, header or None))
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be written ({e.strerror or e}); nothing saved before is lost") from e


def load_tensors(path: Path | str) -> dict[str, Tensor]:
    """Reads all tensors of a safetensors file.

    Raises:
        CheckpointError: the file is missing, cut or not a safetensors file.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such weight file")
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            bfloat16 = set(((file.metadata() or {}).get(_BFLOAT16) or "").split(","))
            return {name: _tensor(file.get_tensor(name), name in bfloat16) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError, TypeError) as e:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({e}); copy or save it again") from None


def load_metadata(path: Path | str) -> dict[str, str]:
    """The texts in a safetensors file's header.

    Raises:
        CheckpointError: the file is missing, cut or not a safetensors file.
    """
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            return dict(file.metadata() or {})
    except (safetensors.SafetensorError, OSError, ValueError) as e:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({e}); copy or save it again") from None


def _tensor(array: np.ndarray, bfloat16: bool) -> Tensor:
    return from_numpy(array.view(bfloat16_type()) if bfloat16 else array)
