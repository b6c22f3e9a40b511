"""Blocks that a process writes what it sends into, and uses again once the other end is done with them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from framework.data.blocks import create, send_fd

ONCE = -1  # the number of a block that is not kept


class Placement(NamedTuple):
    """Where something lies, for the other end.

    Attributes:
        block: number of the block, or ONCE.
        fresh: size of a new block, whose descriptor follows; None for one that the other end has.
        retired: blocks that are no longer used.
    """

    block: int
    fresh: int | None
    retired: list[int]


class KeptBlocks:
    """The blocks of a process, each free again when the other end says so.

    Args:
        most: bytes of blocks that are kept; what does not fit goes into a block of its own. None keeps all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._blocks: dict[int, np.ndarray] = {}
        self._free: set[int] = set()
        self._unsent = -1  # the descriptor of a block that the other end does not have yet
        self._created = 0

    def put_back(self, numbers: Iterable[int]) -> None:
        """Hear which blocks the other end is done with."""
        self._free.update(numbers)

    def place(self, size: int) -> tuple[np.ndarray, Placement]:
        """Memory of `size` bytes or more, uint8, and what the other end is told; see `send_fresh`."""
        fitting = [number for number in self._free if len(self._blocks[number]) >= size]
        if fitting:
            number = min(fitting, key=lambda n: len(self._blocks[n]))
            self._free.remove(number)
            return self._blocks[number], Placement(number, None, [])
        retired = self._retire()
        # A quarter more than needed: batches differ a little in size, and a block is meant to be used again.
        roomy = size + size // 4
        if self._most is not None and sum(map(len, self._blocks.values())) + roomy > self._most:
            self._unsent, memory = create(size)
            return memory, Placement(ONCE, len(memory), retired)
        self._unsent, memory = create(roomy)
        number, self._created = self._created, self._created + 1
        self._blocks[number] = memory
        return memory, Placement(number, len(memory), retired)

    def send_fresh(self, connection: Connection, placement: Placement) -> None:
        """Send the descriptor of a new block behind the message that tells of it."""
        if placement.fresh is not None:
            try:
                send_fd(connection, self._unsent)
            finally:
                os.close(self._unsent)

    def _retire(self) -> list[int]:
        """Give up the free blocks: they are too small for what is made now."""
        retired = list(self._free)
        for number in retired:
            del self._blocks[number]
        self._free.clear()
        return retired
