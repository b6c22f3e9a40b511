#!/usr/bin/env python3
"""Claim: a call through the C interface costs under 5 microseconds more than its kernels, and no more than a call
through ONNX Runtime's.

    python benchmarks/native_overhead.py [EXPORT ...]

A Program of one operator on 4 elements has next to no kernel, so a call of it bounds the overhead; one of 100 operators
shows what each further one costs. Python's Predictor makes the same calls, in turns with the C++ program, which is
compiled here, and so does ONNX Runtime's C interface where its package for Python is installed, with its rewriting
off, so that it computes the same operators. For each EXPORT, the time of loading and of the first answer of a fresh
process is told too.
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

import numpy as np
from native_programs import compiled, compiled_for_ort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framework
from framework import onnx, ops
from framework.graph.files import save_program
from framework.predictor import Predictor

CALLS, ROUNDS = 20_000, 15
SOURCE = Path(__file__).with_suffix(".cc")


def chain_of(operators: int) -> Callable[[framework.Tensor], framework.Tensor]:
    """A function of so many operators."""

    def chain(x: framework.Tensor) -> framework.Tensor:
        for _ in range(operators):
            x = ops.relu(x)
        return x

    return chain


def exported(folder: Path, operators: int) -> Path:
    """A Program of so many operators on 4 elements, none of them fused."""
    chain = framework.program(chain_of(operators), pass_names=())
    save_program(chain.program_for(np.ones(4, np.float32)).program, folder)
    return folder


def exported_onnx(file: Path, operators: int) -> Path:
    """The same as an ONNX file, from `x` to `y`."""
    x = framework.tensor(np.ones(4, np.float32))
    x.name = "x"
    chain = framework.program(lambda given: {"y": chain_of(operators)(given["x"])}, pass_names=())
    onnx.export(chain.program_for({"x": x}).program, file, output_names=["y"])
    return file


def native(program: Path, folder: Path, calls: int, *key: Path) -> list[float]:
    """Milliseconds of loading and of the first call, microseconds of a call; `key`: that of an encrypted export."""
    done = subprocess.run([program, folder, str(calls), *key], check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.split()]


def python(folder: Path) -> float:
    """Microseconds of a call of Python's Predictor."""
    predictor, x = Predictor(folder), np.ones(4, np.float32)
    predictor.run([x])
    start = time.perf_counter()
    for _ in range(CALLS // 10):
        predictor.run([x])
    return (time.perf_counter() - start) / (CALLS // 10) * 1e6


def summary(values: list[float]) -> str:
    """Median with the least and the most."""
    return f"{statistics.median(values):8.2f}  [{min(values):.2f}, {max(values):.2f}]"


def main() -> int:
    """Prints the figures; the status is 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exports", nargs="*", type=Path, metavar="EXPORT", help="also load these, in fresh processes")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compiled(SOURCE, folder)
        found: dict[str, list[float]] = {}
        programs = {count: exported(folder / str(count), count) for count in (1, 100)}
        other = compiled_for_ort(SOURCE.with_name("native_overhead_ort.cc"), folder)
        files = {count: exported_onnx(folder / f"{count}.onnx", count) for count in programs}
        for _ in range(ROUNDS):  # in turns, so that a slow moment hits all alike
            for count, export in programs.items():
                found.setdefault(f"C++, {count} operators", []).append(native(program, export, CALLS)[2])
                found.setdefault(f"Python, {count} operators", []).append(python(export))
                if other is not None:
                    done = subprocess.run(
                        [*other, files[count], str(CALLS)], check=True, stdout=subprocess.PIPE, text=True
                    )
                    found.setdefault(f"ONNX Runtime, {count} operators", []).append(float(done.stdout.split()[0]))
        print("a call, 4 elements, microseconds: median [least, most]")
        for what, values in found.items():
            print(f"  {what:28} {summary(values)}")
        for export in a.exports:
            times = [native(program, export, 0) for _ in range(ROUNDS)]
            print(f"{export}, a fresh process, milliseconds: median [least, most]")
            for i, what in enumerate(("loading", "first answer")):
                print(f"  {what:24} {summary([t[i] for t in times])}")
    own = statistics.median(found["C++, 1 operators"])
    theirs = statistics.median(found.get("ONNX Runtime, 1 operators", [5.0]))
    return int(own >= min(5, theirs))


if __name__ == "__main__":
    sys.exit(main())
