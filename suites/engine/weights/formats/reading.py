"""Weight files of several frameworks as named arrays.

safetensors, PyTorch's .bin, .pt and .pth, Paddle's .pdparams, Detectron2's .pkl, darknet's .weights with its .cfg,
Keras' .h5 and .keras, TensorFlow.js' manifests with their files, and the tensors inside of an .onnx or .tflite file.
"""

from __future__ import annotations

import io
import logging
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from framework.errors import CheckpointError
from framework.io import read_arrays
from framework.limits import Meter
from framework.outside import check_file, open_file, read_json
from suites.engine.weights.formats.darknet import read_darknet
from suites.engine.weights.formats.keras import SUFFIXES as KERAS
from suites.engine.weights.formats.keras import read_keras
from suites.engine.weights.formats.onnx_tensors import read_onnx
from suites.engine.weights.formats.pickles import STORAGE_TYPES, Inert, Name, Refused, load_pickle
from suites.engine.weights.formats.states import chosen_state
from suites.engine.weights.formats.tfjs import find_manifest, read_tfjs
from suites.engine.weights.formats.tflite_tensors import read_tflite

_log = logging.getLogger(__name__)
_NAMES = ("model.safetensors", "pytorch_model.bin", "model_state.pdparams", "saved_weights.pdparams")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".pdparams", ".pkl", ".weights", ".onnx", ".tflite", *KERAS)
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of a file that PyTorch before 1.6 wrote


def find_weights(path: Path) -> list[Path]:
    """The files of a checkpoint: `path` itself, or in a folder the one of a usual name, or the shards of its index.

    Raises:
        CheckpointError: there is none, or several and none of a usual name.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is no such file or folder")
    for name in _NAMES:
        if (path / name).is_file():
            return [path / name]
    for name in _INDEXES:
        if (path / name).is_file():
            return _shards(path / name)
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
    # The files of bytes beside a manifest of TensorFlow.js end in .bin too.
    found = [file for file in files if file.suffix != ".bin"] or find_manifest(path) or files
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise CheckpointError(
            f"{path}: no weight file of a usual name ({', '.join(_NAMES)}) and not exactly one other (there is "
            f"{names}); name the file"
        )
    return found


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(read_json(index)["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{index}: not an index of weight files ({error})") from None
    if any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise CheckpointError(f"{index}: a weight file must lie beside it")
    return [index.parent / name for name in names]


def read_weights(path: Path, part: str | None = None, cfg: Path | None = None) -> dict[str, np.ndarray]:
    """All tensors of a checkpoint by the names it gives them; float16 and bfloat16 come as float32.

    Args:
        path: a .safetensors, .bin, .pt, .pth, .pdparams, .pkl, .weights, .h5, .keras, .onnx or .tflite file, a manifest
            of TensorFlow.js (.json), or a folder with one of them (see `find_weights`).
        part: of a file with several networks, the key of the one that is read; see `chosen_state`.
        cfg: the network's description, of darknet's files; by default the one beside the file.

    Raises:
        CheckpointError: a file is missing, damaged, of another kind, or holds more than tensors.
    """
    arrays: dict[str, np.ndarray] = {}
    for file in find_weights(path):
        try:
            arrays.update(_read(file, part, cfg))
        except Refused as error:
            raise CheckpointError(
                f"{file}: refused, it holds {error}; a weight file holds tensors only, and nothing in it was run. "
                "Save the plain state_dict, best as safetensors"
            ) from None
        except CheckpointError as error:
            text = str(error)
            raise CheckpointError(text if text.startswith(f"{file}: ") else f"{file}: {text}") from None
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read ({error.strerror or error})") from None
    return arrays


def _read(file: Path, part: str | None, cfg: Path | None) -> dict[str, np.ndarray]:
    if not file.exists():
        raise CheckpointError("there is no such file")
    check_file(file, "weight_bytes", what="it")
    if file.suffix == ".safetensors":
        return chosen_state({name: widened(array) for name, array in read_arrays(file).items()}, part)
    if file.suffix == ".weights":
        return read_darknet(file, cfg)
    if file.suffix == ".onnx":
        return read_onnx(file)
    if file.suffix == ".tflite":
        return read_tflite(file)
    if file.suffix in KERAS:
        return {name: widened(array) for name, array in read_keras(file).items()}
    if file.suffix == ".json":
        return chosen_state(dict(read_tfjs(file)), part)
    if _is_zip(file):
        return _read_torch_zip(file, part)
    with open_file(file, "weight_bytes") as stream:
        first = load_pickle(stream, _no_storage)
        if type(first) is int and first == _LEGACY_MAGIC:
            return _read_torch_legacy(stream, file.stat().st_size, part)
    return _named(first, file.stat().st_size, part)


def _is_zip(file: Path) -> bool:
    try:
        return zipfile.is_zipfile(file)
    except (zipfile.BadZipFile, struct.error, ValueError) as error:
        raise CheckpointError(f"a damaged ZIP archive ({error})") from None


def _no_storage(_: Any) -> np.ndarray:
    raise Refused("a persistent id")


def _named(value: Any, size: int, part: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of a state_dict. Paddle adds a table of parameter names, and writes an array with its name.

    Training scripts put it beside numbers, texts and settings of the run; see `chosen_state`.
    `size`: bytes of the file.
    """
    if not isinstance(value, dict):
        raise CheckpointError(f"it holds a {type(value).__name__}; a weight file holds tensors by name")
    arrays: dict[str, np.ndarray] = {}
    meter = Meter(size, "the file")
    left = {}
    for name, item in chosen_state(value, part).items():
        if name == "StructuredToParameterName@@":
            continue
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            item = item[1]
        if not isinstance(item, np.ndarray) and isinstance(item, bool | int | float | str | bytes | Inert | None):
            left[str(name)] = item
            continue
        if not isinstance(name, str) or not isinstance(item, np.ndarray):
            raise CheckpointError(f"'{name}' is a {type(item).__name__}; a weight file holds tensors by name")
        arrays[name] = widened(item)
        meter.take(arrays[name].nbytes if arrays[name] is not item else 0)
    if left and not arrays:
        name, item = next(iter(left.items()))
        raise CheckpointError(f"'{name}' is a {type(item).__name__}; a weight file holds tensors by name")
    if left:
        _log.info("left out, being no tensors: %s", ", ".join(list(left)[:8]))
    return arrays


