"""Messages between trainers and shards: a header of fixed size and raw arrays, one frame each. No objects, no code.

    request   header, arrays ...      reply   header, arrays ...

The header names the protocol, the model and the sizes, so that a message of anything else is refused before an array is
looked at. `docs/howto/cluster.md` has the table of messages.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from framework import errors, limits
from framework.errors import CheckpointError, PaddockError, StateError

VERSION = 1
MAGIC = b"PDT\n"
MODEL_BYTES = 16
_MOST = (1 << 63) - 1  # files hold these numbers as int64
_FRAMES = 16  # that are kept of a message, more than any has
ID_BYTES = 16  # of a publication


class SupersededError(StateError):
    """Another process has taken the place of this one: what it sends is refused."""


class ChainBrokenError(CheckpointError):
    """A shard does not know the publication that is asked for: it was started since. All rows have to be published."""


class Kind(IntEnum):
    """What a message is."""

    HELLO = 1  # who pushes from now on; the reply says what was taken from it
    PULL = 2  # keys -> rows
    PUSH = 3  # keys, gradients, shows, clicks, change of dense numbers -> dense numbers where some were sent
    DENSE = 4  # -> dense numbers
    PASS = 5  # the end of a pass
    CHECKPOINT = 6
    SAVE = 7  # rows as a base into a folder
    STATS = 8
    COUNTS = 9  # keys -> show, click, passes unseen, updates
    STOP = 10
    START = 11  # dense numbers to begin with, where there are none yet
    CUT = 12  # a publication begins: rows that change from now on are in the next one
    ROWS = 13  # of a publication and some buckets -> keys, packed rows
    GONE = 14  # of a publication -> keys whose rows went
    OK = 32
    GAP = 33  # a push came before the one that is awaited
    ERROR = 34


@dataclass
class Header:
    """The first frame.

    Args:
        kind: of the message.
        request: number of the request, which the reply has too.
        model: what the numbers belong to; see `model_key`.
        worker: who pushes.
        incarnation: which of the processes that were this worker; the highest counts.
        sequence: number of the push, from 1; of a pass its number.
        count: keys.
        dim: columns of a row.
        dense: dense numbers in the message.
        lr: learning rate of a push.
        version: of this protocol.
    """

    kind: int
    request: int = 0
    model: bytes = bytes(MODEL_BYTES)
    worker: int = 0
    incarnation: int = 0
    sequence: int = 0
    count: int = 0
    dim: int = 0
    dense: int = 0
    lr: float = 0.0
    version: int = VERSION

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("<4sBxH Q 16s Q Q Q Q I Q d".replace(" ", ""))

    def packed(self) -> bytes:
        """The bytes of the frame."""
        kind, request, model, *rest, version = astuple(self)
        return self.LAYOUT.pack(MAGIC, kind, version, request, model, *rest)

    @classmethod
    def unpacked(cls, data: bytes | memoryview) -> Header:
        """The header of a frame.

        Raises StateError for bytes that are none, or are of another version of the protocol.
        """
        if len(data) != cls.LAYOUT.size or bytes(data[:4]) != MAGIC:
            raise StateError(f"shard: {len(data)} bytes that are no message of Paddock's; is the address right?")
        _, kind, version, *rest = cls.LAYOUT.unpack(data)
        if version != VERSION:
            raise StateError(
                f"shard: the message has version {version} of the protocol, this process speaks {VERSION}; run the "
                "same version of Paddock everywhere"
            )
        header = cls(kind, *rest)
        header._expect_plausible()
        return header

    def _expect_plausible(self) -> None:
        """Raise StateError for numbers that no sender of ours has and that files could not hold."""
        for name in ("worker", "incarnation", "sequence", "count", "dense"):
            if getattr(self, name) > _MOST:
                raise StateError(f"shard: {name} is {getattr(self, name)}; it is {_MOST} at most")
        if not math.isfinite(self.lr):
            raise StateError(f"shard: the learning rate is {self.lr}; it has to be a finite number")

    def shapes(self) -> list[tuple[str, type, tuple[int, ...]]]:
        """Name, type and shape of the arrays that follow in a request."""
        keys: tuple[str, type, tuple[int, ...]] = ("keys", np.int64, (self.count,))
        dense: tuple[str, type, tuple[int, ...]] = ("dense", np.float32, (self.dense,))
        if self.kind == Kind.PUSH:
            counters = [(name, np.float32, (self.count,)) for name in ("shows", "clicks")]
            return [keys, ("gradients", np.float32, (self.count, self.dim)), *counters, dense]
        if self.kind == Kind.START:
            return [dense]
        if self.kind in (Kind.CUT, Kind.ROWS, Kind.GONE):
            ids: tuple[str, type, tuple[int, ...]] = ("ids", np.uint8, (2 * ID_BYTES,))
            return [ids, ("range", np.int64, (3,))] if self.kind == Kind.ROWS else [ids]
        return [keys] if self.kind in (Kind.PULL, Kind.COUNTS) else []


def arrays_of(header: Header, frames: Sequence[Any]) -> list[np.ndarray]:
    """The arrays of a request, as views of its frames.

    Raises StateError where their number or a size is not what the header says.
    """
    shapes = header.shapes()
    if len(frames) != len(shapes):
        raise StateError(f"shard: a {name_of(header.kind)} has {len(shapes)} arrays but {len(frames)} came")
    found: list[np.ndarray] = []
    for (name, dtype, shape), frame in zip(shapes, frames, strict=True):
        data = memoryview(frame)
        wanted = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
        if data.nbytes != wanted:
            raise StateError(f"shard: {name} of {shape} are {wanted} bytes but {data.nbytes} came; the message is cut")
        found.append(np.frombuffer(data, dtype).reshape(shape))
    return found


def receive_frames(socket: Any, flags: int) -> list[Any]:
    """The frames of the next message, at most so many that too many show: a message of millions takes no memory here.

    Raises what the socket raises where there is none.
    """
    frames = [socket.recv(flags, copy=False)]
    while frames[-1].more:
        frame = socket.recv(copy=False)
        if len(frames) > _FRAMES:
            frames.pop()
        frames.append(frame)
    return frames


def check_size(frames: Sequence[Any], what: str) -> None:
    """Raise StateError where a message is larger than `limits.message_bytes`."""
    size = sum(memoryview(frame).nbytes for frame in frames)
    limits.check("message_bytes", size, f"{what}: the message has too many bytes", StateError)


def name_of(kind: int) -> str:
    """The name of a kind for a message to people."""
    return Kind(kind).name.lower() if kind in Kind.__members__.values() else f"message of kind {kind}"


def model_key(described: Any) -> bytes:
    """What tells the messages of one model from those of another, of plain data that describes it."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).digest()[:MODEL_BYTES]


def error_frame(error: Exception) -> bytes:
    """An error as the frame behind an ERROR header."""
    name = type(error).__name__ if isinstance(error, PaddockError) else "StateError"
    text = str(error) if isinstance(error, PaddockError) else f"shard: {type(error).__name__}: {error}"
    return json.dumps([name, text]).encode()


def error_of(frame: Any) -> PaddockError:
    """The error of such a frame."""
    name, text = json.loads(bytes(frame))
    ours: dict[str, Any] = {each.__name__: each for each in (SupersededError, ChainBrokenError)}
    found = ours.get(name) or getattr(errors, name, StateError)
    made: PaddockError = (
        found(text) if isinstance(found, type) and issubclass(found, PaddockError) else StateError(text)
    )
    return made
