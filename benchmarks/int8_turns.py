"""What the 8-bit benchmarks share: ours and the sessions of ONNX Runtime and OpenVINO in turns, and their table."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import finish, has_modules, spread

import framework
from framework import no_grad, program
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program

RUNS = 6  # of one competitor in a round; the median of all but the first counts
PAUSE = 0.1  # seconds before a turn: the threads of the one before spin for a while

# `opened(path)` of each engine gives what runs a file on `feeds` with `threads`.
ENGINES = {
    "onnxruntime": """
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = threads
def opened(path):
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)
""",
    "openvino": """
import openvino
hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
def opened(path):
    model = openvino.compile_model(path, "CPU", hints)
    return lambda: model(feeds)
""",
}

# Times one of two files on each line of input; answers with a line of milliseconds.
PEER = """
import statistics, sys, time
import numpy as np
threads, runs, feeds = int(sys.argv[3]), int(sys.argv[4]), dict(np.load(sys.argv[5]))
{engine}
calls = {{"int8": opened(sys.argv[1]), "float": opened(sys.argv[2])}}
for call in calls.values():
    call()
print("ready", flush=True)
for name in sys.stdin:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        calls[name.strip()]()
        times.append(time.perf_counter() - start)
    print(statistics.median(times[1:]) * 1e3, flush=True)
"""


class Peer:
    """A process with an engine's sessions on `int8.onnx` and `float.onnx` of a folder.

    Args:
        folder: with the files; feeds are put beside them.
        feeds: inputs of both, by name.
        python: an interpreter that has the engine.
        threads: of each session.
        before: Python code that it runs first, such as what makes one file of the other.
        engine: one of `ENGINES`.
    """

    def __init__(
        self,
        folder: Path,
        feeds: Mapping[str, np.ndarray],
        python: str,
        threads: int,
        before: str = "",
        engine: str = "onnxruntime",
    ) -> None:
        self.engine = engine
        np.savez(folder / "feeds.npz", **feeds)  # type: ignore[arg-type]
        words = [folder / "int8.onnx", folder / "float.onnx", threads, RUNS, folder / "feeds.npz"]
        self._process = subprocess.Popen(
            [python, "-c", before + PEER.format(engine=ENGINES[engine]), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer("ready")

    def _answer(self, wanted: str = "") -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline().strip():  # what runs before may print a warning first
            if not wanted or line == wanted:
                return line
        raise RuntimeError(f"{self.engine}'s process ended")

    def milliseconds(self, name: str) -> float:
        """The median of some runs of "int8" or "float"."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def traced(function: Callable[..., Any], passes: tuple[str, ...], arrays: Mapping[str, np.ndarray]) -> Program:
    """The Program of a function of these arrays, which name its inputs."""
    tensors = [framework.from_numpy(x) for x in arrays.values()]
    for name, t in zip(arrays, tensors, strict=True):
        t.name = name
    with no_grad():
        return program(function, pass_names=passes).program_for(*tensors).program


def timed(whole: Program, arrays: Iterable[np.ndarray]) -> Callable[[], float]:
    """What gives the median milliseconds of some runs of a Program on these inputs."""
    compiled, tensors = CompiledProgram(whole), [framework.from_numpy(x) for x in arrays]
    compiled.run(tensors)

    def milliseconds() -> float:
        times = []
        for _ in range(RUNS):
            start = time.perf_counter()
            compiled.run(tensors)
            times.append(time.perf_counter() - start)
        return statistics.median(times[1:]) * 1e3

    return milliseconds


def in_rounds(ours: Mapping[str, Callable[[], float]], peers: Iterable[Peer], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of "int8" and "float", ours and those of the peers, which are closed, in turns."""
    competitors, peers = dict(ours), list(peers)
    for peer in peers:
        competitors |= {f"{peer.engine} {n}": partial(peer.milliseconds, n) for n in ("int8", "float")}
    found: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(rounds):
        for name, run in competitors.items():
            time.sleep(PAUSE)
            found[name].append(run())
    for peer in peers:
        peer.close()
    return found


def row(r: Mapping[str, Any]) -> str:
    """A line of the table."""
    found = r["milliseconds"]

    def ratio(name: str) -> str:
        pairs = zip(found.get(name, []), found["int8"], strict=False)
        return spread([other / mine for other, mine in pairs])

    cells = [spread(found["int8"]), spread(found["float"]), ratio("float"), str(r["least"])]
    for engine in ENGINES:
        cells += [spread(found.get(f"{engine} int8", [])), ratio(f"{engine} int8"), ratio(f"{engine} float")]
    return "| " + " | ".join([r["case"], *cells]) + " |"


def run_cases(
    name: str,
    about: str | None,
    cases: Iterable[str],
    measure: Callable[[str, int, int, str | None], dict[str, Any]],
    modules: tuple[str, ...],
    words: list[str] | None,
) -> list[dict[str, Any]]:
    """Read the command line, measure, print the table and return the results by case.

    Args:
        name: of the benchmark.
        about: its documentation.
        cases: that there are.
        measure: gives the result of a case, for rounds, threads and the peer's interpreter.
        modules: that the peer's interpreter needs.
        words: the command line.
    """
    known = list(cases)
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(known))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the peer installed")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    for case in a.cases:
        if case not in known:
            sys.exit(f"no case is called '{case}'; there are {', '.join(known)}")
    framework.set_num_threads(a.threads)
    python = a.peer_python if has_modules(a.peer_python, *modules) else None
    if python is None:
        lacking = f"pip install {' '.join(modules)}, and see --peer-python"
        print(f"ONNX Runtime is left out: {a.peer_python} lacks it; {lacking}", file=sys.stderr)
    head = ["case", "int8, ms", "float32, ms", "ratio", "at least"]
    for engine in ("ONNX Runtime", "OpenVINO"):
        head += [f"{engine} int8, ms", "ratio", "to its float32"]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    results = []
    for case in a.cases or known:
        results.append(measure(case, a.rounds, a.threads, python))
        print(row(results[-1]), flush=True)
    finish(name, results, a.json)
    return results
