"""Objects between our own processes: small ones in the pipe, large ones in blocks that both ends map.

A `Parcel` is an object that a process holds and hands on without looking into it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from framework.data.blocks import Packed, create, pack, receive_block, receive_fd, send_fd, unpack
from framework.data.kept import ONCE, KeptBlocks, Placement

_SMALL = 1 << 16  # bytes that go through the pipe itself, which holds more, so that nobody waits in a write
Extents = list[tuple[int, int]]


class _Placed(NamedTuple):
    """Parts of an object: in these bytes, or at these places of a block, which is counted from 0."""

    extents: Extents
    inside: bytes | None
    block: int = 0


class Block:
    """Shared memory that this process holds, and need not map to hand it on.

    Args:
        descriptor: of it, which is closed once this object is gone.
        size: bytes.
        done: called then, for a block that its owner uses again.
    """

    def __init__(self, descriptor: int, size: int, done: Callable[[], None] | None = None) -> None:
        self.descriptor, self.size = descriptor, size
        weakref.finalize(self, done or partial(os.close, descriptor)).atexit = False


@dataclass(frozen=True)
class Parcel:
    """A packed object, and the block that it lies in, if it does not lie in the parcel itself."""

    placed: _Placed
    block: Block | None


class Held:
    """The blocks that another process keeps and this one holds, and those of them that it may use again."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._reusable: deque[int] = deque()

    def done(self) -> list[int]:
        """Numbers of blocks that are free since the last call."""
        return [self._reusable.popleft() for _ in range(len(self._reusable))]

    def receive(self, connection: Connection, at: Placement) -> Block:
        """The block where something lies, for as long as somebody has what this returns."""
        for number in at.retired:
            del self._blocks[number]
        if at.fresh is not None:
            block = Block(receive_fd(connection), at.fresh)
            if at.block == ONCE:
                return block
            self._blocks[at.block] = block
        block = self._blocks[at.block]
        return Block(block.descriptor, block.size, partial(self._put_back, at.block, block))

    def _put_back(self, number: int, block: Block) -> None:
        """Called with the block itself, whose descriptor thus outlives a process that is ended."""
        self._reusable.append(number)


def send(connection: Connection, value: Any) -> None:
    """Send an object; the other end may be busy or hang. Raises ConnectionError where it is gone."""
    packed = pack(value)
    if packed.size <= _SMALL:
        connection.send(_Placed(packed.extents, _written(packed)))
        return
    connection.send((packed.extents, packed.size))
    descriptor, memory = create(packed.size)
    try:
        packed.write(memory)
        send_fd(connection, descriptor)
    finally:
        os.close(descriptor)


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
    packed.write(memory)
    return Parcel(_Placed(packed.extents, None), Block(descriptor, len(memory)))


def send_each(connection: Connection, values: Sequence[Any], kept: KeptBlocks) -> None:
    """Send objects that the other end takes as parcels; all large ones share one of the blocks that are kept."""
    packed = [pack(value) for value in values]
    size = sum(each.size for each in packed)
    if size <= _SMALL:
        connection.send(([_Placed(each.extents, _written(each)) for each in packed], None))
        return
    memory, at = kept.place(size)
    places, base = [], 0
    for each in packed:
        each.write(memory[base:])
        places.append(_Placed([(base + offset, length) for offset, length in each.extents], None))
        base += each.size
    connection.send((places, at))
    kept.send_fresh(connection, at)


def receive_parcels(connection: Connection, held: Held) -> list[Parcel]:
    """What `send_each` sent; raises EOFError where the other end is gone."""
    places, at = connection.recv()
    block = held.receive(connection, at) if at is not None else None
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
