"""ClipFolder: a folder for each class, with video files or with folders of frames, in parts or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from framework.errors import DataError
from suites.engine.contract.recognising import Recognised, class_folders, classes_in, recogniser
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import EVERY, Part, copies_of, copies_of_groups, divided, expect_samples
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.video.datasets.base import VideoDataset
from suites.video.datasets.frames import FrameTable
from suites.video.datasets.videos import VideoTable
from suites.video.sampling import Segments
from suites.vision.files import BESIDE
from suites.vision.pictures.images import IMAGE_SUFFIXES
from suites.vision.videos.reading import VIDEO_SUFFIXES


@register("dataset")
def ClipFolder(
    root: str,
    part: Part = "train",
    classes: Sequence[str] | None = None,
    segments: Segments | None = None,
    short_side: int | None = None,
    cache_mb: int = 0,
) -> VideoDataset:
    """A folder or zip with a folder for each class, which holds video files, or a folder of frames for each clip.

    Args:
        root: the folder that holds all, or a zip of it. It may have folders train and val that hold the classes.
        part: "train" or "val". Without folders of parts every fifth clip of a class is "val"; copies stay together.
        classes: names in label order; null for the names of the folders.
        segments: which frames of a clip are taken.
        short_side: pixels that the short side of a video's frames is scaled to when they are decoded; null for its own.
        cache_mb: how many MiB of decoded frames each worker keeps for the next time they are wanted; 0 keeps none.

    Raises:
        DataError: there are no folders of clips, or the clips are videos and folders of frames.
    """
    source = open_set(root)
    folder, names, whole = class_folders(source, part, classes)
    videos = {name: _videos(source, f"{folder}/{name}".lstrip("/")) for name in names}
    if any(videos.values()):
        chosen = {n: _of_part(part, each, copies_of(source, each)) if whole else each for n, each in videos.items()}
        files = [name for each in chosen.values() for name in each]
        expect_samples(len(files), part, EVERY, f"ClipFolder {root}")
        return VideoTable(f"ClipFolder {root}", source, files, _labels(chosen), names, segments, short_side, cache_mb)
    clips = {name: _clips(source, f"{folder}/{name}".lstrip("/")) for name in names}
    if not any(clips.values()):
        raise DataError(
            f"ClipFolder {root}: no clips; expected a folder for each class, with video files "
            f"({' '.join(VIDEO_SUFFIXES)}) or a folder of frames for each clip, found the folders: "
            f"{', '.join(names[:8]) or 'none'}"
        )
    if whole:
        for name, each in clips.items():
            kept = set(_of_part(part, list(each), copies_of_groups(source, list(each.values()))))
            clips[name] = {clip: frames for clip, frames in each.items() if clip in kept}
        expect_samples(sum(map(len, clips.values())), part, EVERY, f"ClipFolder {root}")
    folders = [(clip, frames) for each in clips.values() for clip, frames in each.items()]
    return FrameTable(f"ClipFolder {root}", source, folders, _labels(clips), names, segments, cache_mb)


@register("recogniser", "video")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip with a folder of clips for each class is, and the command that trains on it."""
    source, names, said = classes_in(path)
    videos = [count for name in names if (count := len(source.having(name, VIDEO_SUFFIXES)))]
    clips = [] if videos else [found for name in names if (found := _clips(source, name))]
    if len(videos or clips) < 2 or (clips and not _are_frames(frames for each in clips for frames in each.values())):
        return None
    kind = "videos" if videos else "folders of frames"
    count = sum(videos) or sum(map(len, clips))
    what = f"{count} {kind} in {len(videos or clips)} folders, one for each class, {said}"
    return Recognised(what, "video/clips", (f"data.root={path}",), 70)


def _videos(source: Source, folder: str) -> list[str]:
    """The video files of a class."""
    found = [f"{folder}/{name}" for name in source.having(folder, VIDEO_SUFFIXES)]
    if found:
        source.files(folder, VIDEO_SUFFIXES, BESIDE)  # notes the others
    return found


def _clips(source: Source, folder: str) -> dict[str, list[str]]:
    """The frames of each folder of frames of a class, by the folder; pictures beside those folders are noted."""
    found: dict[str, list[str]] = {}
    for name in source.files(folder, IMAGE_SUFFIXES, BESIDE):
        found.setdefault(name.rpartition("/")[0], []).append(f"{folder}/{name}")
    if alone := found.pop("", []):
        source.passed.note("pictures that lie in no folder of frames", *alone)
    return {f"{folder}/{clip}": frames for clip, frames in found.items()}


def _are_frames(clips: Iterable[Sequence[str]]) -> bool:
    """Whether most folders look like frames of a video: numbered without holes."""
    numbers = [[int(found[-1]) for name in names if (found := re.findall(r"\d+", _last(name)))] for names in clips]
    whole = [len(each) > 1 and max(each) - min(each) == len(each) - 1 for each in numbers]
    return bool(whole) and sum(whole) > 0.8 * len(whole)


def _last(name: str) -> str:
    return PurePosixPath(name).stem


def _of_part(part: Part, names: Sequence[str], copies: Sequence[object]) -> list[str]:
    return divided(names, part, EVERY, "ClipFolder", copies)


def _labels(clips: Mapping[str, Sequence[object] | Mapping[str, object]]) -> np.ndarray:
    return np.repeat(np.arange(len(clips)), [len(each) for each in clips.values()])
