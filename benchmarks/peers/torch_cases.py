#!/usr/bin/env python3
"""PyTorch on the cases of tools/bench.py that benchmarks/training_vs_torch.py and inference_vs_engines.py compare.

    python benchmarks/peers/torch_cases.py [--mode MODE] [--threads N] [--seconds S] [CASE ...]

Prints one JSON line a case: "case", "unit", "rate" (what the unit counts, in a second of the median step), "step_ms",
"steps", "peak_rss_mb". A training step is forward, loss, backward and update, in float32. `channels_last` lays images
out as [N, H, W, C], `compile` is `torch.compile`; `bf16` and `bf16_compile` are channels_last under autocast, with
float32 weights. Inputs are drawn before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import time_steps

from peers import networks

MODES = ("eager", "channels_last", "compile", "bf16", "bf16_compile")
LENGTHS = [128, 24, 37, 52, 18, 95, 41, 30]  # tokens of a mixed batch of sentences, most of them short
POOL = 8  # batches of a click log that are gone through in turn


@dataclass
class Work:
    """A network with its optimizer (None: inference); `run(call)` gives the loss, or the outputs, of one batch."""

    model: nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    run: Callable[[Callable[..., Any]], Any]
    items: int


def images(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    mode: str,
    draw: Callable[[Any], Any] | None = None,
    loss: Callable[[Any, Any], torch.Tensor] | None = None,
) -> Work:
    """A network of images or clips; `draw` gives the targets of its outputs. Without a loss: inference."""
    model, x = make(), torch.randn(shape)
    if mode == "channels_last" or mode.startswith("bf16"):
        model = model.to(memory_format=torch.channels_last)
        if x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
    if draw is None or loss is None:
        return Work(model.eval(), (), lambda call: call(x), shape[0])
    with torch.no_grad():
        target = draw(model(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    return Work(model, (optimizer,), lambda call: loss(call(x), target), shape[0])


def classes_of(logits: torch.Tensor) -> torch.Tensor:
    """Drawn classes for logits [N, K, ...]."""
    return torch.randint(logits.shape[1], (logits.shape[0], *logits.shape[2:]))


def shares_of(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Drawn targets in [0, 1) for every number of a detector's levels."""
    return [torch.rand_like(each) for each in outputs]


