"""A batch of the detection cases (tools/bench_cases/detection.py) as torchvision's detectors take it."""

from __future__ import annotations

import sys
from typing import Any

from common import ROOT

sys.path.insert(0, str(ROOT))


def detection_batch(count: int, side: int, device: str = "cpu", *, masks: bool = False) -> tuple[list[Any], list[Any]]:
    """Pictures [3, side, side] and, of each, its real objects: boxes, labels from 1, with `masks` their shapes."""
    import torch

    from tools.bench_cases.detection import detection_arrays, ellipses

    images, boxes, classes, _ = detection_arrays(count, side)
    pictures = [torch.from_numpy(x.transpose(2, 0, 1).copy()).to(device) for x in images]
    targets = []
    for b, c in zip(boxes, classes, strict=True):
        real = b[:, 2] > 0
        arrays = {"boxes": b[real], "labels": c[real] + 1}
        if masks:
            arrays["masks"] = ellipses(b[real], side).astype("uint8")
        targets.append({name: torch.from_numpy(array).to(device) for name, array in arrays.items()})
    return pictures, targets
