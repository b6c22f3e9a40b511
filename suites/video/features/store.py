"""Feature files: what networks say of the frames of many clips, laid end to end in a folder.

    features.json     what a row holds: {"format": 1, "modalities": {"rgb": 1280}, "made_by": {...}}
    clips.jsonl       a line a clip, in order: {"name": "a/b.mp4", "rows": 16}
    rgb.f16           rows of all clips, little-endian float16; a file a modality

A clip counts when its line is whole, so a writer that was killed goes on where it stopped. Nothing that is read runs
code; rows are read through a memory map.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from framework.atomic import make_folder, write_text
from framework.confined import confine, open_inside
from framework.errors import DataError
from framework.outside import read_json

_FORMAT = 1
_DTYPE = np.dtype("<f2")
_MOST_COLUMNS = 1 << 20


class FeatureStore:
    """The features of a folder, by clip.

    Args:
        root: the folder.

    Attributes:
        names: of the clips, in order.
        modalities: columns of each.
        made_by: what the writer said of itself.

    Raises:
        DataError: it is no such folder, or its files do not fit each other.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.modalities, self.made_by = _read_head(self.root)
        lines = _read_lines(self.root)
        self.names = tuple(name for name, _ in lines)
        self._starts = np.cumsum([0, *(rows for _, rows in lines)], dtype=np.int64)
        self._index = {name: i for i, name in enumerate(self.names)}
        for name, columns in self.modalities.items():
            path, needed = self._path(name), int(self._starts[-1]) * columns * _DTYPE.itemsize
            found = path.stat().st_size if path.is_file() else 0
            if found < needed:
                raise DataError(
                    f"features {path}: has {found} of {needed} bytes; it is cut off, or the extraction was stopped: "
                    "run `paddock features` again, which goes on where it stopped"
                )

    def __len__(self) -> int:
        return len(self.names)

    def index_of(self, name: str) -> int | None:
        """The number of a clip, None where there is none of this name."""
        return self._index.get(name)

    def load(self, index: int) -> dict[str, np.ndarray]:
        """The rows of clip `index`, float32 [T, C] of each modality."""
        first, rows = int(self._starts[index]), int(self._starts[index + 1] - self._starts[index])
        found = {}
        for name, columns in self.modalities.items():
            size = _DTYPE.itemsize * columns
            with open(self._path(name), "rb") as file:
                file.seek(first * size)
                data = file.read(rows * size)
            found[name] = np.frombuffer(data, _DTYPE).reshape(rows, columns).astype(np.float32)
        return found

    def _path(self, modality: str) -> Path:
        return self.root / f"{modality}.f16"


class FeatureWriter:
    """Appends clips to a folder of features; a folder of the same kind is gone on with.

    Args:
        root: the folder; made where there is none.
        modalities: columns of each.
        made_by: plain data that says where the features come from; a folder of another origin is refused.

    Raises:
        DataError: the folder holds other features.
    """

    def __init__(self, root: str | Path, modalities: Mapping[str, int], made_by: Mapping[str, Any]) -> None:
        self._root, self._modalities = Path(root), dict(modalities)
        confine(self._root)
        make_folder(self._root)
        head = {"format": _FORMAT, "modalities": self._modalities, "made_by": dict(made_by)}
        self.names: list[str] = []
        rows = 0
        if (self._root / "features.json").is_file():
            if _read_head(self._root) != (self._modalities, dict(made_by)):
                raise DataError(
                    f"features {self._root}: the folder holds features of another origin; name another folder, or take "
                    "this one away"
                )
            lines = _read_lines(self._root)
            self.names, rows = [name for name, _ in lines], sum(count for _, count in lines)
            text = "".join(_line(name, count) for name, count in lines)
            write_text(self._root / "clips.jsonl", text)  # without a line that was cut off
        else:
            write_text(self._root / "features.json", json.dumps(head, indent=1) + "\n")
        self._files = {name: self._open(name, rows * columns) for name, columns in self._modalities.items()}
        self._lines = _opened(self._root / "clips.jsonl")

    def _open(self, modality: str, numbers: int) -> BinaryIO:
        file = _opened(self._root / f"{modality}.f16")
        file.truncate(numbers * _DTYPE.itemsize)
        return file

    def add(self, name: str, features: Mapping[str, np.ndarray]) -> None:
        """Appends a clip: [T, C] of each modality, all with the same T.

        Raises:
            DataError: shapes do not fit, or a number is not finite or too large for float16.
        """
        shapes = {m: np.shape(features[m]) for m in self._modalities}
        counts = {shape[0] for shape in shapes.values()}
        wanted = {m: (min(counts), columns) for m, columns in self._modalities.items()}
        if shapes != wanted:
            raise DataError(f"features of {name}: shapes are {shapes}; they must be {wanted}")
        halves = {m: np.asarray(features[m]).astype(_DTYPE) for m in self._modalities}
        if not all(np.isfinite(rows).all() for rows in halves.values()):
            raise DataError(f"features of {name}: a number is not finite, or too large for float16 (65504)")
        for modality, rows in halves.items():
            self._files[modality].write(rows.tobytes())
            self._files[modality].flush()
        self._lines.write(_line(name, min(counts)).encode())
        self._lines.flush()
        self.names.append(name)

    def close(self) -> None:
        """Closes the files."""
        for file in (*self._files.values(), self._lines):
            file.close()

    def __enter__(self) -> FeatureWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _opened(path: Path) -> BinaryIO:
    """A file to append to."""
    return os.fdopen(open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def _line(name: str, rows: int) -> str:
    return json.dumps({"name": name, "rows": rows}, ensure_ascii=False) + "\n"


def _read_head(root: Path) -> tuple[dict[str, int], dict[str, Any]]:
    path = root / "features.json"
    try:
        head = read_json(path)
        modalities = head["modalities"]
        fits = head["format"] == _FORMAT and modalities
        fits = fits and all(
            type(c) is int and 0 < c <= _MOST_COLUMNS and m.isidentifier() for m, c in modalities.items()
        )
        made_by = dict(head["made_by"])
    except OSError as error:
        raise DataError(
            f"features {root}: there is no features.json in it ({error.strerror}); see `paddock features`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise DataError(f"features {path}: is not what `paddock features` writes; extract the features again")
    return modalities, made_by


def _read_lines(root: Path) -> list[tuple[str, int]]:
    """Name and rows of each clip; a last line that was cut off does not count."""
    path = root / "clips.jsonl"
    text = path.read_bytes() if path.is_file() else b""
    found = []
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            name, rows = entry["name"], entry["rows"]
            if type(name) is not str or type(rows) is not int or rows < 1:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            raise DataError(f"features {path}:{number}: is no line of a clip; extract the features again") from None
        found.append((name, rows))
    if len({name for name, _ in found}) != len(found):
        raise DataError(f"features {path}: a clip stands there twice; extract the features again")
    return found
