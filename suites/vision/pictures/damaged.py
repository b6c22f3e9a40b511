"""Damaged files of pictures and videos, found when a set is opened by their first and last bytes: nothing is decoded.

A file is looked at as a whole only where its ends look wrong, so that what is told is what decoding would say.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import FileTable
from suites.engine.data.intake.naming import ending
from suites.vision.pictures.images import IMAGE_SUFFIXES, checked_file
from suites.vision.videos.reading import checked_size

_log = logging.getLogger(__name__)
_MOST_FILES = 10_000  # whose ends are read; of more, evenly spread ones
_MOST_SUSPECTS = 200  # files that are read as a whole
_NAMED = 8  # in a message
_FIRST, _LAST = 16, 12  # bytes of each end
_PNG_END = b"\0\0\0\0IEND\xae\x42\x60\x82"
_OTHER_SIGNS = (b"II*\0", b"MM\0*", b"GIF8", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")  # kinds without an end


def find_damaged(what: str, *tables: FileTable, chosen: np.ndarray | None = None) -> dict[int, str]:
    """Why samples cannot be read, by index; logged once, with their number and the first names.

    Args:
        what: the set, for the message.
        tables: files of the samples, such as pictures and label maps; one of another length than the first is left out.
        chosen: int64, places in the tables of the samples; None for all, in order.
    """
    count = len(tables[0]) if chosen is None else len(chosen)
    step = -(-count // _MOST_FILES) or 1
    found: dict[int, str] = {}
    alike = [files for files in tables if len(files) == len(tables[0])]
    looked_at = np.arange(0, count, step)
    places = looked_at if chosen is None else chosen[looked_at].astype(np.int64)
    suspects = np.argwhere(np.stack([_suspects(files, places) for files in alike], axis=1))[:_MOST_SUSPECTS]
    for row, column in suspects.tolist():
        if why := _damage(alike[column], int(places[row])):
            found.setdefault(row * step, why)
    _say(what, found, count, step)
    return found


def find_damaged_videos(what: str, files: FileTable) -> dict[int, str]:
    """As `find_damaged`, for videos: those that are missing or cut off by the extents of their boxes; none in a zip."""
    if files.paths() is None:
        return {}
    step = -(-len(files) // _MOST_FILES) or 1
    found: dict[int, str] = {}
    for at in range(0, len(files), step):
        try:
            checked_size(files.path(at), files.full_name(at))
        except DataError as error:
            found[at] = str(error)
    _say(what, found, len(files), step)
    return found


def _say(what: str, found: Mapping[int, str], count: int, step: int) -> None:
    if found:
        looked = f"{count} samples" if step == 1 else f"{len(range(0, count, step))} of {count} samples looked at"
        named = "; ".join(list(found.values())[:_NAMED]) + (" ..." if len(found) > _NAMED else "")
        _log.warning("%s: %d damaged of %s: %s", what, len(found), looked, named)


def _suspects(files: FileTable, places: np.ndarray) -> np.ndarray:
    """Whether the ends of pictures look wrong, bool [P]; False where they cannot be read without the rest."""
    each = files.each_ends(places, _FIRST, _LAST)
    found = np.array([ends is not None and _looks_wrong(*ends) for ends in each], bool)
    for row in np.flatnonzero(found).tolist():
        found[row] = ending(files.name(int(places[row]))) in IMAGE_SUFFIXES
    return found


def _looks_wrong(size: int, first: bytes, last: bytes) -> bool:
    if first.startswith(b"\xff\xd8"):
        return not last.endswith(b"\xff\xd9")
    if first.startswith(b"\x89PNG\r\n\x1a\n"):
        return last != _PNG_END
    if first.startswith(b"RIFF"):
        return size < struct.unpack_from("<I", first.ljust(8, b"\xff"), 4)[0] + 8
    if first.startswith(b"BM"):
        return size < struct.unpack_from("<I", first.ljust(6, b"\xff"), 2)[0]
    return not first.startswith(_OTHER_SIGNS)


def _damage(files: FileTable, at: int) -> str:
    """Why decoding would refuse a file, from its container and header; "" where it would not."""
    name = files.full_name(at)
    try:
        checked_file(files.read(at), name)
    except DataError as error:
        return str(error)
    return ""