def widened(array: np.ndarray) -> np.ndarray:
    """float16 and bfloat16 (as void of 2 bytes) as float32; others as they are."""
    if array.dtype == np.float16 or array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype == np.dtype("<V2"):
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


# -- PyTorch
def _storage_id(number: Any) -> tuple[str, np.dtype[Any], int]:
    """("storage", type, key, device, elements, ...) -> key, type and elements of a storage."""
    if not isinstance(number, tuple) or len(number) < 5 or number[0] != "storage":
        raise Refused("a persistent id that names no storage")
    kind, key, count = number[1], number[2], number[4]
    if not isinstance(kind, Name) or kind not in STORAGE_TYPES:
        raise Refused(f"a storage of type {kind if isinstance(kind, Name) else type(kind).__name__}")
    if not isinstance(key, (str, int)) or type(count) is not int or not 0 <= count < 1 << 48:
        raise CheckpointError("the pickle is damaged: a storage without a key or a length")
    return str(key), STORAGE_TYPES[kind], count


def _read_torch_zip(file: Path, part: str | None) -> dict[str, np.ndarray]:
    """Files of PyTorch since 1.6: an archive of a pickle and the storages that it names."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            meter = Meter(file.stat().st_size, "the ZIP archive")
            pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise CheckpointError("a ZIP archive without data.pkl; PyTorch's weight files have one")
            folder = pickles[0][: -len("data.pkl")]
            if folder + "byteorder" in names and _member(archive, folder + "byteorder", meter).strip() != b"little":
                raise CheckpointError("written on a big-endian machine, which is not read here")
            arrays: dict[str, np.ndarray] = {}

            def storage(number: Any) -> np.ndarray:
                key, dtype, count = _storage_id(number)
                if key not in arrays:
                    data = _member(archive, f"{folder}data/{key}", meter)
                    _expect(len(data) == count * dtype.itemsize, key, count)
                    arrays[key] = np.frombuffer(data, dtype)
                return arrays[key]

            return _named(
                load_pickle(io.BytesIO(_member(archive, pickles[0], meter)), storage), file.stat().st_size, part
            )
    except CheckpointError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, EOFError, RuntimeError) as error:
        raise CheckpointError(f"a damaged ZIP archive ({error})") from None


def _member(archive: zipfile.ZipFile, name: str, meter: Meter) -> bytes:
    """A file of the archive, inflated no further than its directory says."""
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CheckpointError(f"'{name}' is compressed by method {info.compress_type}; PyTorch stores its files")
    meter.take(info.file_size)
    with archive.open(info) as stream:
        return stream.read(info.file_size)


def _expect(fits: bool, key: str, count: int) -> None:
    if not fits:
        raise CheckpointError(f"storage {key} does not have the {count} elements that it should")


def _read_torch_legacy(stream: IO[bytes], size: int, part: str | None) -> dict[str, np.ndarray]:
    """Files of PyTorch before 1.6: version, system, the object, the storages' keys, then their data in turn.

    The object comes before the data that its tensors are cut from, so it is read twice: with zeros, to learn the
    storages' types, and again when they are there.
    """
    for _ in range(2):
        load_pickle(stream)
    start = stream.tell()
    arrays: dict[str, np.ndarray] = {}
    meter = Meter(size, "the file")

    def blank(number: Any) -> np.ndarray:
        key, dtype, count = _storage_id(number)
        _expect(0 <= count * dtype.itemsize <= size, key, count)
        if key not in arrays:
            meter.take(count * dtype.itemsize)
            arrays[key] = np.zeros(count, dtype)
        return arrays[key]

    load_pickle(stream, blank)
    for key in load_pickle(stream):
        blank_array = arrays.get(str(key), np.zeros(0))
        count = int.from_bytes(stream.read(8), "little")
        data = stream.read(blank_array.nbytes)
        _expect(count == len(blank_array) and len(data) == blank_array.nbytes, str(key), len(blank_array))
        arrays[str(key)] = np.frombuffer(data, blank_array.dtype)
    stream.seek(start)
    return _named(load_pickle(stream, lambda number: arrays[_storage_id(number)[0]]), size, part)
