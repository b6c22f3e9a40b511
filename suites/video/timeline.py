"""When the frames of a video are shown, and where decoding may begin: read from its packets, nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from framework.limits import check
from suites.vision.videos import OpenVideo, told


@dataclass(frozen=True)
class Timeline:
    """The frames of a video in the order in which they are shown.

    Attributes:
        stamps: int64 [T], when each is shown, ascending, in the stream's own unit.
        keys: bool [T], whether it can be decoded without those before it.
        length: duration of all in the same unit.
    """

    stamps: np.ndarray
    keys: np.ndarray
    length: float

    @classmethod
    def of(cls, video: OpenVideo) -> Timeline:
        """The timeline of a video, which is read through once; a DataError where it has no frames.

        A packet without a time of its own counts at the time at which it is decoded.
        """
        found: list[tuple[int, bool]] = []
        with told(video.name):
            for packet in video.container.demux(video.stream):
                stamp = packet.dts if packet.pts is None else packet.pts
                if packet.size and stamp is not None and not packet.is_discard:
                    found.append((stamp, packet.is_keyframe))
                    check("video_frames", len(found), f"video {video.name}: it has too many frames", DataError)
        if not found:
            raise DataError(f"video {video.name}: holds no frames; take it out of the list")
        stamps = np.array([stamp for stamp, _ in found], np.int64)
        order = np.argsort(stamps, kind="stable")
        steps = np.diff(stamps[order])
        last = float(np.median(steps)) if len(steps) else 1.0
        span = float(stamps.max() - stamps.min())
        return cls(stamps[order], np.array([key for _, key in found])[order], span + last)

    def __len__(self) -> int:
        return len(self.stamps)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.stamps.nbytes + self.keys.nbytes

    def shown_at(self, indices: np.ndarray) -> np.ndarray:
        """The frames that are shown in the middle of parts `indices` of the duration, which is cut into T parts.

        With a constant rate these are the frames `indices`; else the frames that a viewer sees at these times.
        """
        times = self.stamps[0] + (np.asarray(indices) + 0.5) * (self.length / len(self))
        return np.clip(np.searchsorted(self.stamps, times, side="right") - 1, 0, len(self) - 1)

    def runs(self, wanted: np.ndarray, worth: int) -> list[tuple[int, list[int]]]:
        """The wanted frames, ascending, in runs that are decoded in one go: (key frame to begin at, frames).

        A new run begins where decoding on would pass over `worth` frames or more before the next key frame.
        """
        keys = np.flatnonzero(self.keys)
        found: list[tuple[int, list[int]]] = []
        for frame in wanted.tolist():
            before = keys[: np.searchsorted(keys, frame, side="right")]
            start = int(before[-1]) if len(before) else 0
            if not found or start - found[-1][1][-1] > worth:
                found.append((start, []))
            found[-1][1].append(frame)
        return found

    def keys_of(self, frames: Sequence[int]) -> set[int]:
        """The last key frame before or at each of some frames, which it refers to."""
        keys = np.flatnonzero(self.keys)
        places = np.searchsorted(keys, np.array(frames, np.int64), side="right") - 1
        return {int(keys[place]) for place in places.tolist() if place >= 0}
