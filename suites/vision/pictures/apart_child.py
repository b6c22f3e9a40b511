"""A process that decodes pictures of rare kinds under a limit of memory; `suites.vision.pictures.apart` starts it.

It reads (bytes of the file, OpenCV's flags, bytes of memory) and the file, and answers (rank, type, bytes), extents and
pixels, or an error's text with rank -1. It ends with its input, or where its parent is gone: a fork of the parent may
hold its input open.
"""

import os
import select
import struct
import sys

import cv2
import numpy as np

from framework.system.memory import bounded

QUESTION, ANSWER = "<QiQ", "<iiQ"
TYPES = (np.uint8, np.uint16, np.float32, np.float64, np.int8, np.int16, np.int32)
_IDLE = 10  # seconds until it looks for its parent


def main() -> None:
    """Answers questions until the input ends."""
    cv2.setNumThreads(1)
    parent = os.getppid()
    while os.getppid() == parent:
        if not select.select([sys.stdin.fileno()], [], [], _IDLE)[0]:
            continue
        head = sys.stdin.buffer.read(struct.calcsize(QUESTION))
        if len(head) < struct.calcsize(QUESTION):
            return
        size, flags, memory = struct.unpack(QUESTION, head)
        data = sys.stdin.buffer.read(size)
        if len(data) < size:
            return
        answer(data, flags, memory)


def answer(data: bytes, flags: int, memory: int) -> None:
    """Decodes one file, with so many more bytes of memory, and writes what came of it."""
    try:
        with bounded(memory):
            image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        text = "" if image is not None else "damaged, or more memory is needed than such a picture may take"
    except (cv2.error, MemoryError) as error:
        image, text = None, getattr(error, "err", "") or "it needs more memory than such a picture may take"
    write(image, text)


def write(image: np.ndarray | None, text: str) -> None:
    """Writes an answer."""
    out = sys.stdout.buffer
    if image is None:
        out.write(struct.pack(ANSWER, -1, 0, len(text.encode())) + text.encode())
    else:
        out.write(struct.pack(ANSWER, image.ndim, TYPES.index(image.dtype.type), image.nbytes))
        out.write(struct.pack(f"<{image.ndim}q", *image.shape) + np.ascontiguousarray(image).tobytes())
    out.flush()


if __name__ == "__main__":
    main()
