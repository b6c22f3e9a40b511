"""Pictures of rare kinds, decoded in a process of their own: a bound on its memory, and one on its seconds."""

from __future__ import annotations

import functools
import os
import selectors
import struct
import threading
import time

import numpy as np

from framework import programs
from framework.errors import DataError
from framework.limits import current, how_to_raise
from suites.vision.pictures.apart_child import ANSWER, QUESTION, TYPES

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PIECE = 1 << 16


def decode_apart(data: bytes, flags: int, memory: int) -> np.ndarray:
    """What OpenCV's `imdecode` returns for a file and flags.

    Args:
        memory: bytes that decoding may take beyond what the process has at rest.

    Raises:
        DataError: it cannot be decoded, or takes more memory, or more seconds than the limit `picture_seconds`.
    """
    return _decoder(os.getpid()).decode(data, flags, memory)


@functools.cache
def _decoder(pid: int) -> _Decoder:
    """The decoder of a process; a fork has another."""
    return _Decoder()


class _Decoder:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: programs.Process | None = None

    def decode(self, data: bytes, flags: int, memory: int) -> np.ndarray:
        with self._lock:
            seconds = current().picture_seconds
            deadline = time.monotonic() + seconds
            try:
                return _ask(self._running(), data, flags, memory, deadline)
            except TimeoutError:
                self._end()
                text = f"it took more than {seconds} seconds to decode. {how_to_raise('picture_seconds')}"
                raise DataError(text) from None
            except (OSError, EOFError):
                self._end()
                raise DataError("its decoder died; the file is damaged") from None

    def _running(self) -> programs.Process:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = programs.start(
                programs.PYTHON,
                programs.module("suites.vision.pictures.apart_child"),
                stdin=programs.PIPE,
                stdout=programs.PIPE,
                stderr=programs.DEVNULL,
                env=programs.module_paths({**os.environ, **dict.fromkeys(_THREADS, "1")}),
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _ask(process: programs.Process, data: bytes, flags: int, memory: int, deadline: float) -> np.ndarray:
    assert process.stdin is not None and process.stdout is not None
    message = struct.pack(QUESTION, len(data), flags, memory) + data
    _move(process.stdin.fileno(), deadline, write=message)
    head = _move(process.stdout.fileno(), deadline, read=struct.calcsize(ANSWER))
    rank, kind, size = struct.unpack(ANSWER, head)
    if rank < 0:
        raise DataError(_move(process.stdout.fileno(), deadline, read=size).decode("utf-8", "replace"))
    shape = struct.unpack(f"<{rank}q", _move(process.stdout.fileno(), deadline, read=8 * rank))
    pixels = _move(process.stdout.fileno(), deadline, read=size)
    return np.frombuffer(pixels, TYPES[kind]).reshape(shape)


def _move(fd: int, deadline: float, *, read: int = 0, write: bytes = b"") -> bytearray:
    """Writes all, or reads so many bytes. Raises TimeoutError at the deadline, EOFError where the other end is gone."""
    os.set_blocking(fd, False)
    found, at = bytearray(read), 0
    with selectors.DefaultSelector() as ready:
        ready.register(fd, selectors.EVENT_WRITE if write else selectors.EVENT_READ)
        while at < max(read, len(write)):
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            moved = (
                os.write(fd, memoryview(write)[at : at + _PIECE]) if write else os.readv(fd, [memoryview(found)[at:]])
            )
            if not moved:
                raise EOFError
            at += moved
    return found
