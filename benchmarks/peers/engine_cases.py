#!/usr/bin/env python3
"""ONNX Runtime and OpenVINO on the ONNX export of the networks of torch_cases.py.

    python benchmarks/peers/engine_cases.py [--engine ort|openvino] [--precision f32|bf16] [--threads N] [CASE ...]

Prints one JSON line a case, as torch_cases.py does, with "max_rel_err": how far the engine's outputs are from
PyTorch's, as a share of the largest one. It needs torch, onnx, onnxscript, and onnxruntime or openvino.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import time_steps

from peers import torch_cases

CASES = tuple(case for case in torch_cases.CASES if "_infer_" in case)


def network_and_inputs(case: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The network of an inference case in evaluation mode, and the tensors that it is called with."""
    work = torch_cases.CASES[case][1](mode="eager")
    return work.model, work.run(lambda *given: given)


def engine_call(
    engine: str, path: str, feeds: Sequence[np.ndarray], threads: int, precision: str = "f32"
) -> Callable[[], Any]:
    """What runs an ONNX file on these arrays. `precision` is OpenVINO's, whose own choice may be bf16."""
    if engine == "ort":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        named = dict(zip((each.name for each in session.get_inputs()), feeds, strict=True))
        return lambda: session.run(None, named)
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    model = openvino.compile_model(path, "CPU", hints)
    return lambda: list(model(list(feeds)).values())


def exported(
    engine: str, case: str, threads: int, precision: str = "f32"
) -> tuple[Callable[[], Any], list[np.ndarray]]:
    """A step of an engine on a case's export, and PyTorch's outputs."""
    torch.manual_seed(0)
    network, given = network_and_inputs(case)
    with torch.inference_mode():
        outputs = network(*given)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/network.onnx"
        torch.onnx.export(network, given, path, dynamo=True, verbose=False)
        call = engine_call(engine, path, [each.numpy() for each in given], threads, precision)
    return call, [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


def largest_error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of an output, as a share of its largest number."""
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-9)) for a, b in pairs)


def main(words: list[str] | None = None) -> None:
    """Measure the cases and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--engine", choices=("ort", "openvino"), default="ort")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="of OpenVINO")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    a = parser.parse_args(words)
    for case in a.cases or CASES:
        call, wanted = exported(a.engine, case, a.threads, a.precision)
        error = largest_error(call(), wanted)
        found = time_steps(call, a.seconds, least=5)
        rate = round(len(wanted[0]) / found["step_ms"] * 1e3, 3)
        unit = torch_cases.CASES[case][0]
        print(json.dumps({"case": case, "unit": unit, "rate": rate, "max_rel_err": error, **found}), flush=True)


if __name__ == "__main__":
    main()
