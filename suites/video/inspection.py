"""What is wrong with a set of clips: videos that cannot be read, are too short or stand there twice, rare classes.

Of each video the number of frames and 17 frames from its begin to its end are read. So a fault in between may stay
unseen, and is met in training, where it is skipped and counted. Copies are found by these frames: also under other
names, in other containers and as folders of the same frames; not where they were encoded, cut or scaled anew, nor
between sets with another `short_side`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.contract.inspection import Finding, Inspector
from suites.engine.registry import register
from suites.video.datasets.base import VideoDataset
from suites.video.drawing import strip
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.inspection import RecognitionInspector, Seen
from suites.vision.recognition.processor import put_classes

_PARTS = 16  # of a video, whose first frames are looked at, and the last frame of all


@register("inspector", "video")
class VideoInspector(RecognitionInspector):
    """Reads something of every video, or all of every sequence of features."""

    noun: ClassVar[str] = "clips"
    glance = Inspector.glance  # frames are decoded in any case, though few of them

    def look(self, dataset: RecognitionDataset, at: int) -> Seen:
        """The digest of some frames, or of all features, and how many there are; frames are decoded in any case."""
        if not isinstance(dataset, VideoDataset):
            sample = dataset.load(at)
            rows = sample.features  # type: ignore[attr-defined]
            content = b"".join(name.encode() + rows[name].tobytes() for name in sorted(rows))
            labels = tuple(dataset.class_names[k] for k in sample.labels.tolist())
            return Seen(hashlib.sha256(content).hexdigest(), labels, len(next(iter(rows.values()))))
        length = 0

        def spread(total: int) -> np.ndarray:
            nonlocal length
            length = total
            return np.unique(np.append(np.arange(_PARTS) * total // _PARTS, total - 1))

        frames = dataset.frames(at, spread)
        head = f"{length} {frames.shape}".encode()
        name = dataset.class_names[int(dataset.labels[at])]
        digest = hashlib.sha256(head + frames.tobytes()).hexdigest()
        return Seen(digest, (name,), length, (frames.shape[1], frames.shape[2]))

    def more(self, dataset: Any, seen: Sequence[Seen | None], names: Sequence[str]) -> list[Finding]:
        """Videos that are too short, and folders with holes."""
        return _short(dataset, seen, names) + _holes(dataset, names) if isinstance(dataset, VideoDataset) else []

    def picture(self, sample: Any, class_names: Sequence[str]) -> np.ndarray:
        """A strip of the clip's frames with its classes."""
        canvas = strip(sample.frames)
        put_classes(canvas, [{"class": class_names[k]} for k in sample.labels.tolist()], class_names)
        return canvas


def _short(dataset: VideoDataset, seen: Sequence[Seen | None], names: Sequence[str]) -> list[Finding]:
    least = dataset.segments.least
    short = [(at, one.length) for at, one in enumerate(seen) if one and one.length < least]
    if not short:
        return []
    places = tuple(f"{names[at]}: {length} frames" for at, length in short)
    text = f"{len(short)} clips have fewer than the {least} frames that `segments` takes, so some are seen twice"
    return [Finding("warning", text, places, tuple(at for at, _ in short), "take fewer, or leave such clips out")]


def _holes(dataset: VideoDataset, names: Sequence[str]) -> list[Finding]:
    gaps = [(at, dataset.holes(at)) for at in range(len(dataset))]
    holed = [(at, missing) for at, missing in gaps if missing]
    if not holed:
        return []
    places = tuple(f"{names[at]}: {missing} missing" for at, missing in holed)
    text = f"{len(holed)} folders have holes in the numbers of their frames, so time jumps there"
    return [Finding("warning", text, places, tuple(at for at, _ in holed), "copy the folders again")]
