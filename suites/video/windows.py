"""A long video cut into windows of equal time, one after the other and one in memory: what `infer --window` labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.errors import ConfigError
from suites.video.sampling import Segments
from suites.vision.drawing import class_colour
from suites.vision.recognition.processor import put_classes
from suites.vision.videos.reading import OpenVideo, Painter

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_WRITTEN = 3  # classes written on a frame
_BAR = 0.04  # height of the bar of labels below a film, as a share of the frame's


@dataclass(frozen=True)
class Window:
    """A part of a video.

    Attributes:
        start, end: seconds from the video's first frame on.
        frames: those that its model looks at, uint8 [T, H, W, 3].
    """

    start: float
    end: float
    frames: np.ndarray


def windows(video: OpenVideo, seconds: float, segments: Segments) -> Iterator[Window]:
    """The windows of a video in order; the last one may be shorter, and is sampled as if its last frame stood still.

    Frames are chosen by their times as `segments` says. A stream that breaks ends there, with a warning.

    Raises:
        ConfigError: a window is shorter than a frame.
        DataError: the video cannot be read from its first frame on.
    """
    count = round(seconds * video.rate)
    if count < 1:
        raise ConfigError(f"infer: a window of {seconds:g} s is shorter than a frame of {video.name}")
    places = (segments.frames(count) + 0.5) * (seconds / count)
    times, order = np.unique(places, return_inverse=True)
    painter, taken, at, last = Painter(), list[np.ndarray](), 0, None
    for now in (_Shown(time, frame, painter, video.name) for time, frame in video.timed()):
        while last is not None and at * seconds + times[len(taken)] < now.seconds:
            taken.append(last.pixels)
            if len(taken) == len(times):
                yield Window(at * seconds, (at + 1) * seconds, np.stack([taken[i] for i in order]))
                taken, at = [], at + 1
        last = now
    assert last is not None  # else `timed` raises
    half = 0.5 / video.rate
    while at * seconds < last.seconds + half:
        taken += [last.pixels] * (len(times) - len(taken))
        yield Window(
            at * seconds, min((at + 1) * seconds, last.seconds + 2 * half), np.stack([taken[i] for i in order])
        )
        taken, at = [], at + 1


@dataclass
class _Shown:
    """A decoded frame from its time on; colours are computed when somebody looks."""

    seconds: float
    frame: VideoFrame
    painter: Painter
    name: str

    @cached_property
    def pixels(self) -> np.ndarray:
        return self.painter(self.frame, self.name)


def spans(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Windows in a row with the same best class as one: start, end, class, and the mean of its scores."""
    groups: list[list[Mapping[str, Any]]] = []
    for one in found:
        if groups and groups[-1][-1]["classes"][0]["class"] == one["classes"][0]["class"]:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [
        {
            "start": group[0]["start"],
            "end": group[-1]["end"],
            "class": group[0]["classes"][0]["class"],
            "score": round(float(np.mean([one["classes"][0]["score"] for one in group])), 5),
        }
        for group in groups
    ]


def labelled(
    pixels: np.ndarray, seconds: float, found: Sequence[Mapping[str, Any]], window: float, class_names: Sequence[str]
) -> np.ndarray:
    """A frame with the best classes of its window, above a bar of the whole video's labels with a mark at `seconds`."""
    canvas = pixels.copy()
    at = min(int(seconds / window), len(found) - 1)
    put_classes(canvas, found[at]["classes"][:_WRITTEN], class_names)
    height, width = canvas.shape[:2]
    top, total = height - max(4, round(height * _BAR)), found[-1]["end"]
    for span in spans(found):
        left, right = (round(width * span[side] / total) for side in ("start", "end"))
        canvas[top:, left:right] = class_colour(class_names.index(span["class"]))
    mark = min(round(width * seconds / total), width - 2)
    canvas[top:, max(mark, 0) : mark + 2] = 255
    return canvas
