#!/usr/bin/env python3
"""Claim: on a GPU a training step in bfloat16 is at least as fast as PyTorch's best mode, and 0.9 times in every case.

    python benchmarks/gpu.py CASE [--peer-python PYTHON] [--device gpu]

On an H200 the claim held for ResNet-50 and BERT; the other cases were not compared with PyTorch's best mode yet
(docs/howto/devices.md has the figures). Ours and each mode of PyTorch run in turns, each in a process of its own,
compilation included: minutes. Weights are float32, what lies between layers and the factors of products bfloat16,
inputs stay on the device; steps are queued in blocks and waited for at a block's end, as in training. PyTorch runs
channels_last under autocast, eagerly and compiled; its networks are those of peers/networks.py, for
Xception-65 that of segmentation_networks.py, for Mask R-CNN torchvision's. It needs Python 3.11 or newer, JAX, our
package, and PyTorch in the same or another interpreter. `--device xla-cpu --small` tries it without a GPU. Memory is
the device's peak, of the process on xla-cpu. A V100 of 2019 did, in PaddlePaddle's own figures, 29.9 images/s of YOLOv3
on DarkNet-53, 13.7 of DeepLabV3+ on Xception-65 and 129 sentences/s of BERT-base; the line below the table says how
many times that we reach, where the case is theirs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common import OURS, ROOT, Claim, Competitor, has_modules, run_claims
from detection_ops_vs_torchvision import torchvision_ops
from torchvision_batches import detection_batch

sys.path.insert(0, str(ROOT))

MODES = ("eager", "compile")
_BLOCK = 1.0  # seconds of queued steps, about, between two looks at the clock


@dataclass(frozen=True)
class Case:
    """What is trained.

    Args:
        unit: of the rate.
        batch: items of a step; pixels a side, or tokens of a sentence (0: mixed).
        size: see `batch`.
        v100: items a second on a V100 in 2019, where that is known.
    """

    unit: str
    batch: int
    size: int
    v100: float | None = None


CASES: Mapping[str, Case] = {
    "resnet50_b128_224": Case("images/s", 128, 224),
    "yolov3_darknet53_b32_608": Case("images/s", 32, 608, v100=29.9),
    "deeplabv3p_mobilenetv2_b16_513": Case("images/s", 16, 513),
    "deeplabv3p_xception65_b16_513": Case("images/s", 16, 513, v100=13.7),
    "bert_base_b32_len128": Case("sentences/s", 32, 128, v100=129.0),
    "bert_base_b32_mixed": Case("sentences/s", 32, 0),
    "mask_rcnn_r50_fpn_b4_800": Case("images/s", 4, 800),
}
CLAIMS = [Claim(name, 0.9, 1.2) for name in CASES]


def case_of(name: str, small: bool) -> Case:
    """A case, or one of its kind that a laptop can run."""
    case = CASES[name]
    if not small:
        return case
    size = {0: 0, 128: 16}.get(case.size, 128 if name.startswith("mask_rcnn") else 64)
    return Case(case.unit, 2, size)


def our_step(name: str, case: Case) -> tuple[Callable[[], Any], int]:
    """A step of ours, which returns its loss, and the items of its batch."""
    from tools.bench_cases import detection, images, text
    from tools.bench_cases.common import dense, labelled

    shape = (case.batch, case.size, case.size, 3)
    if name.startswith("resnet50"):
        return labelled(images.resnet50, shape)
    if name.startswith("yolov3"):
        return dense(detection.yolov3_darknet, shape)
    if name.startswith("deeplabv3p"):
        return labelled(images.deeplab_xception if "xception" in name else images.deeplab_mobilenet, shape)
    if name.startswith("bert"):
        return text.finetuning(case.batch, [case.size] if case.size else text.LENGTHS)
    return detection.detector_training(detection.mask_rcnn_resnet50, case.batch, case.size, shapes(case))


def shapes(case: Case) -> tuple[Any, Any]:
    """The objects of Mask R-CNN's batch as runs, column by column from a run of background, and where each begins."""
    import numpy as np

    from tools.bench_cases.detection import detection_arrays, ellipses

    found = []
    for boxes in detection_arrays(case.batch, case.size)[1]:
        for mask in ellipses(boxes, case.size):
            flat = np.concatenate([[False], mask.T.ravel(), [not mask[-1, -1]]])
            ends = np.flatnonzero(flat[1:] != flat[:-1])
            found.append(np.diff(ends, prepend=0).astype(np.int32))
    return np.concatenate(found), np.cumsum([0, *map(len, found)])


def peer_step(name: str, case: Case, mode: str, device: str) -> tuple[Callable[[], Any], int]:
    """PyTorch's step of the same network, batch and mathematics, and the items of its batch."""
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_default_device(device)
    if name.startswith("mask_rcnn"):
        model, optimizer, run = torchvision_mask_rcnn(case, device)
    else:
        model, optimizer, run = network(name, case)
    call = torch.compile(model) if mode == "compile" else model

    def step() -> Any:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = run(call)
        loss.backward()
        optimizer.step()
        return loss

    return step, case.batch


