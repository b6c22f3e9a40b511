"""The weights of TensorFlow.js: a manifest that lists tensors, and files of bytes, one after the other, beside it.

The manifest is a list of groups, by itself (`NAME-weights_manifest.json`) or as `weightsManifest` of a `model.json`. A
group names its files and its tensors in the order of their bytes. A tensor may be kept in 8 or 16 bits: it stands for
value * scale + min. Source: the format as tfjs-core's `io/types` and `io/io_utils` describe it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from framework import limits
from framework.errors import CheckpointError
from framework.outside import check_file, read_bytes, read_json

ENDING = "weights_manifest.json"
_MODEL = "model.json"
_TYPES = {"float32": "<f4", "float16": "<f2", "int32": "<i4", "uint8": "u1", "bool": "u1"}
_STEPS = ("uint8", "uint16")
_KEPT = {"uint8": "u1", "uint16": "<u2", "float16": "<f2"}
_MOST_AXES = 8
_MOST_TENSORS = 100_000


@dataclass(frozen=True)
class _Tensor:
    """A line of the manifest.

    Attributes:
        dtype: what it is.
        kept: the type of its bytes, as NumPy calls it.
        scale: factor of what is kept, None where that is the number itself.
        least: what is added to it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kept: str
    scale: float | None = None
    least: float = 0.0

    @property
    def nbytes(self) -> int:
        """Of what is kept."""
        return math.prod(self.shape) * np.dtype(self.kept).itemsize

    @property
    def made(self) -> int:
        """Bytes of what is read."""
        return math.prod(self.shape) * (1 if self.dtype in ("uint8", "bool") else 4)

    def array(self, data: memoryview) -> np.ndarray:
        """The tensor of its bytes; float16 comes as float32."""
        found = np.frombuffer(data, self.kept).reshape(self.shape)
        if self.scale is not None:
            numbers = found.astype(np.float64) * self.scale + self.least
            return numbers.astype(np.float32) if self.dtype == "float32" else np.rint(numbers).astype(np.int32)
        if self.dtype == "bool":
            return found != 0
        return found.astype(np.float32) if self.dtype.startswith("float") else found.copy()


def find_manifest(folder: Path) -> list[Path]:
    """The manifests in a folder: files that end in `weights_manifest.json`, or a `model.json` that holds one."""
    model = folder / _MODEL
    return sorted(folder.glob(f"*{ENDING}")) or ([model] if model.is_file() and _holds_manifest(model) else [])


def _holds_manifest(model: Path) -> bool:
    try:
        found = read_json(model)
    except ValueError:  # some other tool's
        return False
    return isinstance(found, dict) and "weightsManifest" in found


