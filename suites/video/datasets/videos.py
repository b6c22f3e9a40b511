"""VideoFiles: videos in the usual formats, listed as `path label`, in a folder or a zip."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from framework.atomic import atomic_file
from framework.errors import DataError
from suites.engine.registry import register
from suites.engine.sources import open_source
from suites.video.datasets.base import VideoDataset
from suites.video.reading import read_video
from suites.video.sampling import Segments
from suites.vision.recognition.datasets import read_classes, read_labels, read_rows


@register("dataset")
class VideoFiles(VideoDataset):
    """Video files listed in a file, a line each: `path label`.

    OpenCV decodes files, not bytes: a video of a zip is unpacked to the cache when it is first read, and stays there.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        segments: which frames of a video make its clip.
        cache: folder that videos of a zip are unpacked to.
    """

    def __init__(
        self,
        root: str,
        annotations: str,
        classes: str | list[str] | None = None,
        segments: Segments | None = None,
        cache: str = "cache/video",
    ) -> None:
        source = open_source(root)
        rows = read_rows(source, annotations, 2)
        self.class_names = read_classes(source, classes, rows)
        self.labels = read_labels(source, annotations, rows, self.class_names)
        self.segments = segments or Segments()
        names = [row[0] for row in rows]
        missing = [name for name in names if not source.exists(name)]
        if missing:
            raise DataError(
                f"{source.root}/{annotations}: {len(missing)} of {len(rows)} videos are missing, "
                f"the first is {missing[0]}"
            )
        self._files = source.table(names)
        self._zipped = not os.path.isdir(source.root)
        self._cache = Path(cache)
        self.say(f"VideoFiles {root} {annotations}")

    def read(self, index: int, rng: np.random.Generator | None) -> np.ndarray:
        """The chosen frames of video `index`, uint8 [T, H, W, 3]."""
        path = self._unpacked(index) if self._zipped else self.name_of(index)
        return read_video(path, lambda total: self.segments.frames(total, rng))

    def name_of(self, index: int) -> str:
        """The video file."""
        return self._files.full_name(index)

    def _unpacked(self, index: int) -> Path:
        """Where video `index` of a zip lies in the cache; its name there depends on its content."""
        data = self._files.read(index)
        name = Path(self._files.name(index))
        path = self._cache / f"{name.stem}_{hashlib.sha256(data).hexdigest()[:16]}{name.suffix}"
        if not path.is_file():
            with atomic_file(path) as part:
                part.write_bytes(data)
        return path
