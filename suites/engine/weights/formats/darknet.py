"""Darknet's weight files: float32 numbers one after the other, whose shapes only the network's `.cfg` tells.

A file begins with its version (major, minor, revision, int32 each) and how many images were seen: 64 bits from version
0.2 on, 32 before. Then come the convolutions in the cfg's order, each as biases, with batch norm scales, means and
variances, and weights [K, C / groups, R, S] (Redmon, https://pjreddie.com/darknet/).

Batch norms divide by sqrt(variance) + 1e-6 in Redmon's program. In Bochkovskiy's (https://github.com/AlexeyAB/darknet),
which writes version 0.2.5, they divide by sqrt(variance + 1e-5), as ours do.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.outside import open_file
from suites.engine.weights.formats.darknet_cfg import convolutions, read_cfg

_LONGEST_HEADER = 20  # bytes
_OUR_NORM = (0, 2, 5)  # from this version on


def read_darknet(path: Path, cfg: Path | None = None) -> dict[str, np.ndarray]:
    """The convolutions of a `.weights` file, numbered as in its `.cfg`: `0.weight`, `0.bias`, `0.scale`, `0.mean`,
    `0.variance`, the last one for a batch norm with eps 1e-5.

    Args:
        path: the file.
        cfg: the network's; by default what lies beside the file under the same name, or is the only one in its folder.

    Raises:
        CheckpointError: there is no cfg, one of the two is damaged, or they do not belong together.
    """
    cfg = cfg or _cfg_of(path)
    layers = convolutions(read_cfg(cfg))
    shapes = [(f"{i}.{name}", shape) for i, layer in enumerate(layers) for name, shape in layer.arrays()]
    wanted = sum(_product(shape) for _, shape in shapes)
    with open_file(path, "weight_bytes") as file:
        size = os.fstat(file.fileno()).st_size
        start, version = _header(file.read(_LONGEST_HEADER))
        file.seek(start)
        numbers = np.fromfile(file, "<f4", min(wanted, size // 4))
    if size - start != 4 * wanted:
        what = "cut off" if size - start < 4 * wanted else "too long"
        raise CheckpointError(
            f"{what}, or not of {cfg.name}: that has {wanted} numbers in {len(layers)} convolutions, "
            f"{start + 4 * wanted} bytes with the header, and the file has {size}"
        )
    arrays, at = {}, 0
    for name, shape in shapes:
        count = _product(shape)
        arrays[name] = numbers[at : at + count].reshape(shape)
        if name.endswith(".variance") and version < _OUR_NORM:
            arrays[name] = _for_our_norm(arrays[name])
        at += count
    return arrays


def _for_our_norm(variance: np.ndarray) -> np.ndarray:
    """The variance v' with which sqrt(v' + 1e-5), our batch norm's divisor, is darknet's: sqrt(v) + 1e-6.

    It is negative where v is below 1e-5, of channels that hardly ever change.
    """
    return np.asarray((np.sqrt(np.maximum(variance.astype(np.float64), 0)) + 1e-6) ** 2 - 1e-5, np.float32)


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _header(data: bytes) -> tuple[int, tuple[int, int, int]]:
    """Bytes before the first number, and the version."""
    if len(data) < 16:
        raise CheckpointError("cut off: darknet's header has 16 bytes or more")
    major, minor, revision = struct.unpack_from("<iii", data)
    if not (0 <= major < 1000 and 0 <= minor < 1000):
        raise CheckpointError(f"it begins with version {major}.{minor}, so this is no darknet file")
    return 20 if 10 * major + minor >= 2 else 16, (major, minor, revision)


def _cfg_of(path: Path) -> Path:
    beside = path.with_suffix(".cfg")
    if beside.is_file():
        return beside
    others = sorted(path.parent.glob("*.cfg"))
    if len(others) == 1:
        return others[0]
    found = ", ".join(file.name for file in others) or "none"
    raise CheckpointError(
        f"darknet's weights have no shapes of their own: put the network's {beside.name} beside it (there is {found})"
    )
