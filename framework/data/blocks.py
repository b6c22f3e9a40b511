"""Blocks: anonymous memory mapped by two processes, and objects packed into it without copies on reading.

A block has no name, so nothing is left behind whichever process dies and however. Its file descriptor travels
through the socket that joins parent and worker, and both close it once they have mapped the memory. Unlike
/dev/shm, which containers often limit to 64 MB, it counts as ordinary memory of the process.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import pickle
import socket
import tempfile
import weakref
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

_MAP_FAILED = ctypes.c_void_p(-1).value
_ALIGN = 64  # bytes: a cache line, and the widest vector register


@dataclass(frozen=True)
class Packed:
    """An object as a pickle (part 0) and its arrays' buffers, each with its byte offset in a block."""

    parts: list[memoryview]
    offsets: list[int]
    size: int

    @property
    def extents(self) -> list[tuple[int, int]]:
        """(offset, bytes) of each part."""
        return [(offset, part.nbytes) for offset, part in zip(self.offsets, self.parts, strict=True)]

    def write(self, block: np.ndarray) -> None:
        """Copy all parts into `block` (uint8), which has at least `size` bytes."""
        view = block.data
        for offset, part in zip(self.offsets, self.parts, strict=True):
            view[offset : offset + part.nbytes] = part


def pack(value: Any) -> Packed:
    """Pickle `value` with the buffers of its arrays kept outside (pickle protocol 5, PEP 574)."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    offsets, size = [], 0
    for part in parts:
        offsets.append(size)
        size += -(-part.nbytes // _ALIGN) * _ALIGN
    return Packed(parts, offsets, size)


def unpack(memory: np.ndarray, extents: list[tuple[int, int]]) -> Any:
    """Rebuild a packed object; its arrays are views that keep `memory` (uint8 [bytes]) alive."""
    head, *buffers = [memory.data[offset : offset + size] for offset, size in extents]
    return pickle.loads(head, buffers=buffers)


def create(size: int) -> tuple[int, np.ndarray]:
    """Make a block of at least one page; return its file descriptor, to be closed, and this process's mapping.

    Raises OSError where memory runs out: pages are reserved now, so that writing later cannot fault.
    """
    size = max(size, mmap.PAGESIZE)
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("paddock-data", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            os.ftruncate(fd, size)
        return fd, _mapped(fd, size)
    except BaseException:
        os.close(fd)
        raise


def _mapped(fd: int, size: int) -> np.ndarray:
    """The block's bytes, uint8 [size], unmapped once no view is left; `fd` may be closed.

    Python's own `mmap` keeps a descriptor of each mapping open (before 3.13 it cannot do without), and batches that
    somebody keeps would use up all that a process may have.
    """
    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        error = ctypes.get_errno()
        raise OSError(error, f"mmap of {size} bytes: {os.strerror(error)}")
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return np.frombuffer(memoryview(memory), np.uint8)


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    pointer, number = ctypes.c_void_p, ctypes.c_int
    libc.mmap.argtypes = (pointer, ctypes.c_size_t, number, number, number, ctypes.c_long)
    libc.munmap.argtypes = (pointer, ctypes.c_size_t)
    return libc


def send_fd(connection: Connection, fd: int) -> None:
    """Send a file descriptor to the process at the other end of a duplex pipe."""
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        socket.send_fds(link, [b"f"], [fd])


def receive_fd(connection: Connection) -> int:
    """Return the file descriptor that comes next on `connection`; raise EOFError if the other end is gone."""
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        message, fds, _, _ = socket.recv_fds(link, 1, 1)
    if not message or not fds:
        raise EOFError("the other process is gone")
    return fds[0]


def receive_block(connection: Connection, size: int) -> np.ndarray:
    """Map the block whose descriptor comes next on `connection`; raise EOFError if the other end is gone."""
    fd = receive_fd(connection)
    try:
        return _mapped(fd, size)
    finally:
        os.close(fd)
