"""The clips of a folder or zip, whether video files or folders of frames, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import in_order
from suites.engine.data.sources import open_source
from suites.video.features.sound import BANDS, Kind, heard, rows_at
from suites.video.reading import read_video
from suites.vision.files import is_image, read_list
from suites.vision.pictures.images import decode_image
from suites.vision.recognition.datasets import is_number
from suites.vision.videos.reading import VIDEO_SUFFIXES, VideoSource


def evenly(total: int, count: int) -> np.ndarray:
    """Up to `count` of `total` frames, each the middle of an equal part; int64, ascending."""
    count = min(total, count)
    return ((np.arange(count) + 0.5) * total / count).astype(np.int64)


def path_of_clip(line: str) -> list[str]:
    """Path and label of a line of a list, `path label` or `path frames label`; DataError for any other line."""
    *path, label = line.rsplit(None, 1)
    if not path or not is_number(label):
        raise DataError(f"expects 'path label', found {line!r}")
    before, _, frames = path[0].rpartition(" ")
    return [before.strip() if before and is_number(frames) else path[0], label]


def read_clip_list(source: Source, name: str) -> list[list[str]]:
    """Path and label of each line of a list; a DataError names file and line of one that is wrong."""
    return read_list(source, name, path_of_clip)


class Clips:
    """Video files, and folders that hold images, below a root.

    Args:
        root: folder, zip or folder inside a zip.
        lists: files under the root whose lines begin with a clip's path; only these are taken.

    Attributes:
        names: paths below the root, in the order of their numbers, or in the lists' order.

    Raises:
        DataError: there are none, or one of a list is not there.
    """

    def __init__(self, root: str | Path, lists: Sequence[str] | None = None) -> None:
        self._source: Source = open_source(str(root))
        if lists:
            self.names = list(dict.fromkeys(path for name in lists for path, _ in read_clip_list(self._source, name)))
        else:
            self.names = in_order(self._found(""))
        if not self.names:
            raise DataError(
                f"features: no videos ({' '.join(VIDEO_SUFFIXES)}) and no folders of images below {self._source.root}"
            )

    def _found(self, folder: str) -> Iterator[str]:
        names = [f"{folder}/{name}" if folder else name for name in self._source.names(folder)]
        yield from (name for name in names if name.lower().endswith(VIDEO_SUFFIXES))
        if folder and any(map(is_image, names)):
            yield folder
        for below in self._source.folders(folder):
            yield from self._found(f"{folder}/{below}" if folder else below)

    def frames(self, name: str, count: int) -> np.ndarray:
        """Up to `count` frames of a clip, evenly spread, uint8 [T, H, W, 3] RGB; a DataError names what is wrong."""
        if not name.lower().endswith(VIDEO_SUFFIXES):
            return self._images(name, count)
        return read_video(self._video(name), lambda total: evenly(total, count), name=self._shown(name))

    def sound(self, name: str, count: int, kind: Kind) -> tuple[np.ndarray, bool]:
        """What is heard around the frames that `frames` gives, float32 [T, columns], and whether the clip has sound.

        A folder of images has none.
        """
        if not name.lower().endswith(VIDEO_SUFFIXES):
            frames = len(evenly(len(self._files_in(name)), count))
            return rows_at(np.zeros((0, BANDS), np.float32), np.zeros(frames), kind), False
        return heard(self._video(name), lambda total: evenly(total, count), kind, self._shown(name))

    def _shown(self, name: str) -> str:
        return f"{self._source.root}/{name}"

    def _video(self, name: str) -> VideoSource:
        """The file, or its content out of a zip."""
        if not self._source.exists(name):
            raise DataError(f"{self._shown(name)}: there is no such clip")
        plain = Path(self._source.root) / name
        return plain if plain.is_file() else self._source.read(name)

    def _files_in(self, folder: str) -> list[str]:
        return [name for name in self._source.names(folder) if is_image(name)]

    def _images(self, folder: str, count: int) -> np.ndarray:
        files = self._files_in(folder)
        if not files:
            raise DataError(f"{self._source.root}/{folder}: there is no such clip: no video and no folder of images")
        chosen = [f"{folder}/{files[i]}" for i in evenly(len(files), count)]
        images = [decode_image(self._source.read(name), f"{self._source.root}/{name}") for name in chosen]
        if len({image.shape for image in images}) > 1:
            raise DataError(f"{self._source.root}/{folder}: its frames differ in size")
        return np.stack(images)
