"""What is wrong with a set of clips: videos that cannot be read, are too short or stand there twice, rare classes.

Of each video the number of frames and 17 frames from its begin to its end are read. So a fault in between may stay
unseen, and is met in training, where it is skipped and counted. Copies are found by these frames: also under other
names, in other containers and as folders of the same frames; not where they were encoded, cut or scaled anew, nor
between sets with another `short_side`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Finding, Inspected, copies_within
from suites.engine.registry import register
from suites.video.datasets.base import VideoDataset
from suites.video.drawing import strip
from suites.vision.inspection import VisualInspector, left_out_findings
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.processor import put_classes

_PARTS = 16  # of a video, whose first frames are looked at, and the last frame of all
_RARE = 10  # clips of a class below which its figures are chance


@dataclass(frozen=True)
class _Seen:
    """What was seen of a sample: its content's digest, its frames or rows, and (H, W), (0, 0) of sequences."""

    digest: str
    length: int
    size: tuple[int, int] = (0, 0)


@register("inspector", "video")
class VideoInspector(VisualInspector):
    """Reads something of every video, or all of every sequence of features."""

    def inspect(self, dataset: RecognitionDataset) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        seen: list[_Seen | None] = []
        broken = []
        for at in range(len(dataset)):
            try:
                seen.append(_look(dataset, at))
            except (DataError, OSError) as error:
                seen.append(None)
                broken.append((at, str(error)))
        digests = [one.digest if one else "" for one in seen]
        findings = left_out_findings(dataset)
        if broken:
            places, indices = tuple(text for _, text in broken), tuple(at for at, _ in broken)
            advice = "mend them or take them out; training skips and counts them, up to runtime.data.max_skipped"
            findings.append(Finding("error", f"{len(broken)} clips cannot be read", places, indices, advice))
        findings += copies_within(names, digests)
        if isinstance(dataset, VideoDataset):
            findings += _short(dataset, seen, names) + _holes(dataset, names)
        return Inspected(_summary(dataset, seen), [*findings, *_class_findings(dataset)], digests, names)

    def picture(self, sample: Any, class_names: Sequence[str]) -> np.ndarray:
        """A strip of the clip's frames with its classes."""
        canvas = strip(sample.frames)
        put_classes(canvas, [{"class": class_names[k]} for k in sample.labels.tolist()], class_names)
        return canvas


def _look(dataset: RecognitionDataset, at: int) -> _Seen:
    if not isinstance(dataset, VideoDataset):
        rows = dataset.load(at).features  # type: ignore[attr-defined]
        content = b"".join(name.encode() + rows[name].tobytes() for name in sorted(rows))
        return _Seen(hashlib.sha256(content).hexdigest(), len(next(iter(rows.values()))))
    length = 0

    def spread(total: int) -> np.ndarray:
        nonlocal length
        length = total
        return np.unique(np.append(np.arange(_PARTS) * total // _PARTS, total - 1))

    frames = dataset.frames(at, spread)
    head = f"{length} {frames.shape}".encode()
    return _Seen(hashlib.sha256(head + frames.tobytes()).hexdigest(), length, frames.shape[1:3])


def _summary(dataset: RecognitionDataset, seen: Sequence[_Seen | None]) -> list[str]:
    lines = [f"{len(dataset)} clips"]
    lengths = [one.length for one in seen if one]
    heights, widths = ([one.size[axis] for one in seen if one and one.size[0]] for axis in (0, 1))
    if lengths:
        lines.append(f"frames: {min(lengths)} to {max(lengths)}, median {np.median(lengths):.0f}")
    if heights:
        lines.append(f"pixels: {min(widths)} to {max(widths)} wide, {min(heights)} to {max(heights)} high")
    width = max(map(len, dataset.class_names))
    counts = zip(dataset.class_names, dataset.class_counts(), strict=True)
    return [*lines, *(f"  {name:<{width}} {count:>7}" for name, count in counts)]


def _short(dataset: VideoDataset, seen: Sequence[_Seen | None], names: Sequence[str]) -> list[Finding]:
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


def _class_findings(dataset: RecognitionDataset) -> list[Finding]:
    counts = list(zip(dataset.class_names, dataset.class_counts().tolist(), strict=True))
    absent = [name for name, count in counts if not count]
    rare = [f"{name}: {count}" for name, count in counts if 0 < count < _RARE]
    findings = []
    if absent:
        text = f"{len(absent)} of {len(counts)} classes have no clip: {', '.join(absent[:10])}"
        findings.append(Finding("warning", text, advice="they cannot be learnt or measured here; correct `classes`"))
    if rare:
        findings.append(Finding("warning", f"{len(rare)} classes have fewer than {_RARE} clips", tuple(rare)))
    return findings
