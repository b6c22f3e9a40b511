#!/usr/bin/env python3
"""Claim: a training step of a video network is faster than in PyTorch's best mode.

    python benchmarks/video_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and, in the peer's interpreter, the same network (benchmarks/video_networks.py): forward,
loss, backward and the optimizer's update on the same shapes, in float32. Memory is the process's largest resident size.

What a case costs at least: multiply-adds of forward and backward over the machine's peak. ResNet-50 at 224 pixels has
4.1 G a frame forward and twice that backward: 12.3 G a frame, TSM 197 G, Non-local 8 frames 98 G and some 20 G of its
blocks, StNet 7 super-images 90 G; I3D 16 frames 8x8: 38 G forward, 113 G in all; NeXtVLAD 32 videos of 300 rows: 9,600
rows of 1024 * 2048 + 2048 * 1024, the products with the clusters and the wide layers, 0.15 T in all. A core with
AVX-512 at 2.5 GHz does 40 G (one unit for products) or 80 G (two) a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Claim
from competitors import compare_networks

CLAIMS = [
    Claim("tsm_resnet50_train_b2_t8", 1.4, 1.8),
    Claim("stnet_resnet50_train_b1_t7x5", 1.4, 1.8),
    Claim("nonlocal_resnet50_train_b1_t8", 1.4, 1.8),
    Claim("i3d_resnet50_train_b1_t16", 1.4, 1.8),
    Claim("nextvlad_train_b32", 1.4, 1.8),
]


def peer_step(case: str, mode: str) -> tuple[Callable[[], Any], int]:
    """A training step in PyTorch, and the clips of its batch."""
    import torch
    import video_networks as networks
    from torch.nn import functional as F

    torch.manual_seed(0)
    kind, count = case.split("_")[0], 2 if "b2" in case else 1
    layout = torch.contiguous_format
    if kind == "nextvlad":
        count = 32
        model: Any = networks.NeXtVLAD()
        x = torch.randn(count, networks.ROWS, 1152)
        targets = (torch.rand(count, networks.TAGS) < 1e-3).float()
        loss: Any = F.binary_cross_entropy_with_logits
        optimizer: Any = torch.optim.Adam(model.parameters(), lr=2e-4)
    else:
        targets, loss = torch.randint(0, networks.CLASSES, (count,)), F.cross_entropy
        if kind == "i3d":
            model, x = networks.I3D(), torch.randn(count, 3, 16, 224, 224)
            layout = torch.channels_last_3d if mode == "channels_last" else layout
            x = x.to(memory_format=layout)
        else:
            frames, channels = (7, 15) if kind == "stnet" else (8, 3)
            model, x = networks.Frames(kind, frames, channels), torch.randn(count, frames, channels, 224, 224)
            layout = torch.channels_last if mode == "channels_last" else layout
        if layout == torch.channels_last:  # 3-D convolutions have a layout of their own
            for part in model.modules():
                if isinstance(part, torch.nn.Conv2d):
                    part.to(memory_format=layout)
            x = x.flatten(0, 1).to(memory_format=layout).view(x.shape)
        elif layout == torch.channels_last_3d:
            model = model.to(memory_format=layout)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    model.train()
    call = torch.compile(model) if mode == "compile" else model

    def step() -> Any:
        optimizer.zero_grad()
        value = loss(call(x), targets)
        value.backward()
        optimizer.step()
        return value

    return step, count


def unit_of(case: str) -> str:
    """What is counted in a second."""
    return "videos/s" if case.startswith("nextvlad") else "clips/s"


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_networks(__file__, __doc__, CLAIMS, peer_step, unit_of, words)


if __name__ == "__main__":
    main()
