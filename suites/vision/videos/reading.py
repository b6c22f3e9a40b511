"""Video files frame by frame, decoded by PyAV (FFmpeg); what cannot be used gives one DataError with file and cause.

Frames come upright, as players show them, with the time at which they are shown. What a header says of the number of
frames is not trusted.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from framework.errors import DataError, NotSupportedError
from framework.extras import install_command
from framework.limits import check
from framework.outside import open_file

if TYPE_CHECKING:
    import av
    from av.packet import Packet
    from av.video.frame import VideoFrame

_log = logging.getLogger(__name__)
_MOST_BOXES = 1 << 16  # of a file, whose extents are looked at
_WITHOUT_KEY = 1000  # frames at the begin among which a key frame is looked for

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v")
# What FFmpeg may take a file for, and from where: a playlist of other files, or of addresses, is no video.
_TRUSTED = {
    "format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v",
    "protocol_whitelist": "file",
}
VideoSource = str | os.PathLike[str] | bytes  # a path, or a file's content


def pyav() -> Any:
    """The package `av`; NotSupportedError where it is not installed."""
    try:
        import av
    except ImportError:
        raise NotSupportedError(f"videos: reading them needs the package av; run {install_command('video')}") from None
    av.logging.set_level(None)  # FFmpeg writes of each damaged frame to the console; errors here say it once
    return av


def has_pyav() -> bool:
    """Whether the package `av` is installed."""
    return importlib.util.find_spec("av") is not None


@dataclass(frozen=True)
class TimedFrame:
    """A frame of a video.

    Attributes:
        seconds: when it is shown, from the video's first frame on.
        pixels: uint8 RGB [H, W, 3].
    """

    seconds: float
    pixels: np.ndarray


class Painter:
    """Decoded frames to upright RGB; one scaler is used again and again, since FFmpeg keeps memory for each.

    Args:
        short_side: pixels that the short side is scaled to on the way, None for the video's own size.
    """

    def __init__(self, short_side: int | None = None) -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self._reformatter, self._methods = VideoReformatter(), Interpolation
        self._short_side = short_side

    def __call__(self, frame: VideoFrame, name: str) -> np.ndarray:
        """uint8 RGB [H, W, 3], C-contiguous."""
        height, width = frame.height, frame.width
        _check_pixels(height, width, name)
        scale = 1.0 if self._short_side is None else self._short_side / min(height, width)
        size = {"width": max(1, round(width * scale)), "height": max(1, round(height * scale))}
        method = self._methods.AREA if scale < 1 else self._methods.BILINEAR
        shown = self._reformatter.reformat(frame, **size, format="rgb24", interpolation=method, threads=1)
        turns = round(frame.rotation / 90) % 4
        pixels = shown.to_ndarray()
        return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


class OpenVideo:
    """A video file while it is read.

    Args:
        container: as PyAV opened it.
        name: of the file, for messages.
        threads: that decode it; 0 for as many as there are cores.
        again: opens the file once more, where it can be.

    Raises:
        DataError: it has no pictures.
    """

    def __init__(
        self,
        container: av.container.InputContainer,
        name: str,
        threads: int,
        again: Callable[[], av.container.InputContainer] | None = None,
    ) -> None:
        self.name, self._threads, self._again, self._said = name, threads, again, False
        self._take(container, threads)

    def _take(self, container: av.container.InputContainer, threads: int) -> None:
        self.container, name = container, self.name
        moving = [s for s in container.streams.video if not int(s.disposition) & _attached_picture()]
        if not moving:
            others = sorted({stream.type for stream in container.streams})
            held = " and ".join(others) or "nothing"
            raise DataError(f"video {name}: holds no moving pictures, only {held}; take it out of the list")
        self.stream = moving[0]
        if self.stream.codec_context is None:
            raise DataError(
                f"video {name}: damaged, or in a format that FFmpeg does not decode; encode it again, as H.264"
            )
        self.stream.thread_type = "AUTO"
        self.stream.codec_context.thread_count = threads
        height, width = self.stream.codec_context.height, self.stream.codec_context.width
        _check_pixels(height, width, name)
        seconds = (container.duration or 0) // 1_000_000
        check("video_seconds", seconds, f"video {name}: it is too long, in seconds", DataError)

    @property
    def rate(self) -> float:
        """Frames a second, on average, as the header says; 25 where it does not."""
        return float(self.stream.average_rate or self.stream.guessed_rate or 25)

    def decoded(self) -> Iterator[VideoFrame]:
        """All frames from here on, as they come out of the decoder.

        Those before the first key frame refer to frames that are not there: they are left out, and how many is said.
        """
        decoder = self.stream.codec_context
        first: int | None = None  # when the first key frame is shown
        lost = 0
        with told(self.name):
            for packet in self._from_first_key():
                if first is None and packet.size:
                    first = stamp_of(packet)
                for frame in decoder.decode(packet):
                    if first is not None and 0 <= stamp_of(frame) < first:
                        lost += 1
                    else:
                        yield frame
        self.say_lost(lost)

    def _from_first_key(self) -> Iterator[Packet]:
        """Packets from the first one that is a key frame on; all of them where none is."""
        packets = iter(self.container.demux(self.stream))
        before: list[Packet] = []
        for packet in packets:
            if packet.is_keyframe or not packet.size or len(before) == _WITHOUT_KEY:
                if packet.is_keyframe:
                    self.say_lost(len(before))
                elif before:
                    _log.warning("video %s: no frame stands alone, so the first ones may be damaged", self.name)
                    yield from before
                yield packet
                break
            before.append(packet)
        yield from packets

    def say_lost(self, count: int) -> None:
        """Logs once that frames at the begin are left out."""
        if count and not self._said:
            self._said = True
            _log.warning(
                "video %s: begins in the middle; %d of its frames refer to frames before it and are left out",
                *(self.name, count),
            )

    def rewind(self) -> None:
        """Goes back to the first packet, also where it is no key frame."""
        from av.error import FFmpegError

        try:
            self.container.seek(min(0, self.stream.start_time or 0), stream=self.stream, any_frame=True)
        except FFmpegError:  # a file without an index of key frames
            if self._again is None:
                raise
            self.container.close()
            self._take(self._again(), self._threads)

    def timed(self) -> Iterator[tuple[float, VideoFrame]]:
        """(seconds from the first frame on, frame) of all frames in order; a stream that breaks ends there, warned of.

        Raises a DataError where there are none, or the first one cannot be decoded.
        """
        first, last, count = 0.0, 0.0, 0
        try:
            for frame in self.decoded():
                time = count / self.rate if frame.time is None else float(frame.time)
                first = first if count else time
                last = max(last, time - first)  # stamps that repeat or jump back
                count += 1
                check("video_frames", count, f"video {self.name}: it has too many frames", DataError)
                yield last, frame
        except DataError as error:
            if not count:
                raise
            _log.warning("%s; the %d frames before it are used", error, count)
        if not count:
            raise DataError(f"video {self.name}: holds no frames; take it out of the list")

    def frames(self, short_side: int | None = None) -> Iterator[TimedFrame]:
        """The frames of `timed` as pixels, one in memory at a time."""
        painter = Painter(short_side)
        for seconds, frame in self.timed():
            yield TimedFrame(seconds, painter(frame, self.name))


def stamp_of(what: Packet | VideoFrame) -> int:
    """When it is shown, else when it is decoded; -1 where it says neither."""
    stamp = what.dts if what.pts is None else what.pts
    return -1 if stamp is None else stamp


def _check_pixels(height: int, width: int, name: str) -> None:
    what = f"video {name}: its frames of {height} x {width} have too many pixels"
    check("pixels", height * width, what, DataError)


def _attached_picture() -> int:
    from av.stream import Disposition

    return int(Disposition.attached_pic)


def frames_of(path: VideoSource) -> Iterator[np.ndarray]:
    """All frames of a video file in order, uint8 RGB [H, W, 3], one in memory at a time.

    Raises:
        DataError: it is missing, cut off, no video, or has no frame. A stream that breaks later ends there, warned of.
    """
    with opened_video(path, threads=0) as video:
        for frame in video.frames():
            yield frame.pixels


@contextmanager
def opened_video(source: VideoSource, name: str | None = None, threads: int = 1) -> Iterator[OpenVideo]:
    """A video file while it is read.

    Args:
        source: its path, or its content.
        name: for messages; by default the path.
        threads: that decode it, 0 for as many as there are cores. Worker processes take one each.

    Raises:
        DataError: it is missing, cut off, too large, or no video.
    """
    library = pyav()
    name = name or ("of some bytes" if isinstance(source, bytes) else os.fspath(source))
    size = checked_size(source, name)

    def again() -> av.container.InputContainer:
        file = io.BytesIO(source) if isinstance(source, bytes) else os.fspath(source)
        with told(name, f"damaged, cut off, or no video that FFmpeg reads ({size} bytes)"):
            return library.open(file, container_options=_TRUSTED)

    with again() as container:
        video = OpenVideo(container, name, threads, again)
        try:
            yield video
        finally:
            video.container.close()


@contextmanager
def told(name: str, what: str = "damaged") -> Iterator[None]:
    """Errors of FFmpeg as a DataError of the video `name`."""
    from av.error import FFmpegError

    try:
        yield
    except (FFmpegError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or error
        raise DataError(
            f"video {name}: {what} ({cause}); copy it again, or take it out of the list. Known kinds are "
            f"{' '.join(VIDEO_SUFFIXES)}"
        ) from None


def checked_size(source: VideoSource, name: str) -> int:
    """Bytes of the file; a DataError where it is missing, too large or an MP4 or QuickTime file that is cut off."""
    if not isinstance(source, bytes) and not Path(source).is_file():
        raise DataError(f"video {name}: there is no such file")
    size = len(source) if isinstance(source, bytes) else Path(source).stat().st_size
    check("video_bytes", size, f"video {name}: the file has too many bytes", DataError)
    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source, None, DataError, what=name) as file:
        _check_complete(file, size, name)
    return size


def _check_complete(file: BinaryIO, end: int, name: str) -> None:
    """Raises a DataError where an MP4 or QuickTime file ends within one of its boxes; other kinds are not looked at."""
    at = 0
    for _ in range(_MOST_BOXES):
        if at + 16 > end:
            break
        file.seek(at)
        size, kind, large = struct.unpack(">I4sQ", file.read(16))
        if not kind.isalnum() or (at == 0 and kind != b"ftyp"):
            return  # another kind of file, or bytes behind the last box
        at = end if size == 0 else at + (large if size == 1 else max(size, 8))
    if at > end:
        raise DataError(f"video {name}: cut off after {end} of {at} bytes; copy it again or take it out of the list")
