"""VideoFiles: videos in the usual formats, listed as `path label`, in a folder or a zip."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from suites.engine.data.files import Source
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.video.datasets.base import VideoDataset
from suites.video.reading import Choice, VideoReader
from suites.video.sampling import Segments
from suites.vision.files import listed_file, read_list
from suites.vision.pictures.damaged import find_damaged_videos
from suites.vision.recognition.datasets import path_and_numbers, read_classes, read_labels
from suites.vision.videos.reading import VideoSource


class VideoTable(VideoDataset):
    """Video files of a folder or zip, with their labels.

    Args:
        what: words for messages.
        source: where the files lie.
        names: of the files in it.
        labels: int64 [videos].
        classes: names of the classes.
        segments: which frames of a video make its clip.
        short_side: see `VideoFiles`.
        cache_mb: see `VideoFiles`.
    """

    def __init__(
        self,
        what: str,
        source: Source,
        names: Sequence[str],
        labels: np.ndarray,
        classes: Sequence[str],
        segments: Segments | None = None,
        short_side: int | None = None,
        cache_mb: int = 0,
    ) -> None:
        self.class_names, self.labels = tuple(classes), labels
        self.segments = segments or Segments()
        self._files = source.table(names)
        self.passed = source.passed
        self._zipped = not os.path.isdir(source.root)
        self._reader = VideoReader(short_side, cache_mb)
        self.say(what)
        self.damaged = find_damaged_videos(what, self._files)

    def frames(self, index: int, choose: Choice) -> np.ndarray:
        """The chosen frames of video `index`, uint8 [T, H, W, 3]."""
        return self._reader.read(index, lambda: self._source(index), choose, self.name_of(index))

    def name_of(self, index: int) -> str:
        """The video file."""
        return self._files.full_name(index)

    def _source(self, index: int) -> VideoSource:
        return self._files.read(index) if self._zipped else self._files.path(index)


@register("dataset")
class VideoFiles(VideoTable):
    """Video files listed in a file, a line each: `path label`.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        segments: which frames of a video make its clip.
        short_side: pixels that the short side of frames is scaled to when they are decoded; null for the videos' own
            sizes.
        cache_mb: how many MiB of decoded frames each worker keeps for the next time they are wanted; 0 keeps none.
        max_skipped: share of the lines that may be wrong or name a video that is not there; they are left out and
            logged. 0: the first one is an error.
    """

    def __init__(
        self,
        root: str,
        annotations: str,
        classes: str | list[str] | None = None,
        segments: Segments | None = None,
        short_side: int | None = None,
        cache_mb: int = 0,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)

        def read(line: str) -> list[str]:
            row = path_and_numbers(line, 2)
            return [listed_file(source, row[0], "video"), *row[1:]]

        self._skipped = Tally()
        rows = read_list(source, annotations, read, max_skipped, self._skipped)
        class_names = read_classes(source, classes, rows)
        labels = read_labels(source, annotations, rows, class_names)
        names = [row[0] for row in rows]
        what = f"VideoFiles {root} {annotations}"
        super().__init__(what, source, names, labels, class_names, segments, short_side, cache_mb)
