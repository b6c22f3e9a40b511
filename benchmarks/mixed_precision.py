#!/usr/bin/env python3
"""Claim: a training step in bfloat16 or float16 needs less memory than in float32, at losses that differ by roundings.

    python benchmarks/mixed_precision.py [CASE ...] [--rounds N] [--seconds S] [--json FILE]

Runs each case in float32, bfloat16 and float16 (with a loss scale) in turns, each in a fresh process, and prints the
time of a step, its arena (activations, gradients, temporaries), the peak memory of the process and the largest
deviation of the first losses from those of float32. On a CPU all three compute in float32: memory is the gain.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import Competitor, environment, finish, in_turns, spread

LOSSES = 6  # first steps whose losses are compared
PRECISIONS = ("float32", "bfloat16", "float16")


def bert_base() -> tuple[Any, Callable[[Any, list[Any]], Any], list[Any], Any]:
    """BERT-base on 8 sentences of 128 tokens, as tools/bench.py has it: model, its losses, inputs, optimizer."""
    from framework import ops
    from framework.optim import AdamW
    from tools.bench_cases.text import sentence_classifier, sentences

    model = sentence_classifier({})
    optimizer = AdamW(model.named_parameters(), lr=2e-5, weight_decay=0.01, decay_vectors=True)
    return model, lambda m, x: ops.cross_entropy(m(x[0], x[1]), x[2]), list(sentences(8, [128])), optimizer


def resnet50() -> tuple[Any, Callable[[Any, list[Any]], Any], list[Any], Any]:
    """ResNet-50 on 8 images of 224 x 224 pixels."""
    import numpy as np

    from framework import ops, tensor
    from framework.nn import init
    from framework.optim import Momentum
    from tools.bench_cases.images import resnet50 as make

    with init.undrawn():
        model = make()
    init.initialize(model, 0)
    rng = np.random.default_rng(0)
    inputs = [tensor(rng.standard_normal((8, 224, 224, 3), np.float32)), tensor(rng.integers(0, 1000, 8))]
    optimizer = Momentum(model.named_parameters(), lr=0.01, weight_decay=5e-4, decay_vectors=True)
    return model, lambda m, x: ops.cross_entropy(m(x[0]), x[1]), inputs, optimizer


CASES = {"bert_base_finetune_b8_len128": bert_base, "resnet50_train_b8_224": resnet50}


def measure(case: str, precision: str, seconds: float) -> dict[str, Any]:
    """One process's figures: the median step after the first losses, arena and peak memory."""
    from framework import autocast, ops, program
    from framework.optim import LossScaler

    model, losses, inputs, optimizer = CASES[case]()
    scaler = LossScaler() if precision == "float16" else None

    @program
    def step(xs: list[Any]) -> Any:
        with autocast(precision):
            loss = ops.mean(losses(model, xs))
        optimizer.zero_grad()
        (scaler.scaled(loss) if scaler else loss).backward()
        factor = scaler.factor(model.parameters()) if scaler else None
        optimizer.step(None, factor)
        if scaler and factor is not None:
            scaler.update(factor)
        return loss

    first = [float(step(inputs)) for _ in range(LOSSES)]
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step(inputs)
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {
        "rate": round(1 / median, 3),
        "unit": "steps/s",
        "step_ms": round(median * 1e3, 1),
        "arena_mb": round(step.program_for(inputs).memory_report().arena_bytes / 2**20, 1),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "losses": first,
        "skipped": int(scaler.skipped.item()) if scaler else 0,
    }


def table(found: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """A line for each case and precision; times and memory also relative to float32."""
    header = ("case", "precision", "step ms", "", "arena MB", "", "peak MB", "largest deviation of a loss")
    rows = [header, ("---",) * len(header)]
    for case, by_precision in found.items():
        full = by_precision["float32"]
        for precision, runs in by_precision.items():
            times = [b["step_ms"] / a["step_ms"] for a, b in zip(full, runs, strict=True)]
            away = max(abs(x - y) for x, y in zip(full[0]["losses"], runs[0]["losses"], strict=True))
            rows.append(
                (
                    case,
                    precision,
                    spread([r["step_ms"] for r in runs], 0),
                    f"{spread(times)}x",
                    f"{runs[0]['arena_mb']:.0f}",
                    f"{runs[0]['arena_mb'] / full[0]['arena_mb']:.2f}x",
                    f"{max(r['peak_rss_mb'] for r in runs)}",
                    f"{away:.2g} of {full[0]['losses'][0]:.3g}",
                )
            )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print the table, or one process's part of it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: " + ", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="timed steps of one precision in one round (6)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=PRECISIONS, help="one process's part: print its figures as JSON")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    unknown = [case for case in a.cases if case not in CASES]
    if unknown:
        parser.error(f"no case is called '{unknown[0]}'; there are {', '.join(CASES)}")
    if a.precision:
        from framework import set_num_threads

        set_num_threads(a.threads)
        print(json.dumps(measure(a.cases[0], a.precision, a.seconds)))
        return 0
    found = {}
    options = ["--seconds", str(a.seconds), "--threads", str(a.threads)]
    for case in a.cases or CASES:
        command = [sys.executable, __file__, case, *options, "--precision"]
        found[case] = in_turns([Competitor(p, [*command, p]) for p in PRECISIONS], a.rounds)
    print(environment())
    print(table(found))
    finish("mixed_precision", found, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
