#!/usr/bin/env python3
"""Claim: inference is faster than with the best of PyTorch, ONNX Runtime and OpenVINO.

    python benchmarks/inference_vs_engines.py [CASE ...] --peer-python PYTHON

Each round runs tools/bench.py, PyTorch in every mode (peers/torch_cases.py), and the engines on the ONNX
export of PyTorch's network (peers/engine_cases.py), in float32 on the same shapes.
"""

from __future__ import annotations

import argparse
import sys

from common import PEERS, Claim, Competitor, has_modules
from competitors import compare_cases, options, ours, torch_modes

CLAIMS = [
    Claim("yolov3_darknet53_infer_b1_416", 1.4, 1.8),
    Claim("resnet50_infer_b1_224", 1.05, 1.3),
    Claim("vit_s16_infer_b1_224", 1.05, 1.3),
    Claim("swin_t_infer_b1_224", 1.05, 1.3),
    Claim("convnext_t_infer_b1_224", 1.05, 1.3),
    Claim("deeplabv3p_mobilenetv2_infer_b1_512", 1.05, 1.3),
    Claim("bert_base_infer_b8_mixed", 2.2, 3.0),
    Claim("deepfm_infer_b512", 1.05, 1.15),
]
# What each peer's interpreter needs, and how to get it.
ENGINES = {
    "ort": (("torch", "onnx", "onnxscript", "onnxruntime"), "pip install torch==2.13.0 onnx onnxscript onnxruntime"),
    "openvino": (("torch", "onnx", "onnxscript", "openvino"), "pip install torch==2.13.0 onnx onnxscript openvino"),
}


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours and every peer that is installed; says how to install the others."""
    found = [ours(case, a), *torch_modes(case, a)]
    for engine, (modules, install) in ENGINES.items():
        if has_modules(a.peer_python, *modules):
            peer = [a.peer_python, str(PEERS / "engine_cases.py")]
            found.append(Competitor(engine, [*peer, "--engine", engine, *options(case, a)]))
        else:
            print(f"{engine} is left out: {a.peer_python} lacks it; {install}, and see --peer-python", file=sys.stderr)
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_cases("inference_vs_engines", __doc__, CLAIMS, competitors, words)


if __name__ == "__main__":
    main()
