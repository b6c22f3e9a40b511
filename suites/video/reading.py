"""Video files in, uint8 RGB frames out; a cut or damaged file gives one DataError that names it.

Decoding is OpenCV's, which ends at the first frame it cannot decode without a word; so frames are counted here.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import cv2
import numpy as np

from framework.errors import DataError
from suites.vision.videos import VIDEO_SUFFIXES, opened_video


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
    with opened_video(path) as video:
        total = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        if total < 1:
            raise DataError(f"video {path}: holds no frames, or does not say how many; write it again as MP4")
        wanted = choose(total).tolist()
        frames = _decoded(video, wanted, path, total)
    return np.stack([frames[index] for index in wanted])


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


__all__ = ["VIDEO_SUFFIXES", "read_video"]