def read_tfjs(path: Path) -> dict[str, np.ndarray]:
    """All tensors by name, in TensorFlow's layout (filters [R, S, C, K]), as the numbers that they stand for.

    Args:
        path: the manifest, or the model.json that holds it. The files that it names lie in its folder or below.

    Raises:
        CheckpointError: it is no manifest, a file is missing, or names, shapes and bytes do not go together.
    """
    groups = _groups(path)
    files = [(_files(group, path), list(_tensors(group))) for group in groups]
    paths = [file for found, _ in files for file in found]
    tensors = [each for _, found in files for each in found]
    for what, names in (
        ("file", [str(file.relative_to(path.parent)) for file in paths]),
        ("tensor", [each.name for each in tensors]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                raise CheckpointError(f"it names the {what} '{name[:80]}' twice")
    if not tensors:
        raise CheckpointError("a manifest without weights in it")
    meter = limits.Meter(sum(_check(found, group) for found, group in files), "the manifest's files")
    arrays: dict[str, np.ndarray] = {}
    for found, group in files:
        data, at = memoryview(b"".join(read_bytes(file, "weight_bytes") for file in found)), 0
        if len(data) != sum(each.nbytes for each in group):
            raise CheckpointError("its files changed while they were read")
        for each in group:
            meter.take(each.made)
            arrays[each.name] = each.array(data[at : at + each.nbytes])
            at += each.nbytes
    return arrays


def _groups(path: Path) -> list[dict[str, Any]]:
    try:
        found = read_json(path)
    except ValueError as error:
        raise CheckpointError(f"it cannot be read as JSON: {error}") from None
    if isinstance(found, dict):
        found = found.get("weightsManifest")
    if not isinstance(found, list) or not all(isinstance(group, dict) for group in found):
        raise CheckpointError(
            "no manifest of TensorFlow.js: that is a list of groups of `paths` and `weights`, or a model.json that has "
            "one as `weightsManifest`"
        )
    return found


def _files(group: dict[str, Any], path: Path) -> list[Path]:
    """The files of a group; none leads out of the manifest's folder."""
    names = group.get("paths")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CheckpointError("`paths` of a group must be a list of files")
    for name in names:
        parts = PurePosixPath(name).parts
        if not parts or not name.isprintable() or "\\" in name or ":" in name or name[0] == "/" or ".." in parts:
            raise CheckpointError(f"its file '{name[:80]}' must lie in the manifest's folder or below")
    return [path.parent / name for name in names]


def _tensors(group: dict[str, Any]) -> Iterator[_Tensor]:
    entries = group.get("weights")
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise CheckpointError("`weights` of a group must be a list of tensors")
    if len(entries) > _MOST_TENSORS:
        raise CheckpointError(f"it lists {len(entries)} tensors; at most {_MOST_TENSORS} are read")
    for each in entries:
        name, shape, dtype = each.get("name"), each.get("shape"), each.get("dtype")
        if not isinstance(name, str) or not name or not _is_shape(shape):
            raise CheckpointError(f"a tensor needs a name and a shape of whole numbers, found {str(each)[:80]}")
        if not isinstance(dtype, str) or dtype not in _TYPES:
            raise CheckpointError(f"'{name[:80]}' is of type {str(dtype)[:20]}; read are {', '.join(_TYPES)}")
        yield _with_steps(name, tuple(shape), dtype, each.get("quantization"))


def _with_steps(name: str, shape: tuple[int, ...], dtype: str, steps: Any) -> _Tensor:
    """A tensor, with what its bytes stand for."""
    if steps is None:
        return _Tensor(name, shape, dtype, _TYPES[dtype])
    kept = steps.get("dtype") if isinstance(steps, dict) else None
    if kept == "float16" and dtype == "float32":
        return _Tensor(name, shape, dtype, _KEPT[kept])
    if kept not in _STEPS or dtype not in ("float32", "int32"):
        raise CheckpointError(
            f"'{name[:80]}': {dtype} kept as {str(kept)[:20]} is not read; float32 may be kept as uint8, uint16 or "
            "float16, int32 as uint8 or uint16"
        )
    scale, least = steps.get("scale"), steps.get("min")
    if not (_is_number(scale) and _is_number(least) and scale > 0):
        raise CheckpointError(f"'{name[:80]}': its scale is {str(scale)[:20]} and its min {str(least)[:20]}")
    if dtype == "int32" and max(abs(least), abs(65535 * scale + least)) > 2**31 - 1:
        raise CheckpointError(f"'{name[:80]}': its scale and min lead out of int32")
    return _Tensor(name, shape, dtype, _KEPT[kept], float(scale), float(least))


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= _MOST_AXES
        and all(type(extent) is int and 0 <= extent < 1 << 48 for extent in value)
    )


def _is_number(value: Any) -> bool:
    """Whether it is one that float32 holds."""
    return type(value) in (int, float) and abs(value) <= float(np.finfo(np.float32).max)


def _check(files: list[Path], tensors: list[_Tensor]) -> int:
    """The bytes of a group's files, which are those of its tensors."""
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"its file {file.name} is not beside it")
    held, wanted = sum(check_file(file, "weight_bytes") for file in files), sum(each.nbytes for each in tensors)
    if held != wanted:
        names = ", ".join(file.name for file in files[:4]) or "no file"
        raise CheckpointError(
            f"{'cut off' if held < wanted else 'too long'}: its {len(tensors)} tensors have {wanted} bytes, and "
            f"{names} {held}"
        )
    return held
