"""Files and folders that appear whole or not at all: written beside, flushed to disk, renamed.

Whatever stops the process (kill -9, a full disk, a power cut), the real name holds the old content or the
new, never half of either. All that Paddock writes or removes goes through here, so that nothing is written
outside of a folder that is confined; see `framework.confined`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from framework.confined import expect_inside, open_inside


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; on success it replaces `path`, else it is removed."""
    make_folder(path.parent)
    part = _beside(path, ".part")
    os.close(open_inside(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    try:
        yield part
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
    part = _beside(path, ".part")
    expect_inside(part)
    part.mkdir()
    try:
        yield part
        for file in part.iterdir():
            flush(file)
        flush(part)
        part.replace(path)
        flush(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, on disk before anything is put into them."""
    expect_inside(path / "_")
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        flush(folder.parent)


def write_text(path: Path, text: str) -> None:
    """Replace the text of `path` (UTF-8)."""
    with atomic_file(path) as part:
        part.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of `path`."""
    with atomic_file(path) as part:
        part.write_bytes(content)


def copy_file(source: Path, path: Path) -> None:
    """Write a file's content under another name, whole or not at all."""
    with atomic_file(path) as part:
        shutil.copyfile(source, part)


def open_to_append(path: Path) -> TextIO:
    """Open a text file (UTF-8) to add lines to, each of which is written at once.

    One that has another name too (a hard link, as backups have them) is copied first: the other keeps its content.
    Raises CheckpointError where it is a link or no regular file.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_nlink > 1 and path.is_file() and not path.is_symlink():
            with atomic_file(path) as part:
                shutil.copyfile(path, part)
    fd = open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return os.fdopen(fd, "a", encoding="utf-8", errors="backslashreplace", buffering=1)


def move(path: Path, to: Path) -> None:
    """Rename a file or folder; a file or an empty folder that is there is replaced."""
    expect_inside(path)
    expect_inside(to)
    path.replace(to)


def remove_file(path: Path) -> None:
    """Remove a file, or a link and not what it leads to; nothing happens where there is none."""
    expect_inside(path)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def remove_folder(path: Path) -> None:
    """Remove a folder so that it never stands half empty under its real name."""
    if path.is_symlink():
        remove_file(path)
        return
    trash = _beside(path, ".old")
    move(path, trash)
    shutil.rmtree(trash, ignore_errors=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        expect_inside(path)
        shutil.rmtree(path)
    else:
        remove_file(path)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left unfinished in `folder`."""
    for path in folder.glob(".*"):
        if path.suffix in (".part", ".old"):
            remove(path)


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


def _beside(path: Path, ending: str) -> Path:
    """A hidden name of its own in the same folder."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{ending}")
