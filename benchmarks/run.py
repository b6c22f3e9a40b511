#!/usr/bin/env python3
"""All benchmarks in a row, one file of results each: `python benchmarks/run.py --peer-python PYTHON`, or `make bench`.

Takes about an hour with all peers on 2 idle cores; `--rounds 1 --seconds 3` gives a first impression. A peer that is
not installed is named with the way to install it, and the rest runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import build_time
import core_overhead
import ctr_vs_torch
import detection_ops_vs_torchvision
import detectors_vs_torchvision
import first_step
import inference_vs_engines
import int8_images
import int8_vs_float
import reader_vs_peers
import recurrent_vs_torch
import serving_vs_padded_loop
import training_vs_torch
import transformer_decoding


def main(words: list[str] | None = None) -> None:
    """Run every benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with the peers installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="timed steps of one competitor in one round (8)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("runs/bench"), help="folder for the results (runs/bench)")
    a = parser.parse_args(words)
    shared = ["--peer-python", a.peer_python, "--rounds", str(a.rounds), "--threads", str(a.threads)]

    def title(text: str) -> None:
        print(f"\n## {text}\n", flush=True)

    title("Training")
    json = str(a.output / "training_vs_torch.json")
    training_vs_torch.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Training on click logs")
    json = str(a.output / "ctr_vs_torch.json")
    ctr_vs_torch.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Inference")
    json = str(a.output / "inference_vs_engines.json")
    inference_vs_engines.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Inference in 8 bits")
    int8_vs_float.main([*shared, "--json", str(a.output / "int8_vs_float.json")])
    int8_images.main([*shared, "--json", str(a.output / "int8_images.json")])
    title("Serving")
    if serving_vs_padded_loop.missing():
        print(f"left out: {serving_vs_padded_loop.missing()}")
    else:
        rest = ["--rounds", str(a.rounds), "--threads", str(a.threads)]
        serving_vs_padded_loop.main([*rest, "--json", str(a.output / "serving_vs_padded_loop.json")])
    title("Recurrent layers")
    json = str(a.output / "recurrent_vs_torch.json")
    recurrent_vs_torch.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Operators of detectors")
    json = str(a.output / "detection_ops_vs_torchvision.json")
    detection_ops_vs_torchvision.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Detectors")
    json = str(a.output / "detectors_vs_torchvision.json")
    detectors_vs_torchvision.main([*shared, "--seconds", str(a.seconds), "--json", json])
    title("Decoding with a cache")
    rounds, threads = str(a.rounds), str(a.threads)
    json = str(a.output / "transformer_decoding.json")
    transformer_decoding.main(["--rounds", rounds, "--threads", threads, "--json", json])
    title("Click logs")
    reader_vs_peers.main(["--rounds", rounds, "--threads", threads, "--json", str(a.output / "reader_vs_peers.json")])
    title("First step of a new model")
    first_step.main([*shared, "--json", str(a.output / "first_step.json")])
    title("Clean build")
    build_time.main(["--jobs", str(a.threads), "--json", str(a.output / "build_time.json")])
    title("Overhead of the core")
    core_overhead.main()


if __name__ == "__main__":
    main()
