#!/usr/bin/env python3
"""Claim: the CTC loss and its gradient on texts of mixed lengths are twice as fast as PyTorch's, and the same numbers.

    python benchmarks/ctc_vs_torch.py [CASE ...] --peer-python PYTHON

A case is the loss of 32 lines of 20 to 79 columns with a third as many labels at most, and its gradient by the scores:
`c97` of an alphabet of 97 characters, `c6625` of PP-OCRv4's. Ours takes the columns one behind the other as they are.
The peer pads them, takes `log_softmax` and `ctc_loss`. Tests say that both give the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from common import OURS, ROOT, Claim, Competitor, run_claims, time_steps, two_sided

LINES = 32
CLAIMS = [Claim("c97", 2.0, 3.0), Claim("c6625", 2.0, 3.0)]


class Lines(NamedTuple):
    """Scores float32 [rows, characters], rows of each line, labels one behind the other, labels of each line."""

    scores: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    counts: np.ndarray


def lines_of(case: str) -> Lines:
    """The same lines for all competitors."""
    drawn = np.random.default_rng(0)
    characters = int(case[1:])
    rows = drawn.integers(20, 80, LINES)
    counts = np.array([drawn.integers(3, max(4, count // 3)) for count in rows])
    labels = drawn.integers(1, characters, counts.sum())
    return Lines(drawn.normal(0, 3, (rows.sum(), characters)).astype(np.float32), rows, labels, counts)


def ours(case: str, threads: int) -> Callable[[], object]:
    """One step of ours."""
    sys.path.insert(0, str(ROOT))
    import framework
    from framework import ops

    framework.set_num_threads(threads)
    lines = lines_of(case)
    scores = framework.tensor(lines.scores, requires_grad=True)
    starts = framework.from_numpy(np.cumsum([0, *lines.rows]))
    labels, ends = framework.from_numpy(lines.labels), framework.from_numpy(np.cumsum([0, *lines.counts]))

    def step() -> None:
        scores.grad = None
        ops.sum(ops.ctc_loss(scores, starts, labels, ends)).backward()

    return step


def torch_step(case: str, threads: int) -> Callable[[], object]:
    """One step of PyTorch's."""
    import torch

    torch.set_num_threads(threads)
    lines = lines_of(case)
    scores = torch.from_numpy(lines.scores).requires_grad_()
    rows, labels, counts = (torch.from_numpy(each) for each in (lines.rows, lines.labels, lines.counts))

    def step() -> None:
        scores.grad = None
        padded = torch.nn.utils.rnn.pad_sequence(list(torch.split(scores, lines.rows.tolist())))
        found = torch.nn.functional.ctc_loss(padded.log_softmax(-1), labels, rows, counts, reduction="sum")
        found.backward()

    return step


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours and PyTorch."""
    return two_sided(__file__, case, "torch", ("torch",), a)


def run(a: argparse.Namespace) -> None:
    """Measure one side of one case and print its JSON line."""
    (case,) = a.cases
    found = time_steps((ours if a.side == OURS else torch_step)(case, a.threads), a.seconds)
    print(json.dumps({"case": case, "unit": "lines/s", "rate": round(LINES / found["step_ms"] * 1e3, 1), **found}))


def main(words: list[str] | None = None) -> list[dict]:
    """Measure in turns and return the results by case."""
    return run_claims("ctc_vs_torch", __doc__, CLAIMS, competitors, run, words)


if __name__ == "__main__":
    main()
