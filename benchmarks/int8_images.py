#!/usr/bin/env python3
"""Claim: an image network in 8 bits is 1.5 to 2 times as fast as in float32, and as fast as ONNX Runtime's on its file.

    python benchmarks/int8_images.py [CASE ...] [--rounds 5] [--threads 2] [--peer-python PYTHON]

Random weights, one image, static ranges: ours in float32 and in 8 bits, and ONNX Runtime on the same 8-bit network
(QDQ) and on the float one, in turns on the same threads. PYTHON has onnxruntime installed; without it the peer is left
out and said so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import finish, has_modules
from int8_vs_float import PAUSE, RUNS, row, timed, traced

import framework
from framework.graph.compiled import CompiledProgram
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

# Times one of the two files on each line of input; answers with a line of milliseconds.
PEER = """
import statistics, sys, time
import numpy as np
import onnxruntime as ort
threads, runs, x = int(sys.argv[3]), int(sys.argv[4]), np.load(sys.argv[5])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
sessions = {n: ort.InferenceSession(p, options, providers=["CPUExecutionProvider"])
            for n, p in (("int8", sys.argv[1]), ("float", sys.argv[2]))}
print("ready", flush=True)
for name in sys.stdin:
    s, times = sessions[name.strip()], []
    for _ in range(runs):
        start = time.perf_counter()
        s.run(None, {s.get_inputs()[0].name: x})
        times.append(time.perf_counter() - start)
    print(statistics.median(times[1:]) * 1e3, flush=True)
"""


class Peer:
    """A process with ONNX Runtime's sessions on both files."""

    def __init__(self, net: Layer, x: np.ndarray, python: str, threads: int, folder: Path) -> None:
        whole = traced(net, EXPORT_PASSES, {"x": x})
        export(whole, folder / "float.onnx")
        export(quantize(whole, mode="static", calibration=[[x]], method="percentile"), folder / "int8.onnx")
        np.save(folder / "x.npy", x)
        words = [folder / "int8.onnx", folder / "float.onnx", threads, RUNS, folder / "x.npy"]
        command = [python, "-c", PEER, *map(str, words)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError("ONNX Runtime's process ended")
        return line

    def milliseconds(self, name: str) -> float:
        """The median of some runs of "int8" or "float"."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def measure(case: str, rounds: int, threads: int, python: str | None) -> dict[str, Any]:
    """Milliseconds of every competitor by round."""
    make, size, least = CASES[case]
    net = make().eval()
    x = np.random.default_rng(0).standard_normal((1, size, size, 3)).astype(np.float32)
    whole = traced(net, INFERENCE_PASSES, {"x": x})
    small = quantize(whole, mode="static", calibration=[[x]], method="percentile")
    given = [framework.from_numpy(x)]
    competitors = {"float": timed(CompiledProgram(whole), given), "int8": timed(CompiledProgram(small), given)}
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(net, x, python, threads, Path(folder)) if python else None
        if peer is not None:
            competitors |= {f"onnxruntime {n}": lambda n=n: peer.milliseconds(n) for n in ("int8", "float")}
        found: dict[str, list[float]] = {name: [] for name in competitors}
        for _ in range(rounds):
            for name, run in competitors.items():
                time.sleep(PAUSE)
                found[name].append(run())
        if peer is not None:
            peer.close()
    return {"case": case, "milliseconds": found, "least": least}


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the peer installed")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    for case in a.cases:
        if case not in CASES:
            sys.exit(f"no case is called '{case}'; there are {', '.join(CASES)}")
    framework.set_num_threads(a.threads)
    python = a.peer_python if has_modules(a.peer_python, "onnxruntime") else None
    if python is None:
        print(f"ONNX Runtime is left out: {a.peer_python} lacks it; pip install onnxruntime", file=sys.stderr)
    head = ("case", "int8, ms", "float32, ms", "ratio", "at least", "ONNX Runtime int8, ms", "ratio", "to its float32")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    results = []
    for case in a.cases or CASES:
        results.append(measure(case, a.rounds, a.threads, python))
        print(row(results[-1]), flush=True)
    finish("int8_images", results, a.json)
    return results


if __name__ == "__main__":
    main()
