"""Damaged files for every reader: `python -m tests.mutations COUNT` reads so many, and says what was no error of ours.

Each file is a whole one with some bytes changed, cut out, doubled or put elsewhere.
"""

from __future__ import annotations

import collections
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests import bombs

DATA = Path(__file__).parent / "suites/engine/weights/data"


def whole_files() -> Iterator[tuple[str, dict[str, bytes]]]:
    """(kind of reader, files by name)."""
    from safetensors.numpy import save

    from suites.vision.images import encode_image

    image = np.random.default_rng(0).integers(0, 255, (9, 7, 3), np.uint8)
    for suffix in (".png", ".jpg", ".bmp", ".webp", ".tiff", ".ppm"):
        yield "image", {f"x{suffix}": encode_image(image, suffix)}
    for name in ("torch_zip.bin", "torch_legacy.bin"):
        yield "weights", {name: (DATA / name).read_bytes()}
    yield "weights", {"x.safetensors": save({"a": np.ones((2, 3), np.float32), "b": np.arange(4)})}
    yield "source", {"x.zip": bytes(bombs.zip_of(b"content " * 40))}
    yield "program", bombs.program([bombs.operation("pad", [0], [1], pads=[0, 3])], results=[1])
    yield "program", bombs.endless()
    yield "onnx", bombs.chain_of(3, "v2")
    yield "config", {"x.yml": b"a: {b: [1, 2, {id: x, v: 5e-4}], c: text}\nd: ${a.b[x].v}\ne: x${a.c}y\n"}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to four changes."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 1, 1, 2, 4, 16, 200))
        kind = rng.randrange(5)
        if kind == 0:
            found[at : at + size] = rng.randbytes(len(found[at : at + size]))
        elif kind == 1:
            del found[at : at + size]
        elif kind == 2:
            found[at:at] = found[at : at + size] * rng.choice((1, 2, 50))
        elif kind == 3:
            found[at : at + size] = rng.choice((b"\xff", b"\0", b"\x7f", b"9", b"-", b"[", b"\x80")) * size
        else:
            del found[at : len(found) if rng.random() < 0.3 else at + 1]
    return bytes(found)


def read_mutated(count: int, seed: int = 0) -> tuple[collections.Counter[str], list[str]]:
    """Read so many damaged files; returns how many were read and refused, and what else happened."""
    from framework.errors import PaddockError

    seeds, told, counts = list(whole_files()), [], collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            rng = random.Random(seed + number)
            kind, files = seeds[number % len(seeds)]
            name = rng.choice(sorted(files))
            bombs.write(lambda f=files, n=name, r=rng: f | {n: mutated(f[n], r)}, Path(folder))
            start = time.monotonic()
            try:
                with bombs.within(bombs.SECONDS):
                    bombs.READERS[kind](Path(folder) / next(iter(files)))
                counts["read"] += 1
            except PaddockError:
                counts["refused"] += 1
            except BaseException as error:
                told.append(f"seed {seed + number}, {kind} {name}: {type(error).__name__}: {error}"[:300])
            counts["slow"] += time.monotonic() - start > 2
    return counts, told


def main(words: list[str]) -> Any:
    """Read damaged files under a limit of memory; the status is 1 where a reader failed by no error of ours."""
    list(whole_files())
    resource.setrlimit(resource.RLIMIT_DATA, (bombs.BYTES + bombs.data_now(),) * 2)
    counts, told = read_mutated(int(words[0]), int(words[1]) if len(words) > 1 else 0)
    print(dict(counts), *told, sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
