#!/usr/bin/env python3
"""Claim: sums of 8-bit products are exact here on every processor, also where engines cut them off.

    python benchmarks/int8_saturation.py [--peer-python PYTHON]

A QDQ file with one 1x1 convolution of 64 channels: all inputs are 255, all weights 127 or -127. Printed is what it says
of both: exact, ours, and by the engines that PYTHON has of onnxruntime and openvino. Where a processor has no VNNI,
engines add pairs of products in 16 bits (vpmaddubsw), which hold no more than 32,767: 2 * 127 * 255 is 64,770.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import ROOT, has_modules
from int8_turns import ENGINES

sys.path.insert(0, str(ROOT))

CHANNELS, STEP = 64, 20_000.0  # of the result
PEER = """
import sys
import numpy as np
threads, feeds = 1, {{"x": np.full((1, {channels}, 4, 4), 255, np.float32)}}
{engine}
found = opened(sys.argv[1])()
y = list(found.values())[0] if hasattr(found, "values") else found[0]
print(float(y[0, 0, 0, 0]), float(y[0, 1, 0, 0]))
"""


def write_file(path: Path) -> None:
    """The QDQ file."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one", "none"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "one", "none"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ones", "nones"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "step", "middle"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "step", "middle"], ["y"]),
    ]
    weights = np.full((2, CHANNELS, 1, 1), 127, np.int8)
    weights[1] = -127
    held = {
        "one": np.float32(1), "none": np.uint8(0), "w": weights, "ones": np.ones(2, np.float32),
        "nones": np.zeros(2, np.int8), "step": np.float32(STEP), "middle": np.uint8(128),
    }  # fmt: skip
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, 4, 4])
        for name, channels in (("x", CHANNELS), ("y", 2))
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()]
    graph = helper.make_graph(nodes, "one_convolution", ports[:1], ports[1:], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def ours(path: Path) -> tuple[float, float]:
    """What we say of the file."""
    from framework.onnx import Session, open_model

    (y,) = Session(open_model(path)).run([np.full((1, CHANNELS, 4, 4), 255, np.float32)])
    return float(y[0, 0, 0, 0]), float(y[0, 1, 0, 0])


def theirs(engine: str, path: Path, python: str) -> tuple[float, float]:
    """What an engine says of the file."""
    code = PEER.format(engine=ENGINES[engine], channels=CHANNELS)
    out = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=True)
    first, second = map(float, out.stdout.split()[-2:])
    return first, second


def main(words: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    """Print the table and return its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the engines")
    a = parser.parse_args(words)
    exact = 127.0 * 255 * CHANNELS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.onnx"
        write_file(path)
        rows = {"exact": (exact, -exact), "ours": ours(path)}
        for engine in ENGINES:
            if has_modules(a.peer_python, engine):
                rows[engine] = theirs(engine, path, a.peer_python)
            else:
                print(f"{engine} is left out: {a.peer_python} lacks it; pip install {engine}, and see --peer-python")
    print("| | weights of 127 | weights of -127 |\n| --- | --- | --- |")
    for name, (first, second) in rows.items():
        print(f"| {name} | {first:,.0f} | {second:,.0f} |")
    return rows


if __name__ == "__main__":
    main()
