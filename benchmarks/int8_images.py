#!/usr/bin/env python3
"""Claim: an image network in 8 bits is 1.5 to 2 times as fast as in float32, and as fast as engines on its file.

    python benchmarks/int8_images.py [CASE ...] [--rounds 5] [--threads 2] [--peer-python PYTHON]

Random weights, one image, static ranges: ours in float32 and in 8 bits, and ONNX Runtime and OpenVINO on the same 8-bit
network (QDQ) and on the float one, in turns on the same threads. PYTHON has onnxruntime installed, and openvino if it
is to be compared; without onnxruntime both are left out and said so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import has_modules
from int8_turns import ENGINES, Peer, in_rounds, run_cases, timed, traced

from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.nn import Layer
from framework.onnx import EXPORT_PASSES, export
from framework.quantization import quantize
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.vision.backbones import DarkNet53, EfficientNetLite, MobileNetV2, ResNet

# A network, pixels of a side, and how much faster 8 bits are to be.
CASES: dict[str, tuple[Callable[[], Layer], int, float]] = {
    "resnet50_224": (lambda: ResNet(depth=50), 224, 2.0),
    "mobilenetv2_224": (MobileNetV2, 224, 1.5),
    "efficientnet_lite0_224": (lambda: EfficientNetLite(0), 224, 1.5),
    "darknet53_416": (DarkNet53, 416, 1.5),
    "deeplabv3p_mobilenetv2_512": (
        lambda: DeepLabV3Plus(MobileNetV2(out_strides=(4, 16), output_stride=16), 19),
        512,
        1.5,
    ),
}


def measure(case: str, rounds: int, threads: int, python: str | None) -> dict[str, Any]:
    """Milliseconds of every competitor by round."""
    make, size, least = CASES[case]
    net = make().eval()
    x = np.random.default_rng(0).standard_normal((1, size, size, 3)).astype(np.float32)

    def small(whole: Program) -> Program:
        return quantize(whole, mode="static", calibration=[[x]], method="percentile")

    whole = traced(net, INFERENCE_PASSES, {"x": x})
    ours = {"float": timed(whole, [x]), "int8": timed(small(whole), [x])}
    with tempfile.TemporaryDirectory() as name:
        peers, folder = [], Path(name)
        if python is not None:
            theirs = traced(net, EXPORT_PASSES, {"x": x})
            export(theirs, folder / "float.onnx")
            export(small(theirs), folder / "int8.onnx")
            engines = [engine for engine in ENGINES if has_modules(python, engine)]
            peers = [Peer(folder, {"x": x}, python, threads, engine=engine) for engine in engines]
        return {"case": case, "milliseconds": in_rounds(ours, peers, rounds), "least": least}


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by case."""
    return run_cases("int8_images", __doc__, CASES, measure, ("onnxruntime",), words)


if __name__ == "__main__":
    main()
