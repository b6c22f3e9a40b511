#!/usr/bin/env python3
"""Claim: LSTM and GRU over sequences of mixed lengths train and run faster than PyTorch's on packed sequences.

    python benchmarks/recurrent_vs_torch.py [CASE ...] --peer-python PYTHON

A case is one bidirectional layer, 256 units on 256 features: forward, or forward, backward and all gradients, of 32
sequences. `mixed` has lengths of 5 to 128 rows, `equal` 64 each. The peer packs nothing it need not: its input is a
PackedSequence made beforehand, and it runs eagerly (`torch.compile` does not take nn.LSTM apart).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import numpy as np
from common import OURS, ROOT, Claim, Competitor, run_claims, time_steps, two_sided

SEQUENCES, FEATURES, HIDDEN = 32, 256, 256
CLAIMS = [
    Claim(f"{kind}_{step}_{lengths}", 1.0, 2.0)
    for kind in ("lstm", "gru")
    for step in ("train", "infer")
    for lengths in ("mixed", "equal")
]


def lengths_of(case: str) -> np.ndarray:
    """Rows of each sequence: the same for all competitors."""
    if case.endswith("equal"):
        return np.full(SEQUENCES, 64)
    return np.random.default_rng(0).integers(5, 129, SEQUENCES)


def ours(case: str, threads: int) -> Callable[[], None]:
    """One step of ours."""
    sys.path.insert(0, str(ROOT))
    import framework
    from framework import nn, ops

    framework.set_num_threads(threads)
    lengths = lengths_of(case)
    layer = (nn.LSTM if case.startswith("lstm") else nn.GRU)(FEATURES, HIDDEN, bidirectional=True)
    x = np.random.default_rng(1).standard_normal((lengths.sum(), FEATURES), np.float32)
    values = framework.tensor(x, requires_grad="train" in case)
    offsets = framework.tensor(np.cumsum([0, *lengths]))

    @framework.program
    def infer(values: framework.Tensor, offsets: framework.Tensor) -> framework.Tensor:
        return layer(values, offsets)[0]

    @framework.program
    def train(values: framework.Tensor, offsets: framework.Tensor) -> list[framework.Tensor | None]:
        return framework.gradients([ops.mean(layer(values, offsets)[0])], [values, *layer.parameters()])

    step = train if "train" in case else infer
    return lambda: step(values, offsets)


def torch_step(case: str, threads: int) -> Callable[[], None]:
    """One step of PyTorch's."""
    import torch
    from torch.nn.utils.rnn import PackedSequence, pack_sequence

    torch.set_num_threads(threads)
    lengths = lengths_of(case)
    layer = (torch.nn.LSTM if case.startswith("lstm") else torch.nn.GRU)(FEATURES, HIDDEN, bidirectional=True)
    x = np.random.default_rng(1).standard_normal((lengths.sum(), FEATURES), np.float32)
    packed = pack_sequence(list(torch.split(torch.from_numpy(x), lengths.tolist())), enforce_sorted=False)
    data = packed.data.requires_grad_("train" in case)
    packed = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)

    def train() -> None:
        data.grad = None
        layer.zero_grad()
        layer(packed)[0].data.mean().backward()

    def infer() -> None:
        with torch.no_grad():
            layer(packed)

    return train if "train" in case else infer


def run(a: argparse.Namespace) -> None:
    """Time one side of a case and print the JSON line that `common.measure` reads."""
    found = time_steps((ours if a.side == OURS else torch_step)(a.cases[0], a.threads), a.seconds, warmup=3)
    rate = round(lengths_of(a.cases[0]).sum() / found["step_ms"] * 1e3)
    print(json.dumps({"rate": rate, "unit": "rows/s", **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch where it is installed."""
    return two_sided(__file__, case, "torch packed", ("torch",), a)


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims("recurrent_vs_torch", __doc__, CLAIMS, competitors, run, words, baseline="torch packed")


if __name__ == "__main__":
    main()
