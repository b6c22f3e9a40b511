#!/usr/bin/env python3
"""Claim: a training step of a network of keypoints is faster than in PyTorch's best mode.

    python benchmarks/keypoints_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and, in the peer's interpreter, the same network: SimpleBaseline on ResNet-50 (Xiao et
al. 2018) on pictures of 256 x 192, squares of differences to 17 heatmaps, backward and the optimizer's update, in
float32. Memory is the process's largest resident size.

What a step costs at least: 5.3 G multiply-adds of a ResNet-50 at this size and 3.6 G of three transposed convolutions
a picture, and twice that backward: 213 G for 8 pictures, over the machine's peak.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Claim
from competitors import compare_networks

CLAIMS = [Claim("simple_r50_train_b8_256x192", 1.4, 1.8)]


def simple_r50() -> Any:
    """SimpleBaseline in PyTorch, with 17 points."""
    from peers.networks import ResNet50
    from torch import nn

    ups: list[nn.Module] = []
    for inside in (2048, 256, 256):
        ups += [nn.ConvTranspose2d(inside, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(inplace=True)]
    return nn.Sequential(ResNet50().body, *ups, nn.Conv2d(256, 17, 1))


def peer_step(case: str, mode: str) -> tuple[Callable[[], Any], int]:
    """A training step in PyTorch, and the pictures of its batch."""
    import torch
    from torch.nn import functional as F

    torch.manual_seed(0)
    layout = torch.channels_last if mode == "channels_last" else torch.contiguous_format
    model = simple_r50().to(memory_format=layout).train()
    images = torch.randn(8, 3, 256, 192).to(memory_format=layout)
    heatmaps = torch.rand(8, 17, 64, 48).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9, weight_decay=5e-4)
    call = torch.compile(model) if mode == "compile" else model

    def step() -> Any:
        optimizer.zero_grad()
        value = F.mse_loss(call(images), heatmaps)
        value.backward()
        optimizer.step()
        return value

    return step, 8


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_networks(__file__, __doc__, CLAIMS, peer_step, lambda case: "images/s", words)


if __name__ == "__main__":
    main()
