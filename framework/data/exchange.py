"""Objects between our own processes: small ones in the pipe, large ones in blocks that both ends map.

A `Parcel` is an object that a process holds and hands on without looking into it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from framework.data.blocks import Packed, create, pack, receive_block, receive_fd, send_fd, unpack

_SMALL = 1 << 16  # bytes that go through the pipe itself, which holds more, so that nobody waits in a write
Extents = list[tuple[int, int]]


class _Placed(NamedTuple):
    """Parts of an object: in these bytes, or at these places of a block, which is counted from 0."""

    extents: Extents
    inside: bytes | None
    block: int = 0


class Block:
    """Shared memory that this process holds, and need not map to hand it on."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        weakref.finalize(self, os.close, descriptor).atexit = False


@dataclass(frozen=True)
class Parcel:
    """A packed object, and the block that it lies in, if it does not lie in the parcel itself."""

    placed: _Placed
    block: Block | None


def send(connection: Connection, value: Any) -> None:
    """Send an object; the other end may be busy or hang. Raises ConnectionError where it is gone."""
    packed = pack(value)
    if packed.size <= _SMALL:
        connection.send(_Placed(packed.extents, _written(packed)))
        return
    connection.send((packed.extents, packed.size))
    _send_block(connection, [packed])


def receive(connection: Connection) -> Any:
    """The object that the other end sends; its arrays may be written to. Raises EOFError where the end is gone."""
    found = connection.recv()
    if isinstance(found, _Placed):
        return _opened(found, [])
    extents, size = found
    return unpack(receive_block(connection, max(size, mmap.PAGESIZE)), extents)


def parcel(value: Any) -> Parcel:
    """An object of this process, to be handed on with those of others."""
    packed = pack(value)
    if packed.size <= _SMALL:
        return Parcel(_Placed(packed.extents, _written(packed)), None)
    descriptor, memory = create(packed.size)
    block = Block(descriptor, len(memory))
    packed.write(memory)
    return Parcel(_Placed(packed.extents, None), block)


def send_each(connection: Connection, values: Sequence[Any]) -> None:
    """Send objects that the other end takes as parcels; all large ones share one block."""
    packed = [pack(value) for value in values]
    size = sum(each.size for each in packed)
    if size <= _SMALL:
        connection.send(([_Placed(each.extents, _written(each)) for each in packed], 0))
        return
    places, base = [], 0
    for each in packed:
        places.append(_Placed([(base + offset, length) for offset, length in each.extents], None))
        base += each.size
    connection.send((places, size))
    _send_block(connection, packed)


def receive_parcels(connection: Connection) -> list[Parcel]:
    """What `send_each` sent; raises EOFError where the other end is gone."""
    places, size = connection.recv()
    block = Block(receive_fd(connection), max(size, mmap.PAGESIZE)) if size else None
    return [Parcel(placed, block) for placed in places]


def send_parcels(connection: Connection, parcels: Sequence[Parcel]) -> None:
    """Hand parcels on to a process that takes the objects."""
    blocks = list(dict.fromkeys(parcel.block for parcel in parcels if parcel.block is not None))
    numbers = {block: number for number, block in enumerate(blocks)}
    places = [p.placed if p.block is None else p.placed._replace(block=numbers[p.block]) for p in parcels]
    connection.send((places, [block.size for block in blocks]))
    for block in blocks:
        send_fd(connection, block.descriptor)


def receive_each(connection: Connection) -> list[Any]:
    """The objects in parcels that were handed on; raises EOFError where the other end is gone."""
    places, sizes = connection.recv()
    blocks = [receive_block(connection, size) for size in sizes]
    return [_opened(placed, blocks) for placed in places]


def _opened(placed: _Placed, blocks: list[np.ndarray]) -> Any:
    if placed.inside is None:
        return unpack(blocks[placed.block], placed.extents)
    return unpack(np.frombuffer(bytearray(placed.inside), np.uint8), placed.extents)


def _written(packed: Packed) -> bytes:
    memory = bytearray(packed.size)
    packed.write(np.frombuffer(memory, np.uint8))
    return bytes(memory)


def _send_block(connection: Connection, packed: Sequence[Packed]) -> None:
    """Write objects one behind the other into a block and send it."""
    descriptor, memory = create(sum(each.size for each in packed))
    try:
        base = 0
        for each in packed:
            each.write(memory[base:])
            base += each.size
        send_fd(connection, descriptor)
    finally:
        os.close(descriptor)
