#!/usr/bin/env python3
"""Claim: an exported model gives the same results under ONNX Runtime, to 1e-4 of the largest.

    python benchmarks/onnx_parity.py [SOURCE ...] [--peer-python PYTHON] [--size 320]

A SOURCE is a run folder (its best weights) or a config (initial weights, batch norms set to the statistics of
pictures); by default all configs of detection, classification and segmentation. The network is exported with its own
outputs and those of the task, such as boxes after non-maximum suppression, and fed with two photographs, as one image,
as a batch of two and in another size. Our side runs the Program that the Predictor runs. PYTHON has onnxruntime
installed; without it the comparison is left out and said so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

LIMIT = 1e-4
SUITES = ("detection", "classification", "segmentation")

PEER = """
import sys
import numpy as np
try:
    import onnxruntime
except ImportError:
    sys.exit(77)
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = np.load(sys.argv[2])
names = [i.name for i in session.get_inputs()]
found = {}
for case in sorted({k.split("/")[0] for k in given}):
    for i, y in enumerate(session.run(None, {n: given[f"{case}/{n}"] for n in names})):
        found[f"{case}/{i}"] = y
np.savez(sys.argv[3], **found)
"""


def pictures() -> list[np.ndarray]:
    """Two photographs [H, W, 3] that come with scikit-learn."""
    import sklearn.datasets

    from suites.vision.pictures.images import read_image

    folder = Path(sklearn.datasets.__file__).parent / "images"
    return [read_image(folder / name) for name in ("china.jpg", "flower.jpg")]


def batch(chosen: list[np.ndarray], height: int, width: int) -> np.ndarray:
    """Pictures resized to [N, H, W, 3] and normalised."""
    import cv2

    resized = [cv2.resize(np.ascontiguousarray(p), (width, height)) for p in chosen]
    return ((np.stack(resized) / 255 - 0.45) / 0.225).astype(np.float32)


def photographs(size: int) -> list[np.ndarray]:
    """Three batches of real pictures: [1, S, S, 3], [2, S, S, 3], [1, S - 32, S + 64, 3]."""
    found = pictures()
    return [
        batch(found[:1], size, size),
        batch(found, size, size),
        batch(found[1:], size - 32, size + 64),
    ]


def outputs_of(task: Any, inputs: dict[str, Any]) -> list[Any]:
    """What is compared: the network's own outputs, and what the task makes of them."""
    own = task.model(inputs["images"])
    return [*(own if isinstance(own, (list, tuple)) else [own]), *task.eval_step(inputs).values()]


def settle(task: Any, size: int) -> None:
    """Gives an untrained network the statistics of 16 crops, so that its values are as large as a trained one's."""
    from framework import from_numpy, nn, no_grad

    norms = [layer for _, layer in task.model.named_layers() if isinstance(layer, nn.BatchNorm)]
    before = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    task.model.train()
    with no_grad():
        crops = [p[y : y + 200, x : x + 200] for p in pictures() for y in (0, 200) for x in (0, 140, 280, 420)]
        task.model(from_numpy(batch(crops, size, size)))
    task.model.eval()
    for layer, momentum in zip(norms, before, strict=True):
        layer.momentum = momentum


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference over the largest magnitude; rows of detections [N, T, 6] are matched whatever their order."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    scale = max(float(np.abs(a).max(initial=0)), 1e-12)
    if a.ndim == 3 and a.shape[2] == 6:  # equal scores may change places
        distances = np.abs(a[:, :, None] - b[:, None]).max(-1)
        return float(max(distances.min(1).max(), distances.min(2).max())) / scale
    return float(np.abs(a - b).max(initial=0)) / scale


def compare(source: Path, size: int, peer_python: str, folder: Path) -> str:
    """One line of the result for a run or a config."""
    from framework import from_numpy, no_grad, program
    from framework.graph.compiled import CompiledProgram
    from framework.graph.passes import INFERENCE_PASSES
    from framework.onnx import EXPORT_PASSES, export
    from suites.engine.config.building import build_task, read_config
    from suites.engine.predict.inference import open_run

    task = open_run(source) if source.is_dir() else build_task(read_config(source))
    task.model.eval()
    if task.eval_inputs != ("images",):
        return f"{source}: takes {task.eval_inputs}; only models of one batch of images are compared here"
    batches = photographs(size)
    if not source.is_dir():
        settle(task, min(size, 192))

    def traced(pass_names: tuple[str, ...]) -> Any:
        example = from_numpy(batches[0])
        example.name = "images"
        with no_grad():
            function = program(lambda inputs: outputs_of(task, inputs), pass_names=pass_names)
            return function.program_for({"images": example}).program

    start = time.perf_counter()
    export(traced(EXPORT_PASSES), folder / "model.onnx")
    seconds = time.perf_counter() - start
    given: dict[str, Any] = {f"{i}/images": x for i, x in enumerate(batches)}
    np.savez(folder / "in.npz", **given)
    command = [peer_python, "-c", PEER, *(str(folder / n) for n in ("model.onnx", "in.npz", "out.npz"))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77:
        return f"{source}: exported in {seconds:.1f} s; not compared, {peer_python} lacks onnxruntime (pip install it)"
    if done.returncode:
        raise RuntimeError(f"ONNX Runtime refused {source}:\n{done.stderr[-2000:]}")
    theirs, ours = np.load(folder / "out.npz"), CompiledProgram(traced(INFERENCE_PASSES))
    largest, labels, other_labels = 0.0, 0, 0
    for i, x in enumerate(batches):
        for j, y in enumerate(t.numpy() for t in ours.run([from_numpy(x)])):
            if y.dtype == np.uint8:  # a class for each pixel: where two are nearly equal, either may win
                labels, other_labels = labels + y.size, other_labels + int((y != theirs[f"{i}/{j}"]).sum())
            else:
                largest = max(largest, difference(y, theirs[f"{i}/{j}"]))
    verdict = "holds" if largest <= LIMIT and other_labels <= 1e-3 * labels else "FAILS"
    seen = f", {other_labels} of {labels} pixels of another class" if labels else ""
    return f"{source}: exported in {seconds:.1f} s; largest relative difference {largest:.2e}{seen} ({verdict})"


def main(words: list[str] | None = None) -> int:
    """Print one line a model; the exit status says whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=Path, help="run folders or configs")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with onnxruntime")
    parser.add_argument("--size", type=int, default=320, help="height and width of the pictures (320)")
    a = parser.parse_args(words)
    ok = True
    for source in a.sources or [p for s in SUITES for p in sorted((ROOT / "configs" / s).glob("*.yml"))]:
        with tempfile.TemporaryDirectory() as folder:
            line = compare(source, a.size, a.peer_python, Path(folder))
        ok = ok and "FAILS" not in line
        print(line, flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
