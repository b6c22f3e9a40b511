#!/usr/bin/env python3
"""Claim: reading 10,000 pictures of all sizes takes no more memory than reading the first 1,000.

    paddock zoo fetch ocr
    python benchmarks/ocr_memory.py [--pictures 10000] [--side 320]

Pictures are parts of ICDAR 2015's test photographs, 48 to 480 pixels a side, each of another size, as a reader of
strangers' files sees them; every tenth has one colour. PP-OCRv4 finds, turns and reads their lines, their shorter side
enlarged to `--side` pixels (736 as it ships). Printed is the resident memory of the process after each tenth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import ROOT, resident

sys.path.insert(0, str(ROOT))

from ocr_vs_rapidocr import photographs

MOST_SIDE, LEAST_SIDE = 480, 48


def part_of(photos: list[np.ndarray], rng: np.random.Generator, plain: bool) -> np.ndarray:
    """A part of a photograph, of a size drawn evenly, or a picture of one colour."""
    height, width = (int(side) for side in rng.integers(LEAST_SIDE, MOST_SIDE + 1, 2))
    if plain:
        return np.full((height, width, 3), rng.integers(0, 256, 3), np.uint8)
    photo = photos[int(rng.integers(len(photos)))]
    top, left = (
        int(rng.integers(0, most - side + 1)) for most, side in zip(photo.shape, (height, width), strict=False)
    )
    return np.ascontiguousarray(photo[top : top + height, left : left + width])


def main() -> None:
    """Read, and print the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=320)
    a = parser.parse_args()
    from suites import engine
    from suites.engine.cli.zoo import main as zoo
    from suites.vision.pictures.images import read_image

    with tempfile.TemporaryDirectory() as folder:
        zoo(["run", "ocr", "--output", f"{folder}/reader", "-o", f"reading.least_side={a.side}"])
        model = engine.load(f"{folder}/reader")
        photos = [read_image(path) for path in photographs(Path(folder), 75)]
    rng, start, lines = np.random.default_rng(0), time.monotonic(), 0
    for k in range(a.pictures):
        lines += len(model(part_of(photos, rng, plain=k % 10 == 9))[0].to_json())
        if (k + 1) % max(1, a.pictures // 10) == 0:
            told = f"{k + 1:,} pictures, {lines:,} lines, {(time.monotonic() - start) / 60:.1f} minutes"
            print(f"{told}: {resident():.0f} MB", flush=True)


if __name__ == "__main__":
    main()
