"""Where files are read from: paths of folders, zips and folders inside of zips, found and opened.

A path may lead into a zip: `data/bccd.zip` is its root, `data/nuclei.zip/images` a folder inside. Zips are
read in place, nothing is unpacked. A relative path is looked for in the working folder, then in `$PADDOCK_DATA`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path

from framework.errors import DataError
from framework.outside import DOWNLOAD_IT, expanded, is_address
from suites.engine.data.files import Source
from suites.engine.data.folders import Folder
from suites.engine.data.intake.naming import ending, is_about
from suites.engine.data.zips import Zip

FOLDER_VARIABLE = "PADDOCK_DATA"

_log = logging.getLogger(__name__)
_DEEPEST = 16  # folders around a set
_STANDS_FOR_IT = "data"  # the first part of a path that names the folder of all data sets


def find_data(path: str | os.PathLike[str]) -> Path:
    """Return where a path of data leads; it may lead into an archive.

    A relative path is looked for in the working folder, then in the folder that `$PADDOCK_DATA` names. A first
    `data/` of the path stands for that folder: `data/coco` is `$PADDOCK_DATA/coco`. A path that leads nowhere is
    returned as it is.
    """
    path = Path(path)
    if is_there(path) or is_there(path := expanded(path)):
        return path
    other = _in_data_folder(path)
    if other is None or not is_there(other):
        return path
    _log.info("%s: taken from %s ($%s)", path, other, FOLDER_VARIABLE)
    return other


def places_tried(path: str | os.PathLike[str]) -> str:
    """Return where `find_data` looks for a path, for a message."""
    path = Path(path)
    if is_address(path):
        return f"it {DOWNLOAD_IT}"
    if path.is_absolute():
        return "the path is absolute, so it was looked for there only"
    other = _in_data_folder(path)
    second = f"{FOLDER_VARIABLE} names no other folder" if other is None else f"{other} (${FOLDER_VARIABLE})"
    return f"looked for {Path.cwd() / path} and {second}" if other else f"looked for {Path.cwd() / path}; {second}"


def _in_data_folder(path: Path) -> Path | None:
    """The path below `$PADDOCK_DATA`; None for an absolute path, and where the variable is not set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or path.is_absolute():
        return None
    parts = path.parts[1:] if path.parts[:1] == (_STANDS_FOR_IT,) else path.parts
    return Path(folder).absolute().joinpath(*parts)


def is_there(path: Path) -> bool:
    """Return whether a path leads to something, or into a file that may be an archive."""
    return path.exists() or any(parent.is_file() for parent in path.parents)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Opens a folder, a zip, or a folder inside a zip, found by `find_data`.

    Raises:
        DataError: There is no such folder, or the zip is damaged.
    """
    found = find_data(path)
    if found.is_dir():
        return Folder(found)
    for archive in (found, *found.parents):
        if archive.suffix.lower() == ".zip" and archive.is_file():
            return Zip(archive, found.relative_to(archive).as_posix())
    if found.is_file():
        raise DataError(f"{path}: is no folder and no .zip file; unpack it, and give the folder that it makes")
    raise DataError(f"{path}: no such folder or .zip file; {places_tried(path)}")


def open_set(path: str | os.PathLike[str], *, tables: Collection[str] = (), holding: Collection[str] = ()) -> Source:
    """Opens a set as people hand it over: where all of it lies in one folder, as in most zips, that folder.

    A folder without folders whose files are of one kind is a class of a set, and not the set, unless they are tables.

    Args:
        path: the folder, zip, or folder inside a zip.
        tables: endings of files that hold a set by themselves.
        holding: folders at the top of a set: one of them is never taken for what all lies in.

    Raises:
        DataError: as `open_source`.
    """
    source = open_source(path)
    inside = ""
    for _ in range(_DEEPEST):
        folders = source.folders(inside)
        if len(folders) != 1 or folders[0] in holding or not all(map(is_about, source.names(inside))):
            break
        below = f"{inside}/{folders[0]}".lstrip("/")
        kinds = {ending(name) for name in source.names(below)}
        if not source.folders(below) and len(kinds) < 2 and not kinds & set(tables):
            break
        inside = below
    return open_source(f"{source.root}/{inside}") if inside else source


def open_zip(path: Path) -> Source:
    """Opens a zip whatever its name ends with, such as a wheel; raises as `open_source` does."""
    return Zip(path, ".")


def read_file(path: str | os.PathLike[str], limit: str = "member_bytes") -> bytes:
    """Bytes of a file that may lie inside a zip (`data/nuclei.zip/instances_val.json`), found by `find_data`.

    A DataError names one that cannot be read, or is over the limit of this name.
    """
    found = find_data(path)
    if not is_there(found):
        raise DataError(f"{path}: no such file; {places_tried(path)}")
    above = next((parent for parent in found.parents if parent.is_file()), None)
    if above is not None and above.suffix.lower() != ".zip":
        raise DataError(
            f"{path}: {above.name} is a file and no .zip, so nothing lies in it; name a folder, or this file by itself "
            "where its config makes it of another value by ${...}"
        )
    return open_source(found.parent).read(found.name, limit)
