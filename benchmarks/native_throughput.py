#!/usr/bin/env python3
"""Claim: two clones of libpaddock in two threads do more than two threads of ONNX Runtime's C interface.

    python benchmarks/native_throughput.py [CASE ...] [--threads 2] [--turn 0.5]

Programs in C++ over both interfaces are compiled here. Ours has a clone in each thread, which share their weights; the
peer's threads run one session, or have a session each ("ort each"), whichever does more. Kernels have one thread. All
stay loaded and take turns, whose order is drawn anew each time; a ratio is taken within a turn. Both run the same
network, exported by each side's own passes, on the same input, and their outputs are compared before. The ratios to
be reached are those of one input on two threads in docs/results/speed.md. ONNX Runtime is that of this interpreter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, add_options, chosen_cases, compare, finish, spread, table
from inference_in_turns import Server, take_turns
from native_programs import compiled, compiled_for_ort

sys.path.insert(0, str(ROOT))

from framework import from_numpy, no_grad, program
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.nn import Layer, init
from framework.onnx import EXPORT_PASSES, export
from framework.predictor import Predictor
from suites import ctr
from suites.classification.models.classifier import ImageClassifier
from suites.vision.backbones import MobileNetV2
from tools.bench_cases import ctr as clicks
from tools.bench_cases import detection, images, text

CLAIMS = [
    Claim("resnet50_224", 1.18, 1.3),
    Claim("mobilenetv2_224", 1.05, 1.3),
    Claim("yolov3_darknet53_416", 1.73, 1.8),
    Claim("deeplabv3p_mobilenetv2_512", 1.18, 1.3),
    Claim("bert_base_128", 1.05, 1.3),
    Claim("deepfm_512", 1.05, 1.15),
]
NEAR = 1e-3  # of the largest number of an output: float32 through a hundred layers, by two orders of summation
Step = Callable[[Mapping[str, Any]], Any]
Case = tuple[Step, dict[str, np.ndarray]]  # what is traced, and its inputs by name


def mobilenet() -> Layer:
    """MobileNetV2 with ImageNet's 1,000 classes."""
    return ImageClassifier(MobileNetV2(out_strides=(32,)), num_classes=1000)


def pictures(make: Callable[[], Layer], size: int) -> Case:
    """A network with random weights on a random picture [1, size, size, 3]."""
    with init.undrawn():
        model = make()
    init.initialize(model, 0)
    model.eval()
    x = np.random.default_rng(0).standard_normal((1, size, size, 3), np.float32)
    return lambda given: model(given["images"]), {"images": x}


def sentence(tokens: int) -> Case:
    """BERT-base on one sentence."""
    ids, offsets, _ = text.sentences(1, [tokens])
    model = text.sentence_classifier({})
    model.eval()
    return lambda given: model(given["ids"], given["offsets"]), {"ids": ids.numpy(), "offsets": offsets.numpy()}


def rows(count: int) -> Case:
    """DeepFM on rows of its table that were looked up."""
    task = clicks.task_of(ctr.DeepFM, dim=16, hidden=clicks.HIDDEN)
    task.model.eval()
    rng = np.random.default_rng(0)
    sparse = rng.standard_normal((count, clicks.SLOTS, task.model.table.dim), np.float32) * 0.1
    dense = rng.random((count, clicks.DENSE), np.float32)
    return lambda given: task.export_step(dict(given)), {"sparse": sparse, "dense": dense}


CASES: dict[str, Callable[[], Case]] = {
    "resnet50_224": lambda: pictures(images.resnet50, 224),
    "mobilenetv2_224": lambda: pictures(mobilenet, 224),
    "yolov3_darknet53_416": lambda: pictures(detection.yolov3_darknet, 416),
    "deeplabv3p_mobilenetv2_512": lambda: pictures(images.deeplab_mobilenet, 512),
    "bert_base_128": lambda: sentence(128),
    "deepfm_512": lambda: rows(512),
}


