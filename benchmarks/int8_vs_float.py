#!/usr/bin/env python3
"""Claim: an encoder in 8 bits is at least twice as fast as in float32, and faster than ONNX Runtime's in 8 bits.

    python benchmarks/int8_vs_float.py [CASE ...] [--rounds 5] [--threads 2] [--peer-python PYTHON]

BERT-base and MiniLM (6 layers of width 384), random weights, 1 or 8 sentences of 32 or 128 tokens: ours in float32 and
in 8 bits with dynamic ranges, and what `onnxruntime.quantization.quantize_dynamic` makes of the same network's ONNX
file, in turns on the same threads. A case is such as `minilm_b8_len32`. PYTHON has onnxruntime and onnx installed;
without it the peer is left out and said so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from int8_turns import Peer, in_rounds, run_cases, timed, traced

from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES, export
from framework.quantization import quantize
from suites.nlp.models.bert import Bert

PRESETS = {"bert_base": "bert_base_uncased", "minilm": "minilm_l6"}
CASES = [f"{model}_b{batch}_len{length}" for model in PRESETS for batch in (1, 8) for length in (32, 128)]
AT_LEAST = 2.0

# What the peer runs first: its own 8-bit file.
QUANTIZED = """
import sys
from onnxruntime.quantization import QuantType, quantize_dynamic
quantize_dynamic(sys.argv[2], sys.argv[1], weight_type=QuantType.QInt8)
"""


def inputs_of(batch: int, length: int) -> dict[str, np.ndarray]:
    """Random words of sentences of one length, for the ragged and the padded forms of an encoder."""
    ids = np.random.default_rng(0).integers(1000, 20000, (batch, length))
    return {"ids": ids, "mask": np.ones((batch, length), bool), "offsets": np.arange(batch + 1) * length}


def measure(case: str, rounds: int, threads: int, python: str | None) -> dict[str, Any]:
    """Milliseconds of every competitor by round."""
    name, batch, length = case.rsplit("_", 2)
    given = inputs_of(int(batch[1:]), int(length[3:]))
    model = Bert(PRESETS[name])
    model.eval()
    ragged = {"ids": given["ids"].ravel(), "offsets": given["offsets"]}
    whole = traced(lambda ids, offsets: model(ids, offsets)[0], INFERENCE_PASSES, ragged)
    ours = {"float": timed(whole, ragged.values()), "int8": timed(quantize(whole), ragged.values())}
    with tempfile.TemporaryDirectory() as place:
        peers, folder = [], Path(place)
        if python is not None:
            padded = {key: given[key] for key in ("ids", "mask")}
            theirs = traced(lambda ids, mask: model.padded(ids, mask)[0], EXPORT_PASSES, padded)
            export(theirs, folder / "float.onnx")
            peers = [Peer(folder, padded, python, threads, QUANTIZED)]
        return {"case": case, "milliseconds": in_rounds(ours, peers, rounds), "least": AT_LEAST}


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by case."""
    return run_cases("int8_vs_float", __doc__, CASES, measure, ("onnxruntime", "onnx"), words)


if __name__ == "__main__":
    main()
