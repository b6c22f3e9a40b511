#!/usr/bin/env python3
"""Claim: RoIAlign, deformable convolution and NMS run at least twice as fast as torchvision's operators on a CPU.

    python benchmarks/detection_ops_vs_torchvision.py [CASE ...] --peer-python PYTHON

The peer's interpreter has torch and torchvision; `scripts/stub_torchvision` makes a CUDA build of torchvision load
where torch is CPU-only. Each side has its own layout (NHWC, NCHW) and its own best use of --threads threads.

What a case costs at least, so that a figure can be judged (float32, 2 cores with AVX2 at 2.5 GHz: 160 G multiply-adds
a second in registers, some 40 GB/s from the outer caches):

    roi_align_forward      1024 regions of 4 to 32 pixels a side, 7 x 7 bins of 2 x 2 points, 256 channels. By the
                           definition 16 reads a channel and bin, 205 M multiply-adds. Points merged along each axis
                           leave about 9, 115 M: 1 ms in registers. The pixels read are 0.3 GB and y is 51 MB: 9 ms.
    roi_align_backward     The same sums the other way: dy is read (51 MB), every pixel of a region read and written
                           (0.6 GB, half of it in caches), the map's gradient zeroed and written (67 MB): 15 ms.
    deform_conv2d_forward  Two images of 32 x 32, 3 x 3 taps, 256 to 256 channels: 1.2 G multiply-adds of the product,
                           8 ms in registers and, as packed products go, about 12; 19 M interpolated values: 1 ms.
    deform_conv2d_backward Two such products, 16 ms to 24, and the reads and writes of four pixels a value: 5 ms.
    nms_2000, nms_10000    Boxes of 10 to 200 pixels in a square of 1000, IoU 0.5: about (kept)^2 / 2 pairs at 8 a
                           cycle and some ten instructions each: 0.5 ms and 6 ms on one core.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, run_claims, time_steps, two_sided

CLAIMS = [
    Claim("roi_align_forward", 2.0, 10.0),
    Claim("roi_align_backward", 2.0, 10.0),
    Claim("deform_conv2d_forward", 2.0, 4.0),
    Claim("deform_conv2d_backward", 2.0, 4.0),
    Claim("nms_2000", 2.0, 10.0),
    Claim("nms_10000", 2.0, 10.0),
]
IMAGES, REGIONS, SIDE, CHANNELS, STRIDE, BINS = 2, 512, 128, 256, 4.0, 7
DEFORMED = 32  # height and width of deform_conv2d's images


def boxes_of(count: int, seed: int, extent: float, low: float, high: float) -> np.ndarray:
    """Boxes float32 [count, 4] in a square picture of that extent, of sides from low to high: the same for all."""
    rng = np.random.default_rng(seed)
    side = rng.uniform(low, high, (count, 2))
    corner = rng.uniform(0, extent - side)
    return np.concatenate([corner, corner + side], 1).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def rois() -> np.ndarray:
    """The boxes of roi_align [N * R, 4]."""
    return boxes_of(IMAGES * REGIONS, 1, SIDE * STRIDE, 4 * STRIDE, 32 * STRIDE)


def ours(case: str, threads: int) -> Callable[[], object]:
    """One call of ours."""
    sys.path.insert(0, str(ROOT))
    import framework
    from framework import ops, tensor
    from framework.ops import internal

    framework.set_num_threads(threads)
    if case.startswith("nms"):
        count = int(case.split("_")[1])
        boxes = tensor(boxes_of(count, 2, 1000, 10, 200))
        scores = tensor(np.random.default_rng(3).random(count, np.float32))
        return lambda: ops.nms(boxes, scores, iou_threshold=0.5, max_outputs=count)
    if case.startswith("roi"):
        x, boxes = tensor(normal(IMAGES, SIDE, SIDE, CHANNELS)), tensor(rois().reshape(IMAGES, REGIONS, 4))
        window: dict[str, Any] = {"size": BINS, "strides": STRIDE, "sampling": 2, "aligned": True}
        if case.endswith("forward"):
            return lambda: ops.roi_align(boxes, None, [x], **window)
        dy = tensor(normal(IMAGES * REGIONS, BINS, BINS, CHANNELS, seed=4))
        return lambda: internal.roi_align_grad(dy, boxes, None, [x], **window)
    size = (IMAGES, DEFORMED, DEFORMED)
    x, weight = tensor(normal(*size, CHANNELS)), tensor(normal(CHANNELS, 3, 3, CHANNELS, seed=5))
    offset, mask = tensor(normal(*size, 18, seed=6)), tensor(normal(*size, 9, seed=7))
    if case.endswith("forward"):
        return lambda: ops.deform_conv2d(x, offset, weight, mask, padding=1)
    dy = tensor(normal(*size, CHANNELS, seed=8))
    return lambda: internal.deform_conv2d_grad(dy, x, offset, weight, mask, padding=1)


def torchvision_ops() -> Any:
    """The module torchvision.ops, with the stubs of scripts/stub_torchvision where there are any."""
    import torch

    for stub in ("libcudart.so.13", "libc10_cuda.so", "libtorch_cuda.so"):
        path = Path(torch.__file__).parent / "lib" / stub
        if path.exists():
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    import torchvision.ops

    return torchvision.ops


def theirs(case: str, threads: int) -> Callable[[], object]:
    """One call of torchvision's."""
    import torch

    peer = torchvision_ops()
    torch.set_num_threads(threads)
    tensor = torch.from_numpy
    if case.startswith("nms"):
        count = int(case.split("_")[1])
        boxes = tensor(boxes_of(count, 2, 1000, 10, 200))
        scores = tensor(np.random.default_rng(3).random(count, np.float32))
        return lambda: peer.nms(boxes, scores, 0.5)
    if case.startswith("roi"):
        x = tensor(normal(IMAGES, CHANNELS, SIDE, SIDE))
        image = np.repeat(np.arange(IMAGES, dtype=np.float32), REGIONS)[:, None]
        boxes = tensor(np.concatenate([image, rois()], 1))
        inputs = [x]
        call = lambda: peer.roi_align(x, boxes, BINS, 1 / STRIDE, 2, True)  # noqa: E731
    else:
        x, weight = tensor(normal(IMAGES, CHANNELS, DEFORMED, DEFORMED)), tensor(normal(CHANNELS, CHANNELS, 3, 3))
        offset, mask = (tensor(normal(IMAGES, n, DEFORMED, DEFORMED, seed=6)) for n in (18, 9))
        inputs = [x, offset, weight, mask]
        call = lambda: peer.deform_conv2d(x, offset, weight, padding=1, mask=mask)  # noqa: E731
    if case.endswith("forward"):
        return torch.no_grad()(call)
    for value in inputs:
        value.requires_grad_()
    y = call()
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def run(a: argparse.Namespace) -> None:
    """Time one side of a case and print the JSON line that `common.measure` reads."""
    found = time_steps((ours if a.side == OURS else theirs)(a.cases[0], a.threads), a.seconds)
    print(json.dumps({"rate": round(1e3 / found["step_ms"], 3), "unit": "calls/s", **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and torchvision where it is installed."""
    return two_sided(__file__, case, "torchvision", ("torch", "torchvision"), a)


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims("detection_ops_vs_torchvision", __doc__, CLAIMS, competitors, run, words, baseline="torchvision")


if __name__ == "__main__":
    main()
