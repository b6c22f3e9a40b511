"""Many files of a folder read at once, on all cores: sizes, ends, digests, and what plain pictures say of themselves.

Regular files alone are read. What cannot be read in one go has the size -1: `framework.outside` says why.
Letters: P places, indices of the files that are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework import _core

_MOST = 64 << 20  # bytes of a file that a thread holds


@dataclass(frozen=True)
class Paths:
    """Files below a folder: file i is `root/names[ends[i]:ends[i + 1]]`.

    Attributes:
        root: the folder.
        names: uint8, all names one behind the other.
        ends: int64 [files + 1].
    """

    root: bytes
    names: np.ndarray
    ends: np.ndarray


def sizes(paths: Paths, places: np.ndarray) -> np.ndarray:
    """Bytes of each file, int64 [P]; -1 where there is none."""
    return _core.file_sizes(paths.root, paths.names, paths.ends, places)


def ends(paths: Paths, places: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes, int64 [P], and the first and last bytes, uint8 [P, first + last]; 0 where a shorter file has none.

    The last bytes of a file of at most `first` bytes are the last of its first ones.
    """
    found: tuple[np.ndarray, np.ndarray] = _core.file_ends(paths.root, paths.names, paths.ends, places, first, last)
    return found


def end_digests(paths: Paths, places: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes, int64 [P], and digests, uint8 [P, 16], of the size and both ends, or of a short file as a whole.

    BLAKE2b of the size as text, a space, and `end` bytes at each end; of at most `2 * end` bytes, of these.
    """
    found: tuple[np.ndarray, np.ndarray] = _core.file_end_digests(paths.root, paths.names, paths.ends, places, end)
    return found


def pictures(paths: Paths, places: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, int64 [P], BLAKE2b digests, uint8 [P, 16], and headers, int64 [P, 4], of files of at most `most` bytes.

    A header is (height, width, bytes that a decoder takes for a pixel, scans), of a JPEG or PNG that is whole by its
    container and that no tag may turn; of any other file it is 0. Files of more than 64 MB are not read.
    """
    found: tuple[np.ndarray, np.ndarray, np.ndarray] = _core.picture_files(
        paths.root, paths.names, paths.ends, places, min(most, _MOST)
    )
    return found
