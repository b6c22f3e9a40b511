"""Video files in, uint8 RGB frames out; a cut or damaged file gives one DataError that names it.

Decoding is OpenCV's, which ends at the first frame it cannot decode without a word; so frames are counted here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cv2
import numpy as np

from framework.errors import DataError

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v")


def read_video(path: str | os.PathLike[str], choose: Callable[[int], np.ndarray]) -> np.ndarray:
    """Some frames of a video file.

    Args:
        path: the file.
        choose: takes the number of frames in the file and returns the indices of those wanted, ascending; an index may
            stand there more than once.

    Returns:
        uint8 [T, H, W, 3] RGB, T the number of indices.

    Raises:
        DataError: it is missing, no video that OpenCV opens, or ends before the last frame wanted.
    """
    with _opened(path) as video:
        total = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        if total < 1:
            raise DataError(f"video {path}: holds no frames, or does not say how many; write it again as MP4")
        wanted = choose(total).tolist()
        frames = _decoded(video, wanted, path, total)
    return np.stack([frames[index] for index in wanted])


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[cv2.VideoCapture]:
    if not os.path.isfile(path):
        raise DataError(f"video {path}: there is no such file")
    _check_complete(path)
    video = cv2.VideoCapture(os.fspath(path))
    try:
        if not video.isOpened():
            raise DataError(
                f"video {path}: damaged, cut off, or no video that OpenCV reads ({os.path.getsize(path)} bytes); "
                f"known kinds are {' '.join(VIDEO_SUFFIXES)}"
            )
        yield video
    finally:
        video.release()


def _decoded(
    video: cv2.VideoCapture, wanted: list[int], path: str | os.PathLike[str], total: int
) -> dict[int, np.ndarray]:
    """The wanted frames by index. Goes through the file in order: seeking to a frame is not exact in all formats."""
    frames: dict[int, np.ndarray] = {}
    for index in range(max(wanted) + 1):
        if not video.grab():
            raise DataError(
                f"video {path}: ends after {index} of the {total} frames that it says it has; it is cut off or "
                "damaged, copy it again or take it out of the list"
            )
        if index in wanted:
            done, frame = video.retrieve()
            if not done:
                raise DataError(f"video {path}: frame {index} of {total} cannot be decoded; it is damaged")
            frames[index] = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
    return frames


def _check_complete(path: str | os.PathLike[str]) -> None:
    """Raises a DataError where an MP4 or QuickTime file ends within one of its boxes; other kinds are not looked at."""
    end, at = os.path.getsize(path), 0
    with open(path, "rb") as file:
        while at + 16 <= end:
            file.seek(at)
            size, kind, large = struct.unpack(">I4sQ", file.read(16))
            if not kind.isalnum() or (at == 0 and kind != b"ftyp"):
                return  # another kind of file, or bytes behind the last box
            at = end if size == 0 else at + (large if size == 1 else max(size, 8))
    if at > end:
        raise DataError(f"video {path}: cut off after {end} of {at} bytes; copy it again or take it out of the list")
