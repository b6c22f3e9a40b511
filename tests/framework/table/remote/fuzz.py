"""Damaged messages to a shard: `python -m tests.framework.table.remote.fuzz --seconds 3600`.

Each input has two seconds and 64 MB; one that takes more, an answer that is no error of ours, and a shard that cannot
save and open what it took are findings, told with their seed.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from framework.table.remote.server import Server
from framework.table.remote.wire import Header, Kind
from tests.framework.table.remote.helpers import DIM, new_shard
from tests.mutations import mutated

SECONDS, BYTES = 2.0, 64 << 20
_NUMBERS = (0, 1, 2, 7, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_BUGS = ("ValueError", "KeyError", "TypeError", "OverflowError", "IndexError", "MemoryError", "struct")
_FIELDS = ("worker", "incarnation", "sequence", "count", "dense")


class _Frame:
    """What the server sees of a frame of ZeroMQ's."""

    def __init__(self, data: bytes) -> None:
        self.buffer = memoryview(data)


def message(rng: random.Random, model: bytes) -> list[bytes]:
    """A message of some kind that nearly is one."""
    kind = rng.choice(list(Kind))
    fields: dict[str, Any] = {name: rng.choice(_NUMBERS) for name in _FIELDS if rng.random() < 0.3}
    header = Header(kind, 1, model, dim=DIM, lr=rng.choice([0.1, 0.0, float("nan"), float("inf"), -1e300]))
    for name, value in fields.items():
        setattr(header, name, value)
    small = header.count < 100 and header.dense < 100
    frames = [np.zeros(shape, dtype).tobytes() for _, dtype, shape in header.shapes()] if small else []
    frames = [mutated(frame, rng) if frame and rng.random() < 0.3 else frame for frame in frames]
    packed = header.packed()
    whole = [mutated(packed, rng) if rng.random() < 0.2 else packed, *frames]
    if rng.random() < 0.1:
        whole += [b""] * rng.randint(1, 1000)
    return whole


def findings(folder: Path, seed: int, count: int) -> list[str]:
    """What went wrong with so many inputs."""
    shard = new_shard(folder)
    server = Server(shard)
    found = []
    for number in range(seed, seed + count):
        rng = random.Random(number)
        frames = [_Frame(part) for part in message(rng, shard.model)]
        start = time.monotonic()
        tracemalloc.start()
        reply = server._handle([], frames)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        seconds = time.monotonic() - start
        server._late.clear()  # what takes long; each would be a checkpoint
        if reply is not None and reply[0].kind == Kind.ERROR and b'["StateError", "shard: ' in bytes(reply[1][0]):
            text = bytes(reply[1][0]).decode()
            if any(
                f"shard: {name}" in text for name in ("ValueError", "KeyError", "TypeError", "OverflowError", "struct")
            ):
                found.append(f"seed {number}: {text}")
        if seconds > SECONDS or peak > BYTES:
            found.append(f"seed {number}: {seconds:.1f} s, {peak >> 20} MB")
    server._router.close()
    server._context.destroy(linger=0)
    shard.checkpoint()
    shard.close()
    new_shard(folder).close()
    return found


def main() -> int:
    """Try until the time is over; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    end, seed, tried = time.monotonic() + asked.seconds, asked.seed, 0
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            found = findings(Path(folder) / "shard", seed + tried, 2000)
        tried += 2000
        if found:
            print("\n".join(found[:20]))
            return 1
    print(f"{tried} messages from seed {seed}: nothing found")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
