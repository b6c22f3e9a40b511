"""Some frames of a video file: only what they need is decoded.

A file is read through once for the times of its frames. Then decoding begins at the key frame before the first that is
wanted, passes over frames that no other refers to, and goes on at a later key frame where that saves work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from framework.errors import AttributeValueError, DataError
from framework.limits import check
from suites.video.cache import FrameCache
from suites.video.timeline import Timeline
from suites.vision.videos.reading import OpenVideo, Painter, VideoSource, opened_video, stamp_of, told

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame

_WORTH = 8  # frames from which on seeking to the next key frame is cheaper than decoding up to it
Choice = Callable[[int], np.ndarray]  # number of frames -> indices of those wanted


def read_video(
    source: VideoSource, choose: Choice, *, name: str | None = None, short_side: int | None = None
) -> np.ndarray:
    """Some frames of a video file.

    Args:
        source: the file, or its content.
        choose: takes the number of frames in the file and returns the indices of those wanted; an index may stand
            there more than once. Where the rate varies, index i of n means the i-th of n equal parts of time.
        name: of the file, for messages; by default its path.
        short_side: pixels that the short side is scaled to; None for the video's own size.

    Returns:
        uint8 [T, H, W, 3] RGB, T the number of indices, upright.

    Raises:
        DataError: it is missing, no video that FFmpeg reads, has no frames, or a wanted one cannot be decoded.
    """
    shown = name or ("of some bytes" if isinstance(source, bytes) else str(source))
    return VideoReader(short_side).read(0, lambda: source, choose, shown)


class VideoReader:
    """Reads some frames of videos, and keeps what it read as far as its cache goes.

    Args:
        short_side: pixels that the short side of frames is scaled to; None for the videos' own sizes.
        cache_mb: budget of what one process keeps, in units of 2^20 bytes.
    """

    def __init__(self, short_side: int | None = None, cache_mb: int = 0) -> None:
        if short_side is not None and short_side < 1:
            raise AttributeValueError(f"short_side is {short_side}; it must be 1 or more")
        self._short_side = short_side
        self.cache = FrameCache(cache_mb)

    def read(self, video: int, source: Callable[[], VideoSource], choose: Choice, name: str) -> np.ndarray:
        """The chosen frames of a video, see `read_video`.

        Args:
            video: its number, under which frames are kept.
            source: gives the file, or its content; not called where all wanted frames are kept.
            choose: see `read_video`.
            name: of the file, for messages.
        """
        timeline = self.cache.timeline(video)
        if timeline is not None:
            wanted = timeline.shown_at(choose(len(timeline)))
            frames = self.cache.frames(video, wanted.tolist())
            if len(frames) == len(set(wanted.tolist())):
                return stacked(frames, wanted.tolist(), name)
        with opened_video(source(), name) as opened:
            if timeline is None:
                timeline = Timeline.of(opened)
                wanted = timeline.shown_at(choose(len(timeline)))
                frames = self.cache.frames(video, wanted.tolist())
            missing = np.array(sorted(set(wanted.tolist()) - frames.keys()), np.int64)
            decoded = decode(opened, timeline, missing, self._short_side)
        self.cache.keep(video, decoded, timeline)
        return stacked({**frames, **decoded}, wanted.tolist(), name)


def stacked(frames: Mapping[int, np.ndarray], wanted: Sequence[int], name: str) -> np.ndarray:
    """The wanted frames as one array; a DataError where they differ in size."""
    chosen = [frames[i] for i in wanted]
    sizes = sorted({frame.shape[:2] for frame in chosen})
    if len(sizes) > 1:
        raise DataError(f"{name}: its frames differ in size: {', '.join(map(str, sizes))}")
    return np.stack(chosen)


def decode(
    video: OpenVideo, timeline: Timeline, wanted: np.ndarray, short_side: int | None = None
) -> dict[int, np.ndarray]:
    """Frames `wanted` of a timeline, ascending, by number: uint8 RGB [H, W, 3]."""
    stream = video.stream.codec_context
    size = 3 * stream.height * stream.width * len(wanted)
    check("clip_bytes", size, f"video {video.name}: its wanted frames have too many bytes", DataError)
    painter, found = Painter(short_side), dict[int, np.ndarray]()
    chosen = set(wanted.tolist())
    needed = chosen if _without_times(video, timeline) else chosen | timeline.keys_of(wanted.tolist())
    came = set()
    for i, frame in _decoded(video, timeline, wanted):
        came.add(i)
        if i in chosen:
            found[i] = painter(frame, video.name)
    missing = sorted(needed - came)
    if missing:
        seconds = float((timeline.stamps[missing[0]] - timeline.stamps[0]) * video.stream.time_base)
        raise DataError(
            f"video {video.name}: frame {missing[0]} of {len(timeline)} (at {seconds:.2f} s) cannot be decoded; it is "
            "damaged, copy it again or take it out of the list"
        )
    return found


def _without_times(video: OpenVideo, timeline: Timeline) -> bool:
    """Whether packets do not say when they are shown: in AVI, unless each frame stands alone, and where stamps lack."""
    return timeline.counted or ("avi" in video.container.format.name and not timeline.keys.all())


def _decoded(video: OpenVideo, timeline: Timeline, wanted: np.ndarray) -> Iterator[tuple[int, VideoFrame]]:
    """(number, frame) of the wanted frames and of the key frames that they refer to, as far as they come out."""
    if not len(wanted):
        return
    if _without_times(video, timeline):
        yield from _counted(video, set(wanted.tolist()))
        return
    number = {int(stamp): i for i, stamp in enumerate(timeline.stamps)}
    for start, frames in timeline.runs(wanted, _WORTH):
        yield from _run(video, timeline, start, {*frames, *timeline.keys_of(frames)}, number)


def _run(
    video: OpenVideo, timeline: Timeline, start: int, wanted: set[int], number: Mapping[int, int]
) -> Iterator[tuple[int, VideoFrame]]:
    """(number, frame) of what is decoded from key frame `start` on, until the frames `wanted` have come out.

    Where seeking leads elsewhere, or frames do not come out under their packets' stamps, all is decoded from the
    file's begin. `number`: of a frame by its stamp.
    """
    missing = set(wanted)
    with told(video.name):
        for place, sparing in ((int(timeline.stamps[start]), True), (None, False)):
            if place is None:
                video.rewind()
            else:
                video.container.seek(place, stream=video.stream)
            stamps = {int(timeline.stamps[i]) for i in missing}
            for frame in _frames(video, stamps, sparing, alone=bool(timeline.keys.all())):
                i = number.get(stamp_of(frame), -1)
                if i in missing:
                    missing.discard(i)
                    yield i, frame
            if not missing:
                return


def _counted(video: OpenVideo, wanted: set[int]) -> Iterator[tuple[int, VideoFrame]]:
    """(number, frame) of the wanted frames, counted as they come out; all before them are decoded."""
    video.rewind()
    for i, frame in enumerate(video.decoded()):
        if i in wanted:
            yield i, frame
        if i >= max(wanted):
            return


def _frames(video: OpenVideo, wanted: set[int], sparing: bool, alone: bool) -> Iterator[VideoFrame]:
    """What is decoded from here on until the packets of all stamps `wanted` were read.

    With `sparing`, other frames are passed over where no later frame refers to them: all where each stands `alone`.
    """
    decoder, left = video.stream.codec_context, set(wanted)
    prefix = _prefix(decoder)
    for packet in video.container.demux(video.stream):
        stamp = stamp_of(packet)
        if not packet.size:
            break
        if sparing and stamp not in left and (alone or (prefix and _is_spare(memoryview(packet), prefix))):
            continue
        yield from decoder.decode(packet)
        left.discard(stamp)
        if sparing and not left:
            break
    yield from decoder.decode(None)


def _prefix(decoder: VideoCodecContext) -> int:
    """Bytes of the length before each unit of H.264 data; 0 for other data (ISO/IEC 14496-15, 5.3.3.1)."""
    head = decoder.extradata or b""
    return (head[4] & 3) + 1 if decoder.name == "h264" and len(head) > 4 and head[0] == 1 else 0


def _is_spare(data: memoryview, prefix: int) -> bool:
    """Whether no frame refers to an H.264 frame: `nal_ref_idc` is 0 of all its slices (ISO/IEC 14496-10, 7.4.1).

    False for damaged data, of which the decoder says what is wrong.
    """
    at, slices = 0, 0
    while at + prefix < len(data):
        header = data[at + prefix]
        if header & 31 in (1, 5):  # a slice
            if header >> 5:
                return False
            slices += 1
        at += prefix + int.from_bytes(data[at : at + prefix], "big")
    return slices > 0 and at == len(data)
