#!/usr/bin/env python3
"""Claim: our cubic interpolation of pictures is not slower than OpenCV's, and differs by at most 1 of 255.

    python benchmarks/picture_resizing.py

Both work on one thread, in turns. OpenCV's wheels for x86-64 hand this to Intel's IPP. Crops of objects are told too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framework
from framework.pictures import resize_cubic, warp_affine

ROUNDS = 51


def compared(what: str, theirs: Callable[[], np.ndarray], ours: Callable[[], np.ndarray]) -> None:
    """One line: medians and least times in milliseconds, the ratio, and how far results are apart."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, taken in zip((theirs, ours), seconds, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    apart = np.abs(theirs().astype(int) - ours())
    middle, least = ([1000 * f(s) for s in seconds] for f in (statistics.median, min))
    print(
        f"{what:40} OpenCV {middle[0]:.2f} (least {least[0]:.2f}) ms, ours {middle[1]:.2f} (least {least[1]:.2f}) ms, "
        f"{least[0] / least[1]:.2f} times as fast; at most {apart.max()} apart, {(apart > 0).mean():.2%} of bytes"
    )


def main() -> None:
    """Pictures of several sizes to 800 x 1333, and a crop."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    cv2.setNumThreads(1)
    framework.set_num_threads(1)
    rng = np.random.default_rng(0)
    for size in ((480, 640), (600, 1000), (1080, 1920)):
        image = rng.integers(0, 256, (*size, 3), np.uint8)
        compared(
            f"{size[0]}x{size[1]} to 800x1333, cubic",
            lambda: cv2.resize(image, (1333, 800), interpolation=cv2.INTER_CUBIC),  # noqa: B023
            lambda: resize_cubic(image, (800, 1333)),  # noqa: B023
        )
    step = np.array([[0.4, 0, -100], [0, 0.4, -50]])
    centres = step.copy()
    centres[:, 2] += step[:, :2] @ [0.5, 0.5] - 0.5
    compared(
        "a crop of 256x192 from 1080x1920",
        lambda: cv2.warpAffine(image, centres, (192, 256), flags=cv2.INTER_LINEAR),
        lambda: warp_affine(image, step, (256, 192)),
    )


if __name__ == "__main__":
    main()
