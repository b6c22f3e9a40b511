"""Objects over a pipe between two of our own processes: small ones in the pipe, large ones in a block that both map."""

from __future__ import annotations

import mmap
import os
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from framework.data.blocks import create, pack, receive_block, send_fd, unpack

_SMALL = 1 << 15  # bytes that go through the pipe itself, which holds more, so that nobody waits in a write


class _Placed(NamedTuple):
    """An object that follows: its parts, its bytes, and whether they come in the pipe itself."""

    extents: list[tuple[int, int]]
    size: int
    inside: bool


def send(connection: Connection, value: Any) -> None:
    """Send an object; the other end may be busy or hang. Raises ConnectionError where it is gone."""
    packed = pack(value)
    inside = packed.size <= _SMALL
    connection.send(_Placed(packed.extents, packed.size, inside))
    if inside:
        small = np.empty(packed.size, np.uint8)
        packed.write(small)
        connection.send_bytes(small.data)
        return
    descriptor, block = create(packed.size)
    try:
        packed.write(block)
        send_fd(connection, descriptor)
    finally:
        os.close(descriptor)


def receive(connection: Connection) -> Any:
    """The object that the other end sends; its arrays may be written to. Raises EOFError where the end is gone."""
    placed: _Placed = connection.recv()
    if placed.inside:
        return unpack(np.frombuffer(bytearray(connection.recv_bytes()), np.uint8), placed.extents)
    return unpack(receive_block(connection, max(placed.size, mmap.PAGESIZE)), placed.extents)
