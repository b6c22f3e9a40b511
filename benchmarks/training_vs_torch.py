#!/usr/bin/env python3
"""Claim: a training step is faster than in PyTorch's best mode, in less memory than its eager mode.

    python benchmarks/training_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and the peer (peers/torch_cases.py; timm's networks where PyTorch has none) in every
mode: forward, loss, backward and the optimizer's update on the same shapes, in float32. Memory is the process's largest
resident size."""

from __future__ import annotations

import argparse

from common import Claim, Competitor
from competitors import compare_cases, ours, torch_modes

CLAIMS = [
    Claim("resnet50_train_b8_224", 1.4, 1.8),
    Claim("vit_s16_train_b8_224", 1.3, 1.6),
    Claim("swin_t_train_b8_224", 1.3, 1.6),
    Claim("convnext_t_train_b8_224", 1.3, 1.6),
    Claim("tsn_resnet50_train_b2_t4_224", 1.4, 1.8),
    Claim("yolov3_darknet53_train_b4_320", 1.8, 2.6),
    Claim("yolov3_mobilenetv1_train_b8_320", 1.4, 2.0),
    Claim("deeplabv3p_mobilenetv2_train_b4_256", 1.3, 1.8),
    Claim("bert_base_finetune_b8_mixed", 2.5, 3.5),
    Claim("bert_base_finetune_b8_len128", 1.15, 1.4),
    Claim("bert_mini_finetune_b32_mixed", 2.5, 3.5),
]


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch in every mode where it is installed."""
    return [ours(case, a), *torch_modes(case, a)]


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_cases("training_vs_torch", __doc__, CLAIMS, competitors, words, baseline="torch eager")


if __name__ == "__main__":
    main()
