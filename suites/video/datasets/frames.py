"""FrameFolders: videos that lie as folders of image files, listed as `path frames label`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import as_written
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.video.cache import FrameCache
from suites.video.datasets.base import VideoDataset
from suites.video.reading import Choice, stacked
from suites.video.sampling import Segments
from suites.vision.files import is_image, read_list
from suites.vision.pictures.damaged import find_damaged
from suites.vision.pictures.images import decode_image
from suites.vision.recognition.datasets import path_and_numbers, read_classes, read_labels


class FrameTable(VideoDataset):
    """Folders of frames of a folder or zip, with their labels.

    Args:
        what: words for messages.
        source: where the folders lie.
        folders: the frames of each folder, in order, by its name.
        labels: int64 [folders].
        classes: names of the classes.
        segments: which frames of a folder make its clip.
        cache_mb: see `FrameFolders`.
    """

    def __init__(
        self,
        what: str,
        source: Source,
        folders: Sequence[tuple[str, Sequence[str]]],
        labels: np.ndarray,
        classes: Sequence[str],
        segments: Segments | None = None,
        cache_mb: int = 0,
    ) -> None:
        self.class_names, self.labels = tuple(classes), labels
        self.segments = segments or Segments()
        self._folders = tuple(name for name, _ in folders)
        self._root = source.root
        self._starts = np.cumsum([0, *(len(frames) for _, frames in folders)])
        self._files = source.table([name for _, frames in folders for name in frames])
        self._cache = FrameCache(cache_mb)
        self.passed = source.passed
        self.say(what)
        find_damaged(what, self._files)  # told only: a clip need not take the frame

    def frames(self, index: int, choose: Choice) -> np.ndarray:
        """The chosen frames of folder `index`, uint8 [T, H, W, 3]."""
        first, end = self._starts[index : index + 2].tolist()
        chosen = choose(end - first).tolist()
        images = self._cache.frames(index, chosen)
        decoded = {i: self._decoded(first + i) for i in set(chosen) - images.keys()}
        self._cache.keep(index, decoded)
        return stacked({**images, **decoded}, chosen, self.name_of(index))

    def holes(self, index: int) -> int:
        """Numbers that are missing between the first and the last of the names in folder `index`."""
        first, end = self._starts[index : index + 2].tolist()
        numbers = [re.findall(r"\d+", PurePosixPath(self._files.name(i)).stem)[-1:] for i in range(first, end)]
        found = {int(one[0]) for one in numbers if one}
        return max(found) - min(found) + 1 - len(found) if len(found) == end - first else 0

    def name_of(self, index: int) -> str:
        """The folder."""
        return f"{self._root}/{self._folders[index]}"

    def _decoded(self, at: int) -> np.ndarray:
        return decode_image(self._files.read(at), self._files.full_name(at))


@register("dataset")
class FrameFolders(FrameTable):
    """Folders of frames, in the order of their numbers, listed in a file, a line each: `path frames label`.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        segments: which frames of a folder make its clip.
        cache_mb: how many MiB of decoded frames each worker keeps for the next time they are wanted; 0 keeps none.
        max_skipped: share of the lines that may be wrong or name a folder without its frames; they are left out and
            logged. 0: the first one is an error.
    """

    def __init__(
        self,
        root: str,
        annotations: str,
        classes: str | list[str] | None = None,
        segments: Segments | None = None,
        cache_mb: int = 0,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)

        def read(line: str) -> tuple[list[str], list[str]]:
            row = path_and_numbers(line, 3)
            return row, _frames_of(source, row)

        self._skipped = Tally()
        found = read_list(source, annotations, read, max_skipped, self._skipped)
        rows = [row for row, _ in found]
        class_names = read_classes(source, classes, rows)
        labels = read_labels(source, annotations, rows, class_names)
        folders = [(row[0], frames) for row, frames in found]
        what = f"FrameFolders {root} {annotations}"
        super().__init__(what, source, folders, labels, class_names, segments, cache_mb)


def _frames_of(source: Source, row: list[str]) -> list[str]:
    """Names of a folder's frames, in order; a DataError where the list says another number."""
    folder, stated = as_written(row[0]), int(row[1])
    found = [f"{folder}/{name}" for name in source.names(folder) if is_image(name)]
    if len(found) != stated or not found:
        raise DataError(
            f"{folder} should have {stated} frames but {len(found)} images are there; "
            "copy the folder again, or correct the list"
        )
    return found
