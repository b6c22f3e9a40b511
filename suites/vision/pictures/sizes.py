"""Sizes of the pictures of a set, by their headers where these tell, and batches of pictures of one size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import FileTable
from suites.vision.pictures.glances import may_turn, shown_size
from suites.vision.pictures.headers import image_size

_END = 1 << 16  # bytes of each end, in which most headers and tags lie


def picture_sizes(files: FileTable) -> np.ndarray:
    """(H, W) of each picture as it is decoded, int64 [S, 2]; (0, 0) of one that cannot be."""
    return np.array([picture_size(files, at) for at in range(len(files))], np.int64).reshape(-1, 2)


def picture_size(files: FileTable, at: int) -> tuple[int, int]:
    """(H, W) of picture `at` as it is decoded; (0, 0) of one that cannot be."""
    try:
        ends = files.ends(at, _END, _END)
        found = None if ends is None or may_turn(ends[1] + ends[2]) else image_size(ends[1])
        return found or shown_size(files.read(at), files.full_name(at))
    except DataError:
        return 0, 0  # told when it is read


class EqualSizes:
    """Batches of neighbouring samples of one size, in order, so that nothing of a batch is padding.

    Args:
        sizes: int [S, 2] of each sample.
        batch_size: samples a batch at most.
    """

    def __init__(self, sizes: np.ndarray, batch_size: int) -> None:
        changes = np.flatnonzero((sizes[1:] != sizes[:-1]).any(axis=1)) + 1
        runs = pairwise([0, *changes.tolist(), len(sizes)])
        starts = [at for first, end in runs for at in range(first, end, batch_size)]
        self._batches = [np.arange(first, end) for first, end in pairwise([*starts, len(sizes)])]

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """The samples of one batch, int64."""
        return self._batches[batch]
