"""FrameFolders: videos that lie as folders of image files, listed as `path frames label`."""

from __future__ import annotations

import numpy as np

from framework.errors import DataError
from suites.engine.registry import register
from suites.engine.sources import Source, open_source
from suites.video.datasets.base import VideoDataset
from suites.video.sampling import Segments
from suites.vision.images import IMAGE_SUFFIXES, decode_image
from suites.vision.recognition.datasets import read_classes, read_labels, read_rows


@register("dataset")
class FrameFolders(VideoDataset):
    """Folders of frames, in the order of their names, listed in a file, a line each: `path frames label`.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        segments: which frames of a folder make its clip.
    """

    def __init__(
        self, root: str, annotations: str, classes: str | list[str] | None = None, segments: Segments | None = None
    ) -> None:
        source = open_source(root)
        rows = read_rows(source, annotations, 3)
        self.class_names = read_classes(source, classes, rows)
        self.labels = read_labels(source, annotations, rows, self.class_names)
        self.segments = segments or Segments()
        self._folders = tuple(row[0] for row in rows)
        self._root = source.root
        names = [_frames_of(source, annotations, row) for row in rows]
        self._starts = np.cumsum([0, *map(len, names)])
        self._files = source.table([name for folder in names for name in folder])
        self.say(f"FrameFolders {root} {annotations}")

    def read(self, index: int, rng: np.random.Generator | None) -> np.ndarray:
        """The chosen frames of folder `index`, uint8 [T, H, W, 3]."""
        first, end = self._starts[index : index + 2].tolist()
        chosen = self.segments.frames(end - first, rng).tolist()
        images = {i: self._decoded(first + i) for i in set(chosen)}
        sizes = sorted({image.shape[:2] for image in images.values()})
        if len(sizes) > 1:
            raise DataError(f"{self.name_of(index)}: its frames differ in size: {', '.join(map(str, sizes))}")
        return np.stack([images[i] for i in chosen])

    def name_of(self, index: int) -> str:
        """The folder."""
        return f"{self._root}/{self._folders[index]}"

    def _decoded(self, at: int) -> np.ndarray:
        return decode_image(self._files.read(at), self._files.full_name(at))


def _frames_of(source: Source, annotations: str, row: list[str]) -> list[str]:
    """Names of a folder's frames, sorted; a DataError where the list says another number."""
    folder, stated = row[0], int(row[1])
    found = [f"{folder}/{name}" for name in source.names(folder) if name.lower().endswith(IMAGE_SUFFIXES)]
    if len(found) != stated or not found:
        raise DataError(
            f"{source.root}/{annotations}: {folder} should have {stated} frames but {len(found)} images are there; "
            "copy the folder again, or correct the list"
        )
    return found
