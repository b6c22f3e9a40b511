"""A camera as a video without an end: `paddock infer RUN 0` looks at camera 0 until it is told to stop."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.errors import DataError, NotSupportedError
from framework.limits import current
from suites.vision.videos.reading import OpenVideo, opened_video, pyav

if TYPE_CHECKING:
    import av
    from av.video.frame import VideoFrame

# How FFmpeg names camera N of a system.
_SYSTEMS = {"linux": ("v4l2", "/dev/video{}"), "darwin": ("avfoundation", "{}")}


def camera_number(word: str | Path) -> int | None:
    """The camera that an input of `paddock infer` means: digits that are no file's name. None for anything else."""
    text = str(word)
    return int(text) if text.isascii() and text.isdigit() and not Path(text).exists() else None


class Camera(OpenVideo):
    """A camera while it is looked at. It ends after `seconds`, at `stop()`, or where limits say that videos end.

    Where the model is slower than the camera, the driver drops frames; times stay those at which they were seen.

    Args:
        container: as PyAV opened it.
        name: for messages.
        seconds: after which it ends; None for no such end.
    """

    def __init__(self, container: av.container.InputContainer, name: str, seconds: float | None) -> None:
        super().__init__(container, name, threads=1)
        most = current().video_seconds
        self._seconds = most if seconds is None else min(seconds, most)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let the frame at hand be the last one."""
        self._stopped.set()

    def timed(self) -> Iterator[tuple[float, VideoFrame]]:
        """(seconds from the first frame on, frame) of each frame until the end."""
        for seconds, frame in super().timed():
            if seconds > self._seconds or self._stopped.is_set():
                return
            yield seconds, frame


@contextmanager
def opened_camera(number: int, seconds: float | None = None) -> Iterator[Camera]:
    """A camera of this machine while it is looked at; the first Ctrl-C ends it as if its time were up.

    Args:
        number: 0 for the first one.
        seconds: after which it ends; None for until Ctrl-C.

    Raises:
        DataError: there is none of this number, or it cannot be read.
        NotSupportedError: PyAV is missing, or has no way to a camera on this system.
    """
    if sys.platform not in _SYSTEMS:
        raise NotSupportedError(f"camera {number}: cameras are read on Linux and macOS; record a video file instead")
    kind, pattern = _SYSTEMS[sys.platform]
    with _opened(pattern.format(number), kind, f"camera {number}", seconds) as camera, _interrupts(camera):
        yield camera


@contextmanager
def _opened(address: str, kind: str, name: str, seconds: float | None) -> Iterator[Camera]:
    library = pyav()
    if not any(kind in known.split(",") for known in library.formats_available):
        raise NotSupportedError(f"{name}: this build of PyAV has no {kind}; record a video file instead")
    try:
        container = library.open(address, format=kind)
    except library.error.FFmpegError as error:
        why = error.strerror or error
        raise DataError(f"{name}: cannot be opened ({address}: {why}); is it connected, and may you read it?") from None
    with container:
        yield Camera(container, name, seconds)


@contextmanager
def _interrupts(camera: Camera) -> Iterator[None]:
    """Within, the first SIGINT stops the camera; the handler from before is back for the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        camera.stop()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def opened_moving(source: Path, seconds: float | None = None) -> AbstractContextManager[OpenVideo]:
    """A video file, or a camera, while it is read.

    Args:
        source: the file's path, or a camera's number.
        seconds: after which a camera ends.
    """
    number = camera_number(source)
    return opened_video(source, threads=0) if number is None else opened_camera(number, seconds)
