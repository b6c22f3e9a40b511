"""Pictures of rare kinds, decoded in a process of their own: a bound on its memory, and one on its seconds."""

from __future__ import annotations

import functools
import os
import struct
import threading
import time

import numpy as np

from framework import programs
from framework.children import Child
from framework.errors import DataError
from framework.limits import current, how_to_raise
from suites.vision.pictures.apart_child import ANSWER, QUESTION, TYPES

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
        self._lock, self._child = threading.Lock(), Child(_start)

    def decode(self, data: bytes, flags: int, memory: int) -> np.ndarray:
        with self._lock:
            seconds = current().picture_seconds
            deadline = time.monotonic() + seconds
            try:
                return _ask(self._child, data, flags, memory, deadline)
            except TimeoutError:
                self._child.end()
                text = f"it took more than {seconds} seconds to decode. {how_to_raise('picture_seconds')}"
                raise DataError(text) from None
            except (OSError, EOFError):
                self._child.end()
                raise DataError(
                    "its decoder died: the file is damaged, or takes more memory than such a picture may"
                ) from None


def _start() -> programs.Process:
    return programs.start_child(
        programs.PYTHON,
        programs.module("suites.vision.pictures.apart_child"),
        env={**os.environ, **dict.fromkeys(_THREADS, "1")},
    )


def _ask(child: Child, data: bytes, flags: int, memory: int, deadline: float) -> np.ndarray:
    child.write(struct.pack(QUESTION, len(data), flags, memory) + data, deadline)
    rank, kind, size = struct.unpack(ANSWER, child.read(struct.calcsize(ANSWER), deadline))
    if rank < 0:
        raise DataError(child.read(size, deadline).decode("utf-8", "replace"))
    shape = struct.unpack(f"<{rank}q", child.read(8 * rank, deadline))
    return np.frombuffer(child.read(size, deadline), TYPES[kind]).reshape(shape)
