"""Video files frame by frame; a cut or damaged file gives one DataError that names it.

Decoding is OpenCV's, which ends at the first frame it cannot decode without a word; so files are checked here.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import cv2
import numpy as np

from framework.errors import DataError

_log = logging.getLogger(__name__)

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v")


def frames_of(path: str | os.PathLike[str]) -> Iterator[np.ndarray]:
    """All frames of a video file in order, uint8 RGB [H, W, 3], one in memory at a time.

    A warning tells where fewer are decoded than the header announces.

    Raises:
        DataError: it is missing, no video that OpenCV opens, or has no frame.
    """
    with opened_video(path) as video:
        announced, count = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), 0
        while True:
            done, frame = video.read()
            if not done:
                break
            count += 1
            yield cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
    if not count:
        raise DataError(f"video {path}: holds no frame that OpenCV decodes")
    if count < announced:
        _log.warning("video %s: ends after %d of the %d frames that its header announces", path, count, announced)


@contextmanager
def opened_video(path: str | os.PathLike[str]) -> Iterator[cv2.VideoCapture]:
    """A video file while it is read; a DataError for one that is missing, cut off or no video that OpenCV opens."""
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
