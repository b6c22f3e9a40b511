#!/usr/bin/env python3
"""Claim: a training step of a segmentation network is faster than in PyTorch's best mode.

    python benchmarks/segmentation_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and, in the peer's interpreter, the same network (benchmarks/segmentation_networks.py):
forward, loss, backward and the optimizer's update on the same shapes, in float32. Memory is the process's largest
resident size. DeepLabV3+ is in benchmarks/training_vs_torch.py.

What a case costs at least: multiply-adds over the machine's peak. U-Net at 256 pixels has 31 G an image forward and
twice that backward: 379 G; PSPNet at 257 pixels (maps of 33 x 33) 50 G, both heads: 300 G. Winograd does 3x3
convolutions with fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Claim
from competitors import compare_networks

CLAIMS = [
    Claim("unet_train_b4_256", 1.4, 1.8),
    Claim("pspnet_resnet50_train_b2_257", 1.4, 1.8),
]


def peer_step(case: str, mode: str) -> tuple[Callable[[], Any], int]:
    """A training step in PyTorch, and the images of its batch."""
    import segmentation_networks as networks
    import torch
    from torch.nn import functional as F

    torch.manual_seed(0)
    unet = case.startswith("unet")
    model: Any = networks.UNet() if unet else networks.PSPNet()
    count, side = (4, 256) if unet else (2, 257)
    layout = torch.channels_last if mode == "channels_last" else torch.contiguous_format
    model = model.to(memory_format=layout).train()
    images = torch.randn(count, 3, side, side).to(memory_format=layout)
    labels = torch.randint(0, networks.CLASSES, (count, side, side))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    call = torch.compile(model) if mode == "compile" else model

    def step() -> Any:
        optimizer.zero_grad()
        value = sum(F.cross_entropy(logits, labels) for logits in call(images))
        value.backward()
        optimizer.step()
        return value

    return step, count


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_networks(__file__, __doc__, CLAIMS, peer_step, lambda case: "images/s", words)


if __name__ == "__main__":
    main()
