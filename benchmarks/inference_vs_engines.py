#!/usr/bin/env python3
"""Claim: inference is faster than with the best of PyTorch, ONNX Runtime and OpenVINO.

    python benchmarks/inference_vs_engines.py [CASE ...] --peer-python PYTHON

Each round runs tools/bench.py, PyTorch in every mode (../shared/bench/peer_torch.py), and the engines on the ONNX
export of PyTorch's network (../shared/bench/peer_inference.py), in float32 on the same shapes.
"""

from __future__ import annotations

import argparse
import sys

from common import OURS, Claim, Competitor, add_options, chosen_cases, compare, finish, has_modules, in_turns, table
from training_vs_torch import MODES

CLAIMS = [
    Claim("yolov3_darknet53_infer_b1_416", 1.4, 1.8),
    Claim("resnet50_infer_b1_224", 1.05, 1.3),
    Claim("deeplabv3p_mobilenetv2_infer_b1_512", 1.05, 1.3),
]
# What each peer's interpreter needs, and how to get it.
ENGINES = {
    "ort": (("torch", "onnx", "onnxscript", "onnxruntime"), "pip install torch==2.13.0 onnx onnxscript onnxruntime"),
    "openvino": (("torch", "onnx", "onnxscript", "openvino"), "pip install torch==2.13.0 onnx onnxscript openvino"),
}


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours and every peer that is installed; says how to install the others."""
    options = [case, "--threads", str(a.threads), "--seconds", str(a.seconds)]
    found = [Competitor(OURS, [sys.executable, "tools/bench.py", *options])]
    if not (a.peers / "peer_inference.py").exists():
        print(f"the peers are left out: {a.peers}/peer_inference.py is not there; name its folder", file=sys.stderr)
        return found
    if has_modules(a.peer_python, "torch"):
        peer = [a.peer_python, str(a.peers / "peer_torch.py")]
        found += [Competitor(f"torch {mode}", [*peer, "--mode", mode, *options]) for mode in a.modes]
    for engine, (modules, install) in ENGINES.items():
        if has_modules(a.peer_python, *modules):
            peer = [a.peer_python, str(a.peers / "peer_inference.py")]
            found.append(Competitor(engine, [*peer, "--engine", engine, *options]))
        else:
            print(f"{engine} is left out: {a.peer_python} lacks it; {install}, and see --peer-python", file=sys.stderr)
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in CLAIMS])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    a = parser.parse_args(words)
    results = []
    for claim in chosen_cases(a, CLAIMS):
        print(f"{claim.case}, {a.threads} threads, {a.rounds} rounds", file=sys.stderr)
        results.append(compare(claim, in_turns(competitors(claim.case, a), a.rounds, a.prefix)))
    print(table(results))
    finish("inference_vs_engines", results, a.json)
    return results


if __name__ == "__main__":
    main()
