#!/usr/bin/env python3
"""Claim: Keypoint R-CNN takes twice the rate on a picture of few objects, as it looks for points of those alone.

    python benchmarks/keypoint_objects.py [--rounds 3] [--side 800 1088]

The network of `detection/keypoint_rcnn_r50_fpn_torchvision` with random weights on one picture, one thread. It has room
for 100 objects; 100 and 5 of them are taken as found. Printed are seconds of CPU time, which other work on the machine
moves little, of the head that looks at 10 objects at a time and of the one that looks at all (`together: null`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, spread

sys.path.insert(0, str(ROOT))

import framework
from framework import nn, no_grad, ops, program, tensor
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.config.building import read_config

CONFIG = Path("detection/keypoint_rcnn_r50_fpn_torchvision")


def detector(together: str, found: int) -> Callable[[Any], Any]:
    """A Program of the network in which at most `found` objects are found."""
    model = read_config(CONFIG, ["model.pretrained=null", f"model.keypoint_head.together={together}"]).build("model")
    nn.init.initialize(model, 0)
    model.eval()
    whole = model.head.detect

    def few(*given: Any) -> Any:
        every = whole(*given)
        return replace(every, counts=ops.minimum(every.counts, found))

    model.head.detect = few
    return program(lambda images: model.detect(images).by_name(), pass_names=INFERENCE_PASSES)


def main(words: Sequence[str] | None = None) -> dict[tuple[str, int], list[float]]:
    """Measure in turns, print the table and return the seconds by (`together`, objects)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, nargs=2, default=(800, 1088), metavar=("H", "W"))
    a = parser.parse_args(words)
    framework.set_num_threads(1)
    image = tensor(np.random.default_rng(0).standard_normal((1, *a.side, 3)).astype(np.float32))
    programs = {(together, found): detector(together, found) for together in ("null", "10") for found in (100, 5)}
    seconds: dict[tuple[str, int], list[float]] = {case: [] for case in programs}
    with no_grad():
        for run in programs.values():
            run(image)
        for _ in range(a.rounds):
            for case, run in programs.items():
                start = time.process_time()
                run(image)
                seconds[case].append(time.process_time() - start)
    print("| together | objects | seconds |\n| --- | --- | --- |")
    for (together, found), each in seconds.items():
        print(f"| {together} | {found} | {spread(each)} |")
    return seconds


if __name__ == "__main__":
    main()
