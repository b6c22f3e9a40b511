#!/usr/bin/env python3
"""Claim: a QDQ file of another tool runs in 8 bits twice as fast as with float32 between its roundings.

    python benchmarks/qdq_files.py FILE.onnx [...] [--size 224] [--rounds 7] [--threads 1] [--peer-python PYTHON]

Each file has one input of images; extents that it leaves open are one image of `--size` pixels a side, with normal
numbers. Ours on the file's whole numbers ("int8"), ours with float32 between the roundings ("float32"), and ONNX
Runtime, in turns. PYTHON has onnxruntime installed; without it the peer is left out and said so.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import finish, has_modules, spread
from int8_turns import Peer, in_rounds, timed

import framework
from framework.onnx import load
from framework.onnx.model import IMPORT_PASSES, open_model

IN_FLOAT32 = tuple(name for name in IMPORT_PASSES if name != "fuse_qdq")


def measure(path: Path, size: int, rounds: int, threads: int, python: str | None) -> dict[str, Any]:
    """Milliseconds of every competitor by round."""
    (port,) = open_model(path).ports
    stated = port.shape or ()
    shape = [d if isinstance(d, int) else size if i else 1 for i, d in enumerate(stated)]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    programs = {
        "int8": load(path, {port.name: shape}),
        "float": load(path, {port.name: shape}, pass_names=IN_FLOAT32),
    }
    ours = {name: timed(program, [x]) for name, program in programs.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("int8", "float"):
            shutil.copy(path, Path(folder, f"{name}.onnx"))
        peers = [] if python is None else [Peer(Path(folder), {port.name: x}, python, threads)]
        return {"case": path.name, "milliseconds": in_rounds(ours, peers, rounds)}


def row(result: dict[str, Any]) -> str:
    """A line of the table."""
    found = result["milliseconds"]

    def ratio(name: str) -> str:
        return spread([other / mine for other, mine in zip(found.get(name, []), found["int8"], strict=False)])

    cells = [spread(found["int8"]), spread(found["float"]), ratio("float")]
    cells += [spread(found.get("onnxruntime int8", [])), ratio("onnxruntime int8")]
    return "| " + " | ".join([result["case"], *cells]) + " |"


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--size", type=int, default=224, help="pixels of a side, where the file leaves them open")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with onnxruntime installed")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    framework.set_num_threads(a.threads)
    python = a.peer_python if has_modules(a.peer_python, "onnxruntime") else None
    if python is None:
        print(f"ONNX Runtime is left out: {a.peer_python} lacks it; see --peer-python", file=sys.stderr)
    head = ("file", "int8, ms", "float32, ms", "ratio", "ONNX Runtime, ms", "ratio")
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    results = [measure(path, a.size, a.rounds, a.threads, python) for path in a.files]
    for result in results:
        print(row(result), flush=True)
    finish("qdq_files", results, a.json)
    return results


if __name__ == "__main__":
    main()