def every_cell(outputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> torch.Tensor:
    """Binary cross entropy over all cells, the means of the levels summed."""
    losses = map(F.binary_cross_entropy_with_logits, outputs, targets)
    return torch.stack(list(losses)).sum()


def sentences(batch: int, lengths: Sequence[int], mode: str, train: bool = True, **sizes: int) -> Work:
    """BERT on sentences of these lengths in turn, padded to the longest."""
    model = networks.Bert(**sizes)
    counts = torch.tensor([lengths[i % len(lengths)] for i in range(batch)])
    longest = int(counts.max())
    generator = torch.Generator(torch.get_default_device()).manual_seed(0)
    ids = torch.randint(30522, (batch, longest), generator=generator)
    there = torch.arange(longest)[None] < counts[:, None]
    if not train:
        return Work(model.eval(), (), lambda call: call(ids, there), batch)
    labels = torch.randint(2, (batch,), generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    return Work(model, (optimizer,), lambda call: F.cross_entropy(call(ids, there), labels), batch)


def clicks(batch: int, mode: str, train: bool = True) -> Work:
    """DeepFM on a log whose low ids come often, as in click logs; a quarter of the samples are clicks."""
    model, generator = networks.DeepFM(), torch.Generator(torch.get_default_device()).manual_seed(0)
    starts = torch.arange(model.slots) * model.rows
    pool = []
    for _ in range(POOL):
        skewed = torch.rand(batch, model.slots, generator=generator).pow(4) * model.rows
        numbers = torch.rand(batch, model.numbers, generator=generator)
        clicked = torch.rand(batch, generator=generator) < 0.25
        pool.append((skewed.long() + starts, numbers, clicked.float()))
    turn = 0

    def run(call: Callable[..., Any]) -> Any:
        nonlocal turn
        ids, numbers, clicked = pool[turn % POOL]
        turn += 1
        logits = call(ids, numbers)
        return F.binary_cross_entropy_with_logits(logits, clicked) if train else logits

    if not train:
        return Work(model.eval(), (), run, batch)
    tables = [model.vectors.weight, model.weights.weight]
    dense = [p for p in model.parameters() if all(p is not table for table in tables)]
    optimizers = torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.Adam(dense, lr=1e-3)
    return Work(model, optimizers, run, batch)


def yolo_darknet() -> nn.Module:
    """YOLOv3 on DarkNet-53."""
    return networks.YOLOv3(networks.DarkNet53())


def yolo_mobilenet() -> nn.Module:
    """YOLOv3 on MobileNetV1."""
    return networks.YOLOv3(networks.MobileNetV1())


def of_timm(name: str) -> nn.Module:
    """A network of timm with random weights, without stochastic depth."""
    import timm

    return timm.create_model(name, pretrained=False, drop_path_rate=0.0)


_VIT, _SWIN = partial(of_timm, "vit_small_patch16_224"), partial(of_timm, "swin_tiny_patch4_window7_224")
_CONVNEXT = partial(of_timm, "convnext_tiny")
_LABELLED: dict[str, Any] = {"draw": classes_of, "loss": F.cross_entropy}
_DENSE: dict[str, Any] = {"draw": shares_of, "loss": every_cell}
_DEEPLAB = networks.DeepLabV3PlusMobileNetV2
_MINI: dict[str, Any] = {"hidden": 256, "layers": 4, "heads": 4, "inner": 1024}
# The unit, and what makes the work of a mode.
CASES: dict[str, tuple[str, Callable[..., Work]]] = {
    "resnet50_train_b8_224": ("images/s", partial(images, networks.ResNet50, (8, 3, 224, 224), **_LABELLED)),
    "resnet50_infer_b1_224": ("images/s", partial(images, networks.ResNet50, (1, 3, 224, 224))),
    "vit_s16_train_b8_224": ("images/s", partial(images, _VIT, (8, 3, 224, 224), **_LABELLED)),
    "vit_s16_infer_b1_224": ("images/s", partial(images, _VIT, (1, 3, 224, 224))),
    "swin_t_train_b8_224": ("images/s", partial(images, _SWIN, (8, 3, 224, 224), **_LABELLED)),
    "swin_t_infer_b1_224": ("images/s", partial(images, _SWIN, (1, 3, 224, 224))),
    "convnext_t_train_b8_224": ("images/s", partial(images, _CONVNEXT, (8, 3, 224, 224), **_LABELLED)),
    "convnext_t_infer_b1_224": ("images/s", partial(images, _CONVNEXT, (1, 3, 224, 224))),
    "yolov3_darknet53_train_b4_320": ("images/s", partial(images, yolo_darknet, (4, 3, 320, 320), **_DENSE)),
    "yolov3_darknet53_infer_b1_416": ("images/s", partial(images, yolo_darknet, (1, 3, 416, 416))),
    "yolov3_mobilenetv1_train_b8_320": ("images/s", partial(images, yolo_mobilenet, (8, 3, 320, 320), **_DENSE)),
    "deeplabv3p_mobilenetv2_train_b4_256": ("images/s", partial(images, _DEEPLAB, (4, 3, 256, 256), **_LABELLED)),
    "deeplabv3p_mobilenetv2_infer_b1_512": ("images/s", partial(images, _DEEPLAB, (1, 3, 512, 512))),
    "tsn_resnet50_train_b2_t4_224": ("clips/s", partial(images, networks.TSN, (2, 4, 3, 224, 224), **_LABELLED)),
    "bert_base_finetune_b8_len128": ("sentences/s", partial(sentences, 8, [128])),
    "bert_base_finetune_b8_mixed": ("sentences/s", partial(sentences, 8, LENGTHS)),
    "bert_base_infer_b8_mixed": ("sentences/s", partial(sentences, 8, LENGTHS, train=False)),
    "bert_mini_finetune_b32_mixed": ("sentences/s", partial(sentences, 32, LENGTHS, **_MINI)),
    "deepfm_train_b512": ("samples/s", partial(clicks, 512)),
    "deepfm_train_b4096": ("samples/s", partial(clicks, 4096)),
    "deepfm_infer_b512": ("samples/s", partial(clicks, 512, train=False)),
}


def step_of(work: Work, mode: str) -> Callable[[], object]:
    """One step of the work in a mode."""
    call = torch.compile(work.model) if mode.endswith("compile") else work.model
    half = partial(torch.autocast, "cpu", torch.bfloat16, enabled=mode.startswith("bf16"))

    def infer() -> object:
        with torch.inference_mode(), half():
            return work.run(call)

    def train() -> object:
        for optimizer in work.optimizers:
            optimizer.zero_grad()
        with half():
            loss = work.run(call)
        loss.backward()
        for optimizer in work.optimizers:
            optimizer.step()
        return loss

    return train if work.optimizers else infer


def main(words: list[str] | None = None) -> None:
    """Measure the cases and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    a = parser.parse_args(words)
    torch.set_num_threads(a.threads)
    for case in a.cases or CASES:
        unit, make = CASES[case]
        torch.manual_seed(0)
        work = make(mode=a.mode)
        found = time_steps(step_of(work, a.mode), a.seconds)
        rate = round(work.items / found["step_ms"] * 1e3, 3)
        print(json.dumps({"case": case, "unit": unit, "rate": rate, **found}), flush=True)


if __name__ == "__main__":
    main()
