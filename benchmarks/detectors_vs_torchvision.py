#!/usr/bin/env python3
"""Claim: a step of a detector is at least 1.5 times as fast as torchvision's on a CPU, in training and inference.

    python benchmarks/detectors_vs_torchvision.py [CASE ...] --peer-python PYTHON [--modes eager channels_last]

Each round runs tools/bench.py and, in the peer's interpreter, torchvision's network of the same name: forward with
targets and matching, losses, backward and the optimizer's update on the same shapes, boxes and classes, in float32, all
weights and batch norms trained. The peer's interpreter has torch and torchvision; `scripts/stub_torchvision` makes a
CUDA build of torchvision load where torch is CPU-only. Memory is the process's largest resident size.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from common import Claim, Competitor, run_claims, time_steps
from competitors import ours, peer_modes
from detection_ops_vs_torchvision import torchvision_ops
from torchvision_batches import detection_batch

CLAIMS = [
    Claim("retinanet_r50_fpn_train_b2_512", 1.5, 2.0),
    Claim("mask_rcnn_r50_fpn_train_b2_512", 1.5, 2.0),
    Claim("mask_rcnn_r50_fpn_infer_b1_800", 1.5, 2.0),
    Claim("ssd300_vgg16_train_b4", 1.5, 2.0),
]
MODES = ("eager", "channels_last")


def peer_step(case: str, mode: str) -> tuple[Callable[[], Any], int]:
    """A step of torchvision's network, of training or inference, and the images of its batch."""
    import torch

    torchvision_ops()
    from torchvision.models import detection

    from tools.bench_cases.detection import DETECTION_CLASSES, MASK_REGIONS

    torch.manual_seed(0)
    plain: dict[str, Any] = {"weights": None, "weights_backbone": None, "trainable_backbone_layers": 5}
    plain["num_classes"] = DETECTION_CLASSES + 1  # background, or a class 0 that is not used
    if case.startswith("retinanet"):
        count, side = 2, 512
        model = detection.retinanet_resnet50_fpn(**plain, min_size=side, max_size=side)
    elif case.startswith("mask_rcnn"):
        count, side = (2, 512) if "train" in case else (1, 800)
        regions = {"box_batch_size_per_image": MASK_REGIONS}
        model = detection.maskrcnn_resnet50_fpn(**plain, **regions, min_size=side, max_size=side)
    else:
        count, side = 4, 300
        model = detection.ssd300_vgg16(**plain)
    given, targets = detection_batch(count, side, masks=case.startswith("mask_rcnn"))
    layout = torch.channels_last if mode == "channels_last" else torch.contiguous_format
    model = model.to(memory_format=layout)
    if "infer" in case:
        return inference_step(model, given), count
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)

    def step() -> Any:
        terms = model(given, targets)
        loss = sum(terms.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, count


def inference_step(model: Any, images: list[Any]) -> Callable[[], Any]:
    """torchvision's predictions; the classifier's weights are made large, as ours, so that it finds 100 objects."""
    import torch

    with torch.no_grad():
        model.roi_heads.box_predictor.cls_score.weight.mul_(100)
    model.eval()

    def step() -> Any:
        with torch.inference_mode():
            return model(images)[0]["masks"]

    return step


def run_peer(a: argparse.Namespace) -> None:
    """Time the peer's step in the mode of --side and print the JSON line that `common.measure` reads."""
    import torch

    torch.set_num_threads(a.threads)
    case = a.cases[0]
    step, items = peer_step(case, a.side)
    found = time_steps(step, a.seconds)
    unit = "images/s"
    print(json.dumps({"case": case, "unit": unit, "rate": round(items / found["step_ms"] * 1e3, 3), **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and the peer in every mode where it is installed."""
    return [ours(case, a), *peer_modes(__file__, "torchvision", ("torch", "torchvision"), case, a)]


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims(
        "detectors_vs_torchvision",
        __doc__,
        CLAIMS,
        competitors,
        run_peer,
        words,
        baseline="torchvision eager",
        modes=MODES,
    )


if __name__ == "__main__":
    main()
