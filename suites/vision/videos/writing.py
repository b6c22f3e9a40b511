"""Frames to a video file, encoded by PyAV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framework.atomic import atomic_file
from framework.errors import ConfigError, DataError
from suites.vision.videos.reading import pyav

if TYPE_CHECKING:
    import av

_KINDS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}
_CODECS = ("libx264", "mpeg4")  # the first that FFmpeg has
_TICKS = 90_000  # a second: the unit of the frames' times


class Film:
    """Takes frames of one size, one after the other; see `written_film`."""

    def __init__(self, container: av.container.OutputContainer, rate: float) -> None:
        self._container, self._rate = container, rate
        self._stream: Any = None  # a VideoStream, once the size is known
        self._last = -1

    def add(self, seconds: float, picture: np.ndarray) -> None:
        """Appends a picture uint8 RGB [H, W, 3], shown from `seconds` on; an odd last row or column is left out.

        Raises:
            DataError: it has another size than the first one.
        """
        height, width = picture.shape[0] & ~1, picture.shape[1] & ~1
        if self._stream is None:
            self._stream = self._opened(height, width)
        if (self._stream.height, self._stream.width) != (height, width):
            shown = f"{self._stream.height} x {self._stream.width}"
            raise DataError(f"film: a picture has {height} x {width} pixels, the first one had {shown}")
        frame = pyav().VideoFrame.from_ndarray(np.ascontiguousarray(picture[:height, :width]), format="rgb24")
        self._last = max(round(seconds * _TICKS), self._last + 1)
        frame.pts, frame.time_base = self._last, Fraction(1, _TICKS)
        self._container.mux(self._stream.encode(frame))

    def end(self) -> None:
        """Writes what is still on the way; DataError where there was no picture."""
        if self._stream is None:
            raise DataError("film: there is no picture to write")
        self._container.mux(self._stream.encode(None))

    def _opened(self, height: int, width: int) -> Any:
        codec = next(name for name in _CODECS if name in pyav().codecs_available)
        stream: Any = self._container.add_stream(codec, rate=Fraction(self._rate).limit_denominator(1001))
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.time_base = Fraction(1, _TICKS)
        if codec == "mpeg4":
            stream.codec_context.bit_rate = 4 * height * width
            stream.codec_context.time_base = Fraction(1, 1000)  # its units have 16 bits
        return stream


def check_film_name(path: Path) -> None:
    """Raises a ConfigError where a video cannot be written under this name."""
    if path.suffix.lower() not in _KINDS:
        raise ConfigError(f"{path}: a video is written as {' '.join(_KINDS)}; give the file one of these endings")


@contextmanager
def written_film(path: Path, rate: float) -> Iterator[Film]:
    """A video file while it is written, whole or not at all.

    Args:
        path: its ending says the kind: .mp4, .mov or .mkv.
        rate: frames a second, about; each frame is shown at its own time.
    """
    check_film_name(path)
    with atomic_file(path) as part, pyav().open(str(part), "w", format=_KINDS[path.suffix.lower()]) as container:
        film = Film(container, rate)
        yield film
        film.end()


def encode_film(frames: np.ndarray, rate: float) -> bytes:
    """Frames uint8 RGB [T, H, W, 3], `rate` a second, as the content of an MP4 file."""
    buffer = io.BytesIO()
    with pyav().open(buffer, "w", format="mp4") as container:
        film = Film(container, rate)
        for at, frame in enumerate(frames):
            film.add(at / rate, frame)
        film.end()
    return buffer.getvalue()
