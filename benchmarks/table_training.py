#!/usr/bin/env python3
"""Claim: a step of sparse features costs less with a table than with PyTorch's sparse embedding and its optimizer.

    python benchmarks/table_training.py [CASE ...] --peer-python PYTHON

A step is a look-up of 26 keys a sample (16 numbers each, drawn by a power law from a million), a sum over each sample's
rows, backward and the update of the rows that were touched. Ours takes 64-bit keys and hashes them; PyTorch's
nn.EmbeddingBag(mode="sum", sparse=True) is given row numbers, so it has no keys to find, and cannot grow. Its peers by
rule: SGD, Adagrad, SparseAdam. The rate counts keys.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable

from common import OURS, ROOT, Claim, Competitor, run_claims, time_steps, two_sided

FEATURES, DIM, ROWS, BATCHES = 26, 16, 1_000_000, 16
CLAIMS = [Claim(f"{rule}_b{batch}", 2.0, 5.0) for rule in ("sgd", "adagrad", "adam") for batch in (512, 4096)]


def size_of(case: str) -> int:
    """Samples a step."""
    return int(case.split("_b")[1])


def ours(case: str, threads: int) -> Callable[[int], None]:
    """A step of ours; the keys are what PyTorch's row numbers hash to."""
    sys.path.insert(0, str(ROOT))
    import numpy as np

    import framework
    from framework import ops
    from framework.table import SGD, Adagrad, Adam, Normal, RowOptimizer, Table

    framework.set_num_threads(threads)
    rule = {"sgd": SGD, "adagrad": Adagrad, "adam": Adam}[case.split("_")[0]](lr=1e-3)
    made = Table(DIM, rule=rule, init=Normal(0.01))
    rows = RowOptimizer([made])
    rng = np.random.default_rng(0)
    numbers = (ROWS * rng.random((BATCHES, size_of(case), FEATURES)) ** 3).astype(np.int64)
    batches = [framework.from_numpy(k * -7046029254386353131) for k in numbers]

    @framework.program
    def step(keys: framework.Tensor) -> framework.Tensor:
        rows.zero_grad()
        loss = ops.mean(ops.square(ops.sum(made.lookup(keys), axes=1)))
        loss.backward()
        rows.step()
        return loss

    return lambda i: step(batches[i % BATCHES])


def torch_step(case: str, threads: int) -> Callable[[int], None]:
    """A step of PyTorch's."""
    import torch

    torch.set_num_threads(threads)
    bag = torch.nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True)
    torch.nn.init.normal_(bag.weight, 0, 0.01)
    optim = torch.optim
    kind = {"sgd": optim.SGD, "adagrad": optim.Adagrad, "adam": optim.SparseAdam}[case.split("_")[0]]
    rule = kind(bag.parameters(), lr=1e-3)
    torch.manual_seed(0)
    batches = (ROWS * torch.rand(BATCHES, size_of(case), FEATURES, dtype=torch.float64) ** 3).long()

    def step(i: int) -> None:
        rule.zero_grad()
        bag(batches[i % BATCHES]).square().mean().backward()
        rule.step()

    return step


def run(a: argparse.Namespace) -> None:
    """Time one side of a case and print the JSON line that `common.measure` reads."""
    case = a.cases[0]
    step, numbers = (ours if a.side == OURS else torch_step)(case, a.threads), itertools.count()
    found = time_steps(lambda: step(next(numbers)), a.seconds, warmup=BATCHES)  # after which every row is there
    rate = round(size_of(case) * FEATURES / found["step_ms"] / 1e3, 3)
    print(json.dumps({"rate": rate, "unit": "M keys/s", **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch where it is installed."""
    return two_sided(__file__, case, "torch sparse", ("torch",), a)


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return run_claims("table_training", __doc__, CLAIMS, competitors, run, words, baseline="torch sparse")


if __name__ == "__main__":
    main()
