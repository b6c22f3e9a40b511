"""Files and folders that appear whole or not at all: written beside, flushed to disk, renamed.

Whatever stops the process (kill -9, a full disk, a power cut), the real name holds the old content or the
new, never half of either.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; on success it replaces `path`, else it is removed."""
    make_folder(path.parent)
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(fd)
    part = Path(name)
    try:
        yield part
        part.chmod(0o644)
        flush(part)
        part.replace(path)
        flush(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path` to fill; on success it becomes `path`, else it is removed.

    Raises OSError if there is a folder `path` that is not empty: two folders cannot change places in one step.
    """
    make_folder(path.parent)
    part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield part
        part.chmod(0o755)
        for file in part.iterdir():
            flush(file)
        flush(part)
        part.replace(path)
        flush(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, on disk before anything is put into them."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        flush(folder.parent)


def write_text(path: Path, text: str) -> None:
    """Replace the text of `path` (UTF-8)."""
    with atomic_file(path) as part:
        part.write_text(text, encoding="utf-8")


def remove_folder(path: Path) -> None:
    """Remove a folder so that it never stands half empty under its real name."""
    trash = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    path.replace(trash)
    shutil.rmtree(trash, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left unfinished in `folder`."""
    for path in folder.glob(".*"):
        if path.suffix in (".part", ".old"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def is_leftover(path: Path, *, of: Path) -> bool:
    """Whether `path` is what a killed process left when it wrote `of`."""
    return path.name.startswith(f".{of.name}.") and path.suffix == ".part"


def flush(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
