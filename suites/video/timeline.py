"""When the frames of a video are shown, and where decoding may begin: read from its packets, nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from framework.limits import check
from suites.vision.videos.reading import OpenVideo, told


@dataclass(frozen=True)
class Timeline:
    """The frames of a video in the order in which they are shown.

    Attributes:
        stamps: int64 [T], when each is shown, ascending, in the stream's own unit.
        keys: bool [T], whether it can be decoded without those before it.
        length: duration of all in the same unit.
        counted: whether stamps are numbers of frames in the order of decoding, as the file's own lack, repeat or jump.
    """

    stamps: np.ndarray
    keys: np.ndarray
    length: float
    counted: bool = False

    @classmethod
    def of(cls, video: OpenVideo) -> Timeline:
        """The timeline of a video, which is read through once; a DataError where it has no frames.

        A packet without a time of its own counts at the time at which it is decoded. Frames before the first key frame
        are left out, and how many is said. Where times lack, repeat or jump back, all is decoded once and counted.
        """
        found: list[tuple[int | None, bool]] = []
        late, rising = -(1 << 63), True  # the last time of decoding, and whether these rise
        with told(video.name):
            for packet in video.container.demux(video.stream):
                if packet.size and not packet.is_discard:
                    stamp = packet.dts if packet.pts is None else packet.pts
                    rising &= packet.dts is None or packet.dts > late
                    late = late if packet.dts is None else packet.dts
                    found.append((stamp, packet.is_keyframe))
                    check("video_frames", len(found), f"video {video.name}: it has too many frames", DataError)
        if not found:
            raise DataError(f"video {video.name}: holds no frames; take it out of the list")
        whole = found
        found = _from_key(whole)
        video.say_lost(len(whole) - len(found))
        known = {stamp for stamp, _ in whole if stamp is not None}
        if not rising or len(known) < len(whole) or not any(key for _, key in whole):
            return cls._counted(video)
        stamps = np.array([stamp for stamp, _ in found], np.int64)
        order = np.argsort(stamps, kind="stable")
        steps = np.diff(stamps[order])
        last = float(np.median(steps)) if len(steps) else 1.0
        span = float(stamps.max() - stamps.min())
        return cls(stamps[order], np.array([key for _, key in found])[order], span + last)

    @classmethod
    def _counted(cls, video: OpenVideo) -> Timeline:
        video.rewind()
        count = 0
        for _ in video.decoded():
            count += 1
            check("video_frames", count, f"video {video.name}: it has too many frames", DataError)
        if not count:
            raise DataError(f"video {video.name}: holds no frames that can be decoded; take it out of the list")
        return cls(np.arange(count), np.arange(count) == 0, float(count), counted=True)

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


def _from_key(found: list[tuple[int | None, bool]]) -> list[tuple[int | None, bool]]:
    """What can be decoded of (stamp, key), which come in the order of decoding; all of them where there is no key.

    That is from the first key on, and shown no earlier than it.
    """
    first = next((place for place, (_, key) in enumerate(found) if key), None)
    if first is None:
        return found
    shown = found[first][0]
    return [(stamp, key) for stamp, key in found[first:] if stamp is None or shown is None or stamp >= shown]