def traced(case: Case, pass_names: Sequence[str]) -> Any:
    """The Program of a case, whose inputs have their names."""
    step, arrays = case
    tensors = {name: from_numpy(array) for name, array in arrays.items()}
    for name, tensor in tensors.items():
        tensor.name = name
    with no_grad():
        return program(step, pass_names=pass_names).program_for(tensors).program


def words(side: Path, arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Tensors as native_turns.h reads them, in files of a folder."""
    return [f"{name}:{a.dtype}:{side / name}:{','.join(map(str, a.shape))}" for name, a in arrays.items()]


def servers(case: Case, a: argparse.Namespace, programs: Path, folder: Path) -> dict[str, Server]:
    """The processes of both sides, whose outputs have been compared."""
    exported = traced(case, INFERENCE_PASSES)
    save_program(exported, folder / "export")
    arrays = {str(each.name): case[1][str(each.name)] for each in exported.inputs}
    outputs = Predictor(folder / "export").run(list(arrays.values()))
    results = {f"y{i}": output for i, output in enumerate(outputs)}
    file = folder / "model.onnx"
    export(traced(case, EXPORT_PASSES), file, output_names=list(results))
    for name, array in arrays.items():
        array.tofile(folder / name)

    def started(side: str, command: Sequence[str | Path]) -> Server:
        (folder / side).mkdir()
        given = [str(a.threads), str(len(arrays)), *words(folder, arrays), *words(folder / side, results)]
        return Server([*a.prefix, *map(str, command), *given])

    found = {OURS: started(OURS, [compiled(Path(__file__).with_suffix(".cc"), programs), folder / "export"])}
    peer = compiled_for_ort(Path(__file__).with_name("native_throughput_ort.cc"), programs)
    if peer is not None:
        for side, sessions in {"ort": 1, "ort each": a.threads}.items():
            found[side] = started(side, [*peer, file, str(sessions)])
    for side in found:
        for name, wanted in results.items():
            check(side, name, np.fromfile(folder / side / name, wanted.dtype).reshape(wanted.shape), wanted)
    return found


def check(side: str, name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Ends the benchmark where an output is not Python's: bit for bit ours, nearly the peer's."""
    if side == OURS:
        same = found.tobytes() == np.ascontiguousarray(wanted).tobytes()
    else:
        same = np.abs(found.astype(np.float64) - wanted).max(initial=0) <= NEAR * np.abs(wanted).max(initial=1e-9)
    if not same:
        sys.exit(f"native_throughput: {side}: output {name} is not that of Python's Predictor")


def measure(claim: Claim, a: argparse.Namespace, programs: Path) -> dict[str, Any]:
    """The rates of a case in turns."""
    with tempfile.TemporaryDirectory() as folder:
        found = servers(CASES[claim.case](), a, programs, Path(folder))
        try:
            turns = take_turns(found, a.rounds * a.seconds, a.turn)
        finally:
            for server in found.values():
                server.stop()
    measured = {name: [turn[name] for turn in turns] for name in found}
    return compare(claim, measured, baseline="ort") | {"cpu_ratios": cost_ratios(measured)}


def cost_ratios(measured: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[float]:
    """In each turn the processor time of a run of the better peer's, over ours."""
    costs = {name: [each["cpu_ms"] for each in turns] for name, turns in measured.items()}
    peers = [name for name in costs if name != OURS]
    return [min(costs[p][i] for p in peers) / ours for i, ours in enumerate(costs[OURS])] if peers else []


def main(given: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, list(CASES))
    parser.add_argument("--turn", type=float, default=0.5, help="seconds of one side's turn (0.5)")
    a = parser.parse_args(given)
    results = []
    with tempfile.TemporaryDirectory() as programs:
        for claim in chosen_cases(a, CLAIMS):
            results.append(measure(claim, a, Path(programs)))
            print(
                table(results[-1:]),
                f"processor time of a run: {spread(results[-1]['cpu_ratios'])}",
                sep="\n",
                flush=True,
            )
    finish("native_throughput", results, a.json)
    return results


if __name__ == "__main__":
    main()
