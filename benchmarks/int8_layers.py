#!/usr/bin/env python3
"""Claim: without byte dot products an exact Winograd makes 3 x 3 layers in 8 bits 1.7 to 3.1 times as fast.

    python benchmarks/int8_layers.py [--rounds 5] [--threads 1]

Convolutions of uint8 with relu, their weights constants of a Program: by products of 16-bit numbers ("widening"), as
the kernel chooses ("auto"), and by the transforms ("winograd") where these exist, in turns. Printed are milliseconds
and billions of multiply-adds a second, counted by the definition. On a processor with VNNI "auto" is its instructions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np
from common import ROOT, spread

sys.path.insert(0, str(ROOT))

from int8_turns import timed, traced

import framework
from framework import ops
from framework.graph.passes import INFERENCE_PASSES
from framework.ops import internal

# Pixels of a side, channels, filters, taps of a side, groups.
LAYERS: list[tuple[int, ...]] = [
    (56, 64, 64, 3, 1),
    (28, 128, 128, 3, 1),
    (14, 256, 256, 3, 1),
    (7, 512, 512, 3, 1),
    (14, 1024, 256, 1, 1),
    (14, 256, 1024, 1, 1),
    (56, 24, 144, 1, 1),
    (112, 16, 96, 1, 1),
    (112, 32, 32, 3, 32),
    (14, 384, 384, 3, 384),
]
WAYS = ("widening", "auto", "winograd")


def layer(shape: Sequence[int], way: str) -> Callable[[], float]:
    """What gives the median milliseconds of some runs of a layer."""
    side, channels, filters, taps, groups = shape
    rng = np.random.default_rng(0)
    weight = framework.from_numpy(rng.integers(-127, 128, (filters, taps, taps, channels // groups)).astype(np.int8))
    scale = framework.from_numpy(np.full(filters, 1e-3, np.float32))
    x = rng.integers(0, 256, (1, side, side, channels)).astype(np.uint8)

    def convolution(x: framework.Tensor) -> framework.Tensor:
        y = internal.quantized_conv2d(
            x, weight, scale, None, None, padding=taps // 2, groups=groups, x_scale=0.1, x_zero=3, y_scale=0.5,
            y_zero=0, activation="relu", algorithm=way,
        )  # fmt: skip
        return ops.reshape(y, (-1,))

    return timed(traced(convolution, INFERENCE_PASSES, {"x": x}), [x])


def main(words: Sequence[str] | None = None) -> dict[tuple[tuple[int, ...], str], list[float]]:
    """Measure in turns, print the table and return the milliseconds by layer and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args(words)
    framework.set_num_threads(a.threads)
    print("| image x filters | way | ms | multiply-adds a second | |\n| --- | --- | --- | --- | --- |")
    found: dict[tuple[tuple[int, ...], str], list[float]] = {}
    for shape in LAYERS:
        side, channels, filters, taps, groups = shape
        ways = WAYS if taps == 3 and groups == 1 else WAYS[:2]
        runs = {way: layer(shape, way) for way in ways}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(a.rounds):
            for way, run in runs.items():
                times[way].append(run())
        products = side * side * filters * taps * taps * channels // groups
        for way, each in times.items():
            median = float(np.median(each))
            name = f"{side} x {side} x {channels}, {taps} x {taps} x {filters}" + (", depthwise" if groups > 1 else "")
            ratio = float(np.median(times["widening"])) / median
            print(f"| {name} | {way} | {spread(each)} | {products / median / 1e6:.0f} billion | {ratio:.2f} |")
            found[shape, way] = each
    return found


if __name__ == "__main__":
    main()
