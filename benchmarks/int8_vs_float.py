#!/usr/bin/env python3
"""Claim: an encoder in 8 bits is at least twice as fast as in float32, and faster than ONNX Runtime's in 8 bits.

    python benchmarks/int8_vs_float.py [CASE ...] [--rounds 5] [--threads 2] [--peer-python PYTHON]

BERT-base and MiniLM (6 layers of width 384), random weights, 1 or 8 sentences of 32 or 128 tokens: ours in float32 and
in 8 bits with dynamic ranges, and what `onnxruntime.quantization.quantize_dynamic` makes of the same network's ONNX
file, in turns on the same threads. A case is such as `minilm_b8_len32`. PYTHON has onnxruntime and onnx installed;
without it the peer is left out and said so.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import finish, has_modules, spread

import framework
from framework import no_grad, program
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES, export
from framework.quantization import quantize
from suites.nlp.models.bert import Bert

PRESETS = {"bert_base": "bert_base_uncased", "minilm": "minilm_l6"}
CASES = [f"{model}_b{batch}_len{length}" for model in PRESETS for batch in (1, 8) for length in (32, 128)]
AT_LEAST = 2.0
RUNS = 6  # of one competitor in a round; the median of all but the first counts
PAUSE = 0.1  # seconds before a turn: the threads of the one before spin for a while

# Quantises the file of the command line, then times both on each line of input; answers with a line of milliseconds.
PEER = """
import json, statistics, sys, time
import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import QuantType, quantize_dynamic
source, target, threads, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
quantize_dynamic(source, target, weight_type=QuantType.QInt8)
options = ort.SessionOptions()
options.intra_op_num_threads = threads
sessions = {n: ort.InferenceSession(p, options, providers=["CPUExecutionProvider"])
            for n, p in (("int8", target), ("float", source))}
feeds = dict(np.load(sys.argv[5]))
for s in sessions.values():
    s.run(None, feeds)
print("ready", flush=True)
for name in sys.stdin:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        sessions[name.strip()].run(None, feeds)
        times.append(time.perf_counter() - start)
    print(statistics.median(times[1:]) * 1e3, flush=True)
"""


def inputs_of(batch: int, length: int) -> dict[str, np.ndarray]:
    """Random words of sentences of one length, for the ragged and the padded forms of an encoder."""
    ids = np.random.default_rng(0).integers(1000, 20000, (batch, length))
    return {"ids": ids, "mask": np.ones((batch, length), bool), "offsets": np.arange(batch + 1) * length}


def traced(function: Callable[..., Any], passes: tuple[str, ...], arrays: dict[str, np.ndarray]) -> Program:
    """The Program of a function of these arrays, which name its inputs."""
    tensors = [framework.from_numpy(x) for x in arrays.values()]
    for name, t in zip(arrays, tensors, strict=True):
        t.name = name
    with no_grad():
        return program(function, pass_names=passes).program_for(*tensors).program


class Peer:
    """A process with ONNX Runtime's sessions on the padded form of the network."""

    def __init__(self, model: Bert, given: dict[str, np.ndarray], python: str, threads: int, folder: Path) -> None:
        arrays = {name: given[name] for name in ("ids", "mask")}
        export(traced(lambda ids, mask: model.padded(ids, mask)[0], EXPORT_PASSES, arrays), folder / "float.onnx")
        np.savez(folder / "feeds.npz", **arrays)
        words = [folder / "float.onnx", folder / "int8.onnx", threads, RUNS, folder / "feeds.npz"]
        command = [python, "-c", PEER, *map(str, words)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._answer("ready")

    def _answer(self, wanted: str = "") -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline().strip():  # quantize_dynamic may print a warning first
            if not wanted or line == wanted:
                return line
        raise RuntimeError("ONNX Runtime's process ended")

    def milliseconds(self, name: str) -> float:
        """The median of some runs of "int8" or "float"."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def timed(compiled: CompiledProgram, tensors: list[framework.Tensor]) -> Callable[[], float]:
    """What gives the median milliseconds of some runs of a Program on these inputs."""
    compiled.run(tensors)

    def milliseconds() -> float:
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            compiled.run(tensors)
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:]) * 1e3

    return milliseconds


def ours(p: Program, given: dict[str, np.ndarray]) -> Callable[[], float]:
    """What gives the median milliseconds of some runs of a Program."""
    return timed(CompiledProgram(p), [framework.from_numpy(given[name]) for name in ("ids", "offsets")])


def measure(case: str, rounds: int, threads: int, python: str | None) -> dict[str, Any]:
    """Milliseconds of every competitor by round."""
    name, batch, length = case.rsplit("_", 2)
    given = inputs_of(int(batch[1:]), int(length[3:]))
    model = Bert(PRESETS[name])
    model.eval()
    ragged = {key: given[key] for key in ("ids", "offsets")}
    whole = traced(
        lambda ids, offsets: model(ids, offsets)[0], INFERENCE_PASSES, ragged | {"ids": given["ids"].ravel()}
    )
    given_ours = given | {"ids": given["ids"].ravel()}
    competitors = {"float": ours(whole, given_ours), "int8": ours(quantize(whole), given_ours)}
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(model, given, python, threads, Path(folder)) if python else None
        if peer is not None:
            competitors |= {f"onnxruntime {n}": lambda n=n: peer.milliseconds(n) for n in ("int8", "float")}
        found: dict[str, list[float]] = {name: [] for name in competitors}
        for _ in range(rounds):
            for name, run in competitors.items():
                time.sleep(PAUSE)
                found[name].append(run())
        if peer is not None:
            peer.close()
    return {"case": case, "milliseconds": found, "least": AT_LEAST}


def row(r: dict[str, Any]) -> str:
    """A line of the table."""
    found = r["milliseconds"]

    def ratio(name: str) -> str:
        pairs = zip(found.get(name, []), found["int8"], strict=False)
        return spread([other / mine for other, mine in pairs])

    cells = [spread(found["int8"]), spread(found["float"]), ratio("float"), str(r["least"])]
    cells += [spread(found.get("onnxruntime int8", [])), ratio("onnxruntime int8"), ratio("onnxruntime float")]
    return "| " + " | ".join([r["case"], *cells]) + " |"


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
    python = a.peer_python if has_modules(a.peer_python, "onnxruntime", "onnx") else None
    if python is None:
        print(
            f"ONNX Runtime is left out: {a.peer_python} lacks it; pip install onnxruntime onnx, and see --peer-python",
            file=sys.stderr,
        )
    head = ("case", "int8, ms", "float32, ms", "ratio", "at least", "ONNX Runtime int8, ms", "ratio", "to its float32")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    results = []
    for case in a.cases or CASES:
        results.append(measure(case, a.rounds, a.threads, python))
        print(row(results[-1]), flush=True)
    finish("int8_vs_float", results, a.json)
    return results


if __name__ == "__main__":
    main()
