"""Damaged files for every reader: `python -m tests.mutations --count 10000` (or `--seconds 3600`) reads so many.

Each file is a whole one of `tests.seeds` with some bytes changed, cut out, doubled or put elsewhere, or with numbers in
it replaced by extreme ones. What is told: an error that is not ours, a death, more than 2 seconds of computing, more
than 300 MB of memory over that at rest. The files are read in processes of their own, so that each death has its seed.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests import bombs
from tests.seeds import whole_files

SECONDS, BYTES = 2.0, 300 << 20  # that one input may take
_CHUNK = 2000  # inputs of one process
_NUMBERS = (
    b"0",
    b"-1",
    b"1e400",
    b"1e-400",
    b"4294967296",
    b"9223372036854775807",
    b"null",
    b"[]",
    b'""',
    b"true",
    b"{}",
)
_WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 3_000_000, 15_008, 8000)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four changes."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 1, 1, 2, 4, 16, 200))
        kind = rng.randrange(8)
        if kind == 0:
            found[at : at + size] = rng.randbytes(len(found[at : at + size]))
        elif kind == 1:
            del found[at : at + size]
        elif kind == 2:
            found[at:at] = found[at : at + size] * rng.choice((1, 2, 50))
        elif kind == 3:
            found[at : at + size] = rng.choice((b"\xff", b"\0", b"\x7f", b"9", b"-", b"[", b"\x80")) * size
        elif kind in (4, 5):
            _put_number(found, at, rng)
        elif kind == 6:
            _put_text(found, rng)
        else:
            del found[at : len(found) if rng.random() < 0.3 else at + 1]
    return bytes(found)


def _put_number(found: bytearray, at: int, rng: random.Random) -> None:
    """An extreme number over some bytes, in either order, or as protobuf writes it."""
    word, width = rng.choice(_WORDS), rng.choice((1, 2, 4, 8))
    if rng.random() < 0.3:
        digits = bytearray()
        while word > 0x7F:
            digits.append(word & 0x7F | 0x80)
            word >>= 7
        found[at : at + 1] = bytes([*digits, word])
    else:
        raw = (word & (1 << 8 * width) - 1).to_bytes(width, rng.choice(("little", "big")))
        found[at : at + width] = raw


def _put_text(found: bytearray, rng: random.Random) -> None:
    """Something else in the place of a number or word of a text."""
    places = [m.span() for m in re.finditer(rb"-?\d+|\"[^\"]*\"|[A-Za-z]+", bytes(found[:4096]))]
    if places:
        start, end = rng.choice(places)
        found[start:end] = rng.choice(_NUMBERS)


def read_damaged(seeds: range, kinds: list[str], at: Path) -> list[str]:
    """Reads the inputs of these seeds; returns what is told of them. `at` holds the seed that is under way."""
    files, told, counts = list(whole_files(kinds)), [], collections.Counter[str]()
    seconds, grown = 0.0, 0
    resource.setrlimit(resource.RLIMIT_DATA, (bombs.BYTES + bombs.data_now(),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        for kind, whole in files:  # a reader's first file imports what it reads with
            bombs.write(lambda f=whole: f, Path(folder) / "whole")
            judged(kind, Path(folder) / "whole" / next(iter(whole)))
        for seed in seeds:
            kind, whole = files[seed % len(files)]
            rng = random.Random(seed)
            name = rng.choice(sorted(whole))
            at.write_text(f"seed {seed}, {kind} {name}")
            place = Path(folder) / str(seed % len(files))
            bombs.write(lambda f=whole, n=name, r=rng: f | {n: mutated(f[n], r)}, place)
            found = judged(kind, place / next(iter(whole)))
            counts[found.became] += 1
            seconds, grown = max(seconds, found.seconds), max(grown, found.grown)
            told += [f"{at.read_text()}: {fault}" for fault in found.told]
    print(f"{dict(counts)}, at most {seconds:.2f} s and {grown >> 20} MB", *told, sep="\n", flush=True)
    return told


class Judged(NamedTuple):
    """What a reader made of a file.

    Attributes:
        became: read, refused or failed.
        seconds: of computing.
        grown: bytes of memory over that at rest, at most.
        told: what is wrong.
    """

    became: str
    seconds: float
    grown: int
    told: list[str]


def judged(kind: str, path: Path) -> Judged:
    """Read a file within its limits."""
    from framework.errors import PaddockError

    told, became = [], "read"
    rest, start = _reset_peak(), time.process_time()
    try:
        with bombs.within(bombs.SECONDS):
            bombs.READERS[kind](path)
    except PaddockError:
        became = "refused"
    except BaseException as error:
        became = "failed"
        told.append(f"{type(error).__name__}: {error}"[:300])
    if (taken := time.process_time() - start) > SECONDS:
        told.append(f"{taken:.1f} seconds")
    if (grown := _memory("VmHWM") - rest) > BYTES:
        told.append(f"{grown >> 20} MB")
    return Judged(became, taken, grown, told)


def _reset_peak() -> int:
    """The memory in use now, from which the peak counts again."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(what: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(what))


def main(words: list[str]) -> int:
    """Reads damaged files; the status is 1 where something is told."""
    parser = argparse.ArgumentParser(prog="tests.mutations", description=__doc__)
    parser.add_argument("--count", type=int, default=sys.maxsize, help="inputs in all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no more are begun")
    parser.add_argument("--seed", type=int, default=0, help="of the first input")
    parser.add_argument("--kinds", nargs="*", default=[], choices=list(bombs.READERS), help="of readers; default all")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args(words)
    if a.inside:
        return bool(read_damaged(range(a.seed, a.seed + a.count), a.kinds, a.inside))
    end, start, found = a.seed + a.count, time.monotonic(), False
    while a.seed < end and time.monotonic() - start < a.seconds:
        count = min(_CHUNK, end - a.seed)
        found |= _chunk(a.seed, count, a.kinds)
        a.seed += count
    return int(found)


def _chunk(seed: int, count: int, kinds: list[str]) -> bool:
    """Reads inputs in a process; one that dies is told with its seed, and the rest is read by another."""
    with tempfile.NamedTemporaryFile() as at:
        words = [
            "--seed",
            str(seed),
            "--count",
            str(count),
            "--inside",
            at.name,
            *(["--kinds", *kinds] if kinds else []),
        ]
        status = subprocess.run([sys.executable, "-m", "tests.mutations", *words]).returncode
        if status in (0, 1):
            return status == 1
        under_way = Path(at.name).read_text()
        print(f"{under_way}: died with {status}", flush=True)
        dead = int(under_way.split()[1].rstrip(","))
        left = seed + count - dead - 1
        return _chunk(dead + 1, left, kinds) or True if left else True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
