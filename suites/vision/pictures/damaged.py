"""Damaged files of pictures and videos, found when a set is opened by their first and last bytes: nothing is decoded.

A file is looked at as a whole only where its ends look wrong, so that what is told is what decoding would say.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import FileTable
from suites.engine.data.intake.naming import ending
from suites.vision.pictures.images import IMAGE_SUFFIXES, checked_file
from suites.vision.pictures.sizes import picture_size
from suites.vision.videos.reading import checked_size

_log = logging.getLogger(__name__)
_MOST_FILES = 10_000  # whose ends are read; of more, evenly spread ones
_MOST_SIZES = 300  # pictures with labels whose sizes are compared
_MOST_SUSPECTS = 200  # files that are read as a whole
_NAMED = 8  # in a message
_FIRST, _LAST = 16, 12  # bytes of each end
_PNG_END = b"\0\0\0\0IEND\xae\x42\x60\x82"
_OTHER_SIGNS = (b"II*\0", b"MM\0*", b"GIF8", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")  # kinds without an end


def find_damaged(
    what: str,
    files: FileTable,
    labels: FileTable | None = None,
    label_of: np.ndarray | None = None,
    chosen: np.ndarray | None = None,
) -> dict[int, str]:
    """Why samples cannot be read, by index; logged once, with their number and the first names.

    Args:
        what: the set, for the message.
        files: the samples' pictures.
        labels: pictures of the samples' own sizes, such as label maps and masks; other files are passed over.
        label_of: int64, the place in `labels` of each place in `files`, -1 for none; None for the same places.
        chosen: int64, places in `files` of the samples; None for all, in order.
    """
    count = len(files) if chosen is None else len(chosen)
    step = -(-count // _MOST_FILES) or 1
    looked_at = np.arange(0, count, step)
    places = looked_at if chosen is None else chosen[looked_at].astype(np.int64)
    found = {row * step: why for row, why in _damaged(files, places)}
    if labels is not None:
        own = places if label_of is None else label_of[places]
        rows = np.flatnonzero(own >= 0)
        for at, why in _damaged(labels, own[rows]):
            found.setdefault(int(rows[at]) * step, why)
        for at in rows[:: -(-len(rows) // _MOST_SIZES) or 1].tolist():
            if why := _other_size(labels, int(own[at]), files, int(places[at])):
                found.setdefault(at * step, why)
    found = dict(sorted(found.items()))
    _say(what, found, count, step)
    return found


def sizes_differ(label: str, of_label: Sequence[int], picture: str, size: Sequence[int]) -> str:
    """What is wrong where the size (H, W) of a file of labels is not that of its picture; "" where it is."""
    if tuple(of_label) == tuple(size):
        return ""
    return f"{label}: is {of_label[1]}x{of_label[0]} but its picture {picture} is {size[1]}x{size[0]} (width x height)"


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


def _other_size(labels: FileTable, label: int, files: FileTable, place: int) -> str:
    """What is wrong where a picture of labels is not of its picture's size; "" where it is or a header is not read."""
    size, of_label = picture_size(files, place), picture_size(labels, label)
    if (0, 0) in (size, of_label):
        return ""
    return sizes_differ(labels.full_name(label), of_label, files.full_name(place), size)


def _damaged(files: FileTable, places: np.ndarray) -> list[tuple[int, str]]:
    """Which of the pictures at `places` cannot be read, by its row there, and why."""
    suspects = np.flatnonzero(_suspects(files, places))[:_MOST_SUSPECTS].tolist()
    return [(row, why) for row in suspects if (why := _damage(files, int(places[row])))]


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
