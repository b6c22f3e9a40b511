#!/usr/bin/env python3
"""Claim: large layers whose input has 16 bits take less time than in float32; how much, beside those of 8 bits.

    taskset -c 0 python benchmarks/sixteen_bits_layers.py [--rounds 15]

One thread, random numbers, the three ways in turns; a time is the median of the rounds, each the mean of 6 calls. The
rounding of float32 to 16 bits, and of rows to 8, is part of the time; images of 8 bits come as such.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import framework
from framework import ops
from framework.ops import internal
from framework.quantization.weights import widest

CALLS = 6
DEPTHWISE = ((112, 32, 3), (28, 192, 3), (14, 384, 3), (7, 960, 5))  # H = W, C = K, R = S
CONVOLUTIONS = ((14, 1024, 256, 1), (7, 512, 512, 3), (28, 128, 128, 3), (56, 24, 144, 1))  # H = W, C, K, R = S
PRODUCTS = ((32, 768, 768), (128, 3072, 768))  # rows, C, K


def program_of(function: Callable[..., Any], *constants: np.ndarray) -> Callable[[Any], Any]:
    """A Program of its first argument, the others being constants."""
    held = [framework.tensor(c) for c in constants]
    for t in held:
        t.persistable = True
    with framework.no_grad():
        return framework.program(lambda x: function(x, *held), pass_names=("freeze_states",))


def microseconds(ways: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Medians of the ways, in turns."""
    times: list[list[float]] = [[] for _ in ways]
    for way in ways:
        way()
    for _ in range(rounds):
        for found, way in zip(times, ways, strict=True):
            started = time.perf_counter()
            for _ in range(CALLS):
                way()
            found.append((time.perf_counter() - started) / CALLS)
    return [float(np.median(t)) * 1e6 for t in times]


def convolution(size: int, channels: int, filters: int, taps: int, rounds: int, groups: int = 1) -> list[float]:
    """float32, 16 bits, 8 bits."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, size, size, channels)).astype(np.float32)
    q = rng.integers(-127, 128, (filters, taps, taps, channels // groups)).astype(np.int8)
    scale, most = np.full(filters, 0.01, np.float32), widest(q)
    window: dict[str, Any] = {"padding": taps // 2, "groups": groups}
    whole = program_of(lambda x, w: ops.conv2d(x, w, **window), q * np.float32(0.01))
    words: dict[str, Any] = {"x_scale": 5 / most, "x_most": most, "dtype": "float32"}
    sixteen = program_of(lambda x, w, s: internal.quantized_conv2d(x, w, s, **words, **window), q, scale)
    steps: dict[str, Any] = {"x_scale": 0.02, "x_zero": 128, "y_scale": 10.0, "y_zero": 128}
    eight = program_of(lambda x, w, s: internal.quantized_conv2d(x, w, s, **steps, **window), q, scale)
    image, octets = framework.from_numpy(x), framework.from_numpy(rng.integers(0, 256, x.shape).astype(np.uint8))
    return microseconds([lambda: whole(image), lambda: sixteen(image), lambda: eight(octets)], rounds)


def product(rows: int, columns: int, outputs: int, rounds: int) -> list[float]:
    """float32, 16 bits, 8 bits; each row with a scale of its own."""
    rng = np.random.default_rng(0)
    x = framework.from_numpy(rng.standard_normal((rows, columns)).astype(np.float32))
    q = rng.integers(-127, 128, (outputs, columns)).astype(np.int8)
    scale, most = np.full(outputs, 0.01, np.float32), widest(q)
    whole = program_of(ops.matmul, np.ascontiguousarray(q.T * np.float32(0.01)))
    sixteen, eight = (
        program_of(lambda x, w, s, n=n: internal.quantized_matmul(x, w, s, x_most=n), q, scale) for n in (most, 127)
    )
    return microseconds([lambda: whole(x), lambda: sixteen(x), lambda: eight(x)], rounds)


def main(words: list[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    a = parser.parse_args(words)
    framework.set_num_threads(1)
    print("microseconds\n| | float32 | 16 bits | | 8 bits | |\n|" + " --- |" * 6)
    for size, c, k, r in CONVOLUTIONS:
        whole, sixteen, eight = convolution(size, c, k, r, a.rounds)
        row(f"{size} x {size} x {c}, {r} x {r} x {k}", whole, sixteen, eight)
    for size, c, r in DEPTHWISE:
        row(f"{size} x {size} x {c}, depthwise {r} x {r}", *convolution(size, c, c, r, a.rounds, c))
    for rows, c, k in PRODUCTS:
        row(f"rows {rows} x {c} x {k}", *product(rows, c, k, a.rounds))


def row(name: str, whole: float, sixteen: float, eight: float) -> None:
    """Print one."""
    cells = [f"{whole:,.0f}", f"{sixteen:,.0f}", f"{whole / sixteen:.1f}x", f"{eight:,.0f}", f"{whole / eight:.1f}x"]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
