"""Weight files of Keras: `.h5` and `.weights.h5` of either generation, and `.keras`, a ZIP archive around the latter.

A file's description of its network (`config.json`, `model_config`) is not read: it can name functions to run.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.limits import Meter, check
from framework.outside import open_file, read_bytes
from suites.engine.weights.formats.hdf5 import read_hdf5

SUFFIXES = (".h5", ".hdf5", ".keras")
_INSIDE = "model.weights.h5"
_WHOLE_MODEL = "model_weights/"  # in the .h5 of a model as Keras 2 saved it
_OTHERS = ("optimizer/", "optimizer_weights/", "metrics/")  # what only its training needs


def read_keras(path: Path) -> dict[str, np.ndarray]:
    """The weights of a file by the paths that Keras gives them, such as `layers/dense/vars/0` or `fc/fc/kernel:0`.

    Optimizers' states are left out, and of a whole model's file the part before `model_weights/`.

    Raises:
        CheckpointError: it is no such file, is damaged, or has no weights.
    """
    arrays = read_hdf5(_unzipped(path) if path.suffix == ".keras" else read_bytes(path, "weight_bytes"))
    if any(name.startswith(_WHOLE_MODEL) for name in arrays):
        arrays = {n.removeprefix(_WHOLE_MODEL): a for n, a in arrays.items() if n.startswith(_WHOLE_MODEL)}
    found = {name: array for name, array in arrays.items() if not name.startswith(_OTHERS)}
    if not found:
        raise CheckpointError("an HDF5 file without weights in it")
    return found


def _unzipped(path: Path) -> bytes:
    """The weights' file in an archive, inflated no further than the directory says."""
    try:
        with open_file(path, "weight_bytes") as file, zipfile.ZipFile(file) as archive:
            members = [info for info in archive.infolist() if info.filename == _INSIDE]
            if len(members) != 1 or members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CheckpointError(f"a .keras file without a readable {_INSIDE} in it")
            Meter(path.stat().st_size, "the ZIP archive").take(members[0].file_size)
            check("weight_bytes", members[0].file_size, f"{_INSIDE} has too many bytes")
            with archive.open(members[0]) as stream:
                return stream.read(members[0].file_size)
    except CheckpointError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"a damaged ZIP archive ({error})") from None