def network(name: str, case: Case) -> tuple[Any, Any, Callable[[Any], Any]]:
    """A network of benchmarks/peers with its optimizer and what gives its loss."""
    from peers import networks, torch_cases
    from torch.nn import functional

    shape, mode = (case.batch, 3, case.size, case.size), "channels_last"
    if name.startswith("bert"):
        work = torch_cases.sentences(case.batch, [case.size] if case.size else torch_cases.LENGTHS, mode)
    elif name.startswith("yolov3"):
        draw, loss = torch_cases.shares_of, torch_cases.every_cell
        work = torch_cases.images(torch_cases.yolo_darknet, shape, mode, draw, loss)
    else:
        from segmentation_networks import DeepLabV3PlusXception65

        own = {"resnet50": networks.ResNet50, "deeplabv3p_xception65": DeepLabV3PlusXception65}
        make = next((each for start, each in own.items() if name.startswith(start)), networks.DeepLabV3PlusMobileNetV2)
        work = torch_cases.images(make, shape, mode, torch_cases.classes_of, functional.cross_entropy)
    return work.model, work.optimizers[0], work.run


def torchvision_mask_rcnn(case: Case, device: str) -> tuple[Any, Any, Callable[[Any], Any]]:
    """torchvision's Mask R-CNN, all weights and batch norms trained, 256 regions an image."""
    import torch

    torchvision_ops()
    from torchvision.models import detection

    from tools.bench_cases.detection import DETECTION_CLASSES, MASK_REGIONS

    sizes = {"min_size": case.size, "max_size": case.size, "box_batch_size_per_image": MASK_REGIONS}
    model = detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, trainable_backbone_layers=5, num_classes=DETECTION_CLASSES + 1, **sizes
    ).to(memory_format=torch.channels_last)
    given, targets = detection_batch(case.batch, case.size, device, masks=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
    return model, optimizer, lambda call: sum(call(given, targets).values())


def timed(step: Callable[[], Any], wait: Callable[[Any], object], seconds: float) -> dict[str, Any]:
    """Median time of a step in blocks that are waited for at their end, and the time from nothing to the first step."""
    begun = time.perf_counter()
    wait(step())
    first = time.perf_counter() - begun
    wait(step())
    start = time.perf_counter()
    wait(step())
    count = max(1, int(_BLOCK / max(time.perf_counter() - start, 1e-4)))
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < 3:
        start = time.perf_counter()
        for _ in range(count):
            last = step()
        wait(last)
        times.append((time.perf_counter() - start) / count)
    step_ms = round(statistics.median(times) * 1e3, 3)
    return {"step_ms": step_ms, "steps": count * len(times), "first_step_s": round(first, 2)}


@contextlib.contextmanager
def in_bfloat16(device: str) -> Iterator[None]:
    """Inside, our Programs run there in mixed precision."""
    import framework

    with framework.device(device, products="bfloat16"), framework.autocast("bfloat16"):
        yield


def run_side(a: argparse.Namespace) -> None:
    """Time one side and print the JSON line that `common.measure` reads."""
    name = a.cases[0]
    case = case_of(name, a.small)
    if a.side == OURS:
        import jax

        import framework

        framework.manual_seed(0)
        with in_bfloat16(a.device):
            step, items = our_step(name, case)
            found = timed(step, lambda loss: loss.item(), a.seconds)
        peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    else:
        import torch

        device = "cuda" if a.device == "gpu" else "cpu"
        torch.set_num_threads(a.threads)
        step, items = peer_step(name, case, a.side, device)
        found = timed(step, lambda loss: loss.item(), a.seconds)
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    memory = peak >> 20 if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    rate = round(items / found["step_ms"] * 1e3, 2)
    print(json.dumps({"case": name, "unit": case.unit, "rate": rate, "peak_rss_mb": memory, **found}))


def competitors(name: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch in each mode; Mask R-CNN, whose shapes depend on the data, eagerly only."""
    words = [name, "--seconds", str(a.seconds), "--threads", str(a.threads), "--device", a.device]
    words += ["--small"] if a.small else []
    found = [Competitor(OURS, [sys.executable, __file__, "--side", OURS, *words])]
    needed = ("torch", "torchvision") if name.startswith("mask_rcnn") else ("torch",)
    if not has_modules(a.peer_python, *needed):
        print(f"PyTorch is left out: {a.peer_python} lacks {' or '.join(needed)}", file=sys.stderr)
        return found
    modes = [mode for mode in a.modes if mode == "eager" or not name.startswith("mask_rcnn")]
    return [*found, *(Competitor(f"torch {mode}", [a.peer_python, __file__, "--side", mode, *words]) for mode in modes)]


def told(result: Mapping[str, Any]) -> str:
    """How a case stands to a V100 of 2019, where that is known."""
    case, rate = CASES[result["case"]], statistics.median(result["rates"][OURS])
    if case.v100 is None:
        return f"{result['case']}: no figure of a V100 for this network"
    return f"{result['case']}: {rate / case.v100:.1f} times a V100 of 2019 ({case.v100} {case.unit})"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The script's own."""
    parser.add_argument("--device", choices=("gpu", "xla-cpu"), default="gpu")
    parser.add_argument("--small", action="store_true", help="small batches and pictures, to try the script on a CPU")


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    results = run_claims(
        "gpu", __doc__, CLAIMS, competitors, run_side, words, modes=MODES, options=add_options, told=told
    )
    ratios = [statistics.median(result["ratios"]) for result in results if result["ratios"]]
    if len(ratios) > 1:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"geometric mean of {len(ratios)} ratios: {mean:.2f} (at least 1.00)")
    return results


if __name__ == "__main__":
    main()
