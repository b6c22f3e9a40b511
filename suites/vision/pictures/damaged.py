"""Damaged picture files, found when a set is opened by their first and last bytes: nothing is decoded.

A file is looked at as a whole only where its ends look wrong, so that what is told is what decoding would say.
"""

from __future__ import annotations

import logging
import struct

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import FileTable
from suites.engine.data.intake.naming import ending
from suites.vision.pictures.images import IMAGE_SUFFIXES, checked_file

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
    suspects = 0
    for at in range(0, count, step):
        place = at if chosen is None else int(chosen[at])
        for files in alike:
            if suspects < _MOST_SUSPECTS and _suspect(files, place):
                suspects += 1
                if why := _damage(files, place):
                    found.setdefault(at, why)
    if found:
        looked = f"{count} samples" if step == 1 else f"{len(range(0, count, step))} of {count} samples looked at"
        named = "; ".join(list(found.values())[:_NAMED]) + (" ..." if len(found) > _NAMED else "")
        _log.warning("%s: %d damaged of %s: %s", what, len(found), looked, named)
    return found


def _suspect(files: FileTable, at: int) -> bool:
    """Whether a picture's ends look wrong; False where they cannot be read without the rest."""
    if ending(files.name(at)) not in IMAGE_SUFFIXES:
        return False
    try:
        ends = files.ends(at, _FIRST, _LAST)
    except DataError:
        return True
    if ends is None:
        return False
    size, first, last = ends
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
