#!/usr/bin/env python3
"""Claim: heads that look at each object look at those that are found alone, not at all that there is room for.

    python benchmarks/few_objects.py [--network mask keypoint] [--rounds 3] [--side 800 1088] [--together null 10]

The networks of `detection/mask_rcnn_r50_fpn_torchvision` and `detection/keypoint_rcnn_r50_fpn_torchvision` with random
weights on one picture, one thread. There is room for 100 objects; 100 and 5 of them are taken as found. Printed are
seconds of CPU time, which other work on the machine moves little, of the head that looks at 10 objects at a time and of
the one that looks at all (`together: null`), and whether they say the same of what was found, bit for bit.
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

HEADS = {"mask": "masks", "keypoint": "heatmaps"}  # networks, and what their heads give
ROOM = 100


def detector(network: str, together: str, found: int) -> Callable[[Any], Any]:
    """A Program of the network in which at most `found` objects are found."""
    config = Path(f"detection/{network}_rcnn_r50_fpn_torchvision")
    wishes = ["model.pretrained=null", f"model.{network}_head.together={together}"]
    wishes.append("model.head.postprocess={score_threshold: 0}")  # random weights are sure of nothing
    model = read_config(config, wishes).build("model")
    nn.init.initialize(model, 0)
    model.eval()
    detect = model.head.detect

    def few(*given: Any) -> Any:
        every = detect(*given)
        return replace(every, counts=ops.minimum(every.counts, found))

    model.head.detect = few
    return program(lambda images: model.detect(images).by_name(), pass_names=INFERENCE_PASSES)


def measure(network: str, ways: Sequence[str], side: Sequence[int], rounds: int) -> dict[tuple[str, int], list[float]]:
    """Seconds by (`together`, objects), in turns; their table is printed."""
    image = tensor(np.random.default_rng(0).standard_normal((1, *side, 3)).astype(np.float32))
    programs = {(together, found): detector(network, together, found) for found in (ROOM, 5) for together in ways}
    seconds: dict[tuple[str, int], list[float]] = {case: [] for case in programs}
    said: dict[tuple[str, int], np.ndarray] = {}
    with no_grad():
        for case, run in programs.items():
            given = run(image)
            said[case] = given[HEADS[network]].numpy()[:, : int(given["counts"].numpy()[0])].copy()
        for _ in range(rounds):
            for case, run in programs.items():
                start = time.process_time()
                run(image)
                seconds[case].append(time.process_time() - start)
    print(f"| {network}: together | objects | seconds | bits of `{ways[0]}` |\n| --- | --- | --- | --- |")
    for (together, found), each in seconds.items():
        same = np.array_equal(said[together, found], said[ways[0], found])
        print(f"| {together} | {said[together, found].shape[1]} | {spread(each)} | {same} |", flush=True)
    return seconds


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, nargs=2, default=(800, 1088), metavar=("H", "W"))
    parser.add_argument("--together", nargs="+", default=("null", "10"))
    a = parser.parse_args(words)
    framework.set_num_threads(1)
    for network in a.network:
        measure(network, a.together, a.side, a.rounds)


if __name__ == "__main__":
    main()
