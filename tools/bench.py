"""Time a workload on this machine: `python tools/bench.py [CASE ...] [--threads N] [--seconds S]`.

Prints one JSON line a case: {"case", "unit", "rate", "step_ms", "steps", "peak_rss_mb"}. `rate` is the median over the
timed steps. A training step is forward, loss, backward and the optimizer's update, in float32, as one Program. The
cases are those of ../shared/bench/peer_torch.py: same networks, shapes and mathematics. benchmarks/training_vs_torch.py
runs both in turns and gives the ratio.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    from suites.vision.backbones import Backbone

Step = Callable[[], Any]


def yolov3(backbone: Callable[[], Backbone]) -> Any:
    """YOLOv3 for COCO's 80 classes: three levels of 3 * (5 + 80) channels."""
    from suites.detection.models.yolov3 import YOLOv3, YOLOv3Head
    from suites.engine.config import Factory

    return YOLOv3(backbone(), head=Factory.of(YOLOv3Head, num_classes=80))


def training(make_backbone: Callable[[], Backbone], shape: tuple[int, ...]) -> tuple[Step, int]:
    """A training step on one batch of `shape` [N, H, W, 3], and N; the loss is dense, with fixed targets."""
    import numpy as np

    from framework import from_numpy, no_grad, ops, program
    from framework.nn import init
    from framework.optim import Momentum

    rng = np.random.default_rng(0)
    model = yolov3(make_backbone)
    init.initialize(model, 0)
    images = from_numpy(rng.standard_normal(shape, np.float32))
    with no_grad():
        targets = [from_numpy(rng.random(y.shape, np.float32)) for y in model(images)]
    optimizer = Momentum(model.named_parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, decay_vectors=True)

    @program
    def step(x: Any, ts: Any) -> Any:
        terms = [ops.mean(ops.sigmoid_cross_entropy(y, t)) for y, t in zip(model(x), ts, strict=True)]
        loss = terms[0] + terms[1] + terms[2]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(images, targets), shape[0]


def inference(make_backbone: Callable[[], Backbone], shape: tuple[int, ...]) -> tuple[Step, int]:
    """The raw predictions of one batch of `shape` [N, H, W, 3], and N."""
    import numpy as np

    from framework import from_numpy, no_grad, program
    from framework.graph.passes import INFERENCE_PASSES
    from framework.nn import init

    model = yolov3(make_backbone)
    init.initialize(model, 0)
    model.eval()
    images = from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
    forward = program(lambda x: model(x), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            return forward(images)

    return step, shape[0]


def mobilenet() -> Backbone:
    """MobileNetV1 at full width."""
    from suites.vision.backbones import MobileNetV1

    return MobileNetV1()


def darknet() -> Backbone:
    """DarkNet-53."""
    from suites.vision.backbones import DarkNet53

    return DarkNet53()


CASES: dict[str, Callable[[], tuple[Step, int]]] = {
    "yolov3_mobilenetv1_train_b8_320": lambda: training(mobilenet, (8, 320, 320, 3)),
    "yolov3_darknet53_train_b4_320": lambda: training(darknet, (4, 320, 320, 3)),
    "yolov3_darknet53_infer_b1_416": lambda: inference(darknet, (1, 416, 416, 3)),
}


def measure(case: str, seconds: float) -> dict[str, Any]:
    """The JSON fields of one case; the first two steps are not timed."""
    step, items = CASES[case]()
    for _ in range(2):
        step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {
        "case": case,
        "unit": "images/s",
        "rate": round(items / median, 3),
        "step_ms": round(median * 1e3, 2),
        "steps": len(times),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main(words: list[str] | None = None) -> int:
    """Measure the cases named on the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    a = parser.parse_args(words)
    unknown = [case for case in a.cases if case not in CASES]
    if unknown:
        parser.error(f"no case is called '{unknown[0]}'; there are {', '.join(CASES)}")
    from framework import set_num_threads

    set_num_threads(a.threads)
    for case in a.cases or CASES:
        print(json.dumps(measure(case, a.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
