"""What training in 8 bits costs: a step of a backbone in float32 with its batch norms, without them, and in 8 bits.

`taskset -c 1 python benchmarks/eight_bits_step.py` times steps of ResNet-50 and MobileNetV2 on 8 images of 224 pixels,
in turns, and prints milliseconds of CPU time and the ratio to the first of each round: medians [smallest, largest].
The last way leaves biases as they are, which training before 2026-11-29 did. Rounding them takes as long for small
images as for large ones: `--batch 2 --side 32 --rounds 60` shows it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

from framework import from_numpy, nn, no_grad, ops, optim, program, set_num_threads, tensor
from framework.graph.passes import INFERENCE_PASSES
from framework.nn import init
from framework.quantization import ranges_of, simulated
from suites.engine.predict.deploying import in_whole_layers
from suites.engine.weights.eight_bits import fold, norms_to_fold
from suites.vision.backbones.mobilenet_v2 import MobileNetV2
from suites.vision.backbones.resnet import ResNet

NETWORKS: dict[str, Callable[[], nn.Layer]] = {
    "resnet50": lambda: ResNet(depth=50, out_strides=(32,)),
    "mobilenetv2": lambda: MobileNetV2(out_strides=(32,)),
}


def network(name: str) -> nn.Layer:
    """One with weights from seed 0, whose parameters have names."""
    made = NETWORKS[name]()
    init.initialize(made, 0)
    for path, parameter in made.named_parameters():
        parameter.name = path
    return made


def forward(layer: nn.Layer) -> Callable[[Any], Any]:
    """The last map of a backbone."""
    return lambda x: layer(x)[-1]


def folded(name: str, images: np.ndarray) -> nn.Layer:
    """One whose batch norms stand in its convolutions."""
    made = network(name).eval()
    with no_grad():
        found = program(forward(made), pass_names=()).program_for(from_numpy(images)).program
    for norm, conv in norms_to_fold(made, found).items():
        fold(made, norm, conv)
    for path, parameter in made.named_parameters():
        parameter.name = path
    return made


def step_of(layer: nn.Layer, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An update by the mean square of the last map."""
    optimizer = optim.SGD(params=list(layer.named_parameters()), lr=1e-4)

    def step(x: Any) -> Any:
        loss = ops.mean(ops.square(compute(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    layer.train()
    run: Callable[[Any], Any] = program(step)
    return run


def ways(name: str, images: np.ndarray) -> dict[str, Callable[[Any], Any]]:
    """The step in each way."""
    plain, whole, small = network(name), folded(name, images), folded(name, images).eval()
    with no_grad():
        traced = program(forward(small), pass_names=in_whole_layers(INFERENCE_PASSES)).program_for(from_numpy(images))
    ranges = ranges_of(traced.program, [[images]])
    factors = tensor(np.ones(len(ranges), np.float32))
    factors.persistable = factors.requires_grad = True

    def in_8_bits(whole_biases: bool) -> Callable[[Any], Any]:
        return step_of(small, simulated(forward(small), ranges, lambda: factors, whole_biases=whole_biases))

    return {
        "float32": step_of(plain, forward(plain)),
        "folded": step_of(whole, forward(whole)),
        "8 bits": in_8_bits(True),
        "8 bits, float32 biases": in_8_bits(False),
    }


def told(values: Sequence[float], form: str) -> str:
    """The median with the smallest and largest."""
    return f"{form % statistics.median(values)} [{form % min(values)}, {form % max(values)}]"


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=224, help="of images, in pixels")
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    a = parser.parse_args()
    set_num_threads(a.threads)
    images = np.random.default_rng(0).standard_normal((a.batch, a.side, a.side, 3)).astype(np.float32)
    for name in a.network:
        steps = ways(name, images)
        times: dict[str, list[float]] = {way: [] for way in steps}
        for number in range(a.rounds + 1):  # the first one traces
            for way, step in steps.items():
                start = time.process_time()
                step(from_numpy(images)).numpy()
                if number:
                    times[way].append(1000 * (time.process_time() - start))
        for way, own in times.items():
            ratios = [each / first for each, first in zip(own, times["float32"], strict=True)]
            print(f"{name} {way}: {told(own, '%.1f')} ms, {told(ratios, '%.2f')}", flush=True)


if __name__ == "__main__":
    main()
